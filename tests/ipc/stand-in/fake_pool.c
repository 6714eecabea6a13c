// SPDX-License-Identifier: MIT
/* fake_pool.c - see fake_pool.h. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "fake_pool.h"

typedef unsigned long long CUdeviceptr;

enum { INVALID_VALUE = 1 };
enum { POOLS = 32, POINTERS = 64, PLACES = 16, UNIT = 65536, ARENA = PLACES * UNIT, FILE_SIZE = 1 << 28, FD = 1, IMPORTS = 64 };

struct fake_pools fake_pools;

/* A handle is the place in the table: the next pool has the handle of one that was destroyed. */
static struct pool {
	bool used, shareable;
	unsigned int imported;		/* how often; then there are as many descriptors */
	int fd, fds[IMPORTS];
	char *arena;			/* addresses: each place of it has nothing, or a unit of the file */
	uint64_t secret;		/* also in the file's first unit */
	uint64_t fresh;			/* the file's units from here on were never allocated */
	bool taken[PLACES];
} pools[POOLS];

static struct pointer {
	CUdeviceptr base;
	size_t size;
	uint64_t unit;			/* of the file */
	struct pool *pool;
	unsigned long long id;
} pointers[POINTERS];

static unsigned long long next_id = 1ULL << 32;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What CUDA's 64 bytes have in them. */
struct place {
	uint64_t secret, offset, unit, size;
	char rest[32];
};

_Static_assert(sizeof(struct place) == 64, "as CUDA's");

/* lock */
static void note(char what)
{
	size_t n = strlen(fake_pools.log);

	if (n + 1 < sizeof(fake_pools.log))
		fake_pools.log[n] = what;
}

/* Where in the file a unit's note is: what was allocated first after it was freed; 0: it was not. */
static off_t note_of(uint64_t unit)
{
	return 4096 + (off_t)(unit / UNIT * sizeof(uint64_t));
}

/* lock: whether the pool has memory imported that was freed before this was allocated: CUDA may map a part of it then. */
static bool too_late(const struct pool *pool, uint64_t unit)
{
	for (int i = 0; i < POINTERS; i++) {
		uint64_t first = 0;

		if (pointers[i].size && pointers[i].pool == pool &&
		    pread(pool->fd, &first, sizeof(first), note_of(pointers[i].unit)) == sizeof(first) && first && first <= unit)
			return true;
	}
	return false;
}

/* lock */
static struct pool *pool_of(void *handle)
{
	for (int i = 0; i < POOLS; i++) {
		if (handle == &pools[i] && pools[i].used)
			return &pools[i];
	}
	fake_pools.wrong++;
	return NULL;
}

/* lock */
static struct pool *new_pool(int fd)
{
	struct pool *p = pools;

	while (p->used)
		p++;
	memset(p, 0, sizeof(*p));
	p->fd = fd;
	p->arena = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->arena == MAP_FAILED || pread(fd, &p->secret, sizeof(p->secret), 0) != sizeof(p->secret))
		fake_pools.wrong++;
	p->fresh = UNIT;
	p->used = true;
	return p;
}

/* lock */
static void end_pool(struct pool *p)
{
	munmap(p->arena, ARENA);
	close(p->fd);
	memset(p, 0, sizeof(*p));
}

/* lock */
static struct pointer *at(CUdeviceptr p)
{
	for (int i = 0; i < POINTERS; i++) {
		if (pointers[i].size && p - pointers[i].base < pointers[i].size)
			return &pointers[i];
	}
	return NULL;
}

/* lock: a unit of the file at that place, whatever is there. */
static void map(struct pool *pool, uint64_t offset, uint64_t unit, size_t size)
{
	CUdeviceptr base = (uintptr_t)pool->arena + offset;
	struct pointer *p = at(base);

	if (mmap((void *)(uintptr_t)base, UNIT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pool->fd, (off_t)unit) == MAP_FAILED)
		fake_pools.wrong++;
	for (p = p ? p : pointers; p->size && p->base != base;)
		p++;
	*p = (struct pointer) { base, size, unit, pool, p->unit == unit ? p->id : next_id++ };
}

/* lock */
static void unmap(struct pointer *p)
{
	if (mmap((void *)(uintptr_t)p->base, UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		fake_pools.wrong++;
	memset(p, 0, sizeof(*p));
}

/* ---- the exporter ---- */

int fake_pool_create(void **pool, bool shareable)
{
	int fd = memfd_create("fake-pool", MFD_CLOEXEC);
	uint64_t secret = 0;
	struct pool *p;

	if (ftruncate(fd, FILE_SIZE) || getrandom(&secret, sizeof(secret), 0) != sizeof(secret) ||
	    pwrite(fd, &secret, sizeof(secret), 0) != sizeof(secret))
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	p = new_pool(fd);
	p->shareable = shareable;
	pthread_mutex_unlock(&lock);
	*pool = p;
	return 0;
}

/* The first place that is free, with memory that importers of what was there before do not see. */
int cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t size, void *handle, void *stream)
{
	struct pool *p;
	int i = 0, ret = INVALID_VALUE;

	pthread_mutex_lock(&lock);
	p = pool_of(handle);
	while (p && i < PLACES && p->taken[i])
		i++;
	if (p && !p->imported && size && size <= UNIT && i < PLACES && p->fresh < FILE_SIZE) {
		p->taken[i] = true;
		map(p, (uint64_t)i * UNIT, p->fresh, size);
		p->fresh += UNIT;
		*ptr = (uintptr_t)p->arena + (unsigned int)i * UNIT;
		ret = 0;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

int cuMemPoolExportToShareableHandle(void *out, void *pool, int type, unsigned long long flags);
int cuMemPoolExportToShareableHandle(void *out, void *pool, int type, unsigned long long flags)
{
	struct pool *p;
	int fd, ret = INVALID_VALUE;

	if (fake_pools.export_error || fake_unsafe())
		return fake_pools.export_error ? fake_pools.export_error : INVALID_VALUE;
	pthread_mutex_lock(&lock);
	p = pool_of(pool);
	if (p && p->shareable && type == FD && !flags) {
		fd = dup(p->fd);	/* not closed by exec, as CUDA's */
		memcpy(out, &fd, sizeof(fd));
		ret = 0;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

int cuMemPoolExportPointer(struct place *out, CUdeviceptr ptr);
int cuMemPoolExportPointer(struct place *out, CUdeviceptr ptr)
{
	const struct pointer *p;

	if (fake_pools.export_pointer_error || fake_unsafe())
		return fake_pools.export_pointer_error ? fake_pools.export_pointer_error : INVALID_VALUE;
	if (fake_pools.exporting)
		fake_pools.exporting();
	pthread_mutex_lock(&lock);
	p = at(ptr);
	if (p && p->base == ptr && !p->pool->imported)
		*out = (struct place) {
			.secret = p->pool->secret, .offset = p->base - (uintptr_t)p->pool->arena, .unit = p->unit, .size = p->size,
		};
	else
		p = NULL;
	pthread_mutex_unlock(&lock);
	return p ? 0 : INVALID_VALUE;
}

/* ---- the importer ---- */

int cuMemPoolImportFromShareableHandle(void **out, void *fd, int type, unsigned long long flags);
int cuMemPoolImportFromShareableHandle(void **out, void *fd, int type, unsigned long long flags)
{
	uint64_t secret = 0;
	struct pool *p = NULL;

	if (fake_pools.import_error || fake_unsafe())
		return fake_pools.import_error ? fake_pools.import_error : INVALID_VALUE;
	if (type != FD || flags || pread((int)(intptr_t)fd, &secret, sizeof(secret), 0) != sizeof(secret))
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < POOLS && !p; i++) {
		if (pools[i].used && pools[i].imported && pools[i].secret == secret)
			p = &pools[i];
	}
	if (!p) {
		p = new_pool(fcntl((int)(intptr_t)fd, F_DUPFD_CLOEXEC, 0));
		fake_pools.pools++;
	}
	if (p->imported == IMPORTS)
		fake_pools.wrong++;
	else
		p->fds[p->imported++] = fcntl((int)(intptr_t)fd, F_DUPFD_CLOEXEC, 0);
	*out = p;
	note('i');
	pthread_mutex_unlock(&lock);
	return 0;
}

struct access {
	int type, id, flags;
};

int cuMemPoolSetAccess(void *pool, const struct access *access, size_t count);
int cuMemPoolSetAccess(void *pool, const struct access *access, size_t count)
{
	int ret = fake_pools.access_error;

	if (!ret && fake_unsafe())
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (!pool_of(pool) || count != 1 || access->type != 1 || access->flags != 3 || (access->id && access->id == fake_pools.no_access))
		ret = INVALID_VALUE;
	if (!ret)
		note('a');
	pthread_mutex_unlock(&lock);
	return ret;
}

int cuMemPoolImportPointer(CUdeviceptr *ptr, void *pool, const struct place *place);
int cuMemPoolImportPointer(CUdeviceptr *ptr, void *pool, const struct place *place)
{
	int ret = fake_pools.import_pointer_error;
	struct pool *p;

	if (!ret && fake_unsafe())
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	p = pool_of(pool);
	if (!ret && (!p || !p->imported || p->secret != place->secret))
		ret = INVALID_VALUE;
	if (!ret) {
		*ptr = (uintptr_t)p->arena + place->offset;
		fake_pools.pointers += !at(*ptr);
		fake_pools.wrong += too_late(p, place->unit);
		map(p, place->offset, place->unit, place->size);
		note('p');
	}
	pthread_mutex_unlock(&lock);
	if (!ret && fake_pools.imported)
		fake_pools.imported();
	return ret;
}

bool fake_pool_free(CUdeviceptr ptr, int *error)
{
	struct pointer *p;

	pthread_mutex_lock(&lock);
	p = at(ptr);
	*error = fake_pools.free_error ? fake_pools.free_error : fake_ipc_cuda.context && !fake_ipc_cuda.destroyed ? 0 : INVALID_VALUE;
	if (!p || *error) {
		pthread_mutex_unlock(&lock);
		return p;
	}
	if (p->pool->imported) {
		fake_pools.pointers--;
		note('f');
	} else {
		p->pool->taken[(p->base - (uintptr_t)p->pool->arena) / UNIT] = false;
		if (pwrite(p->pool->fd, &p->pool->fresh, sizeof(p->pool->fresh), note_of(p->unit)) != sizeof(p->pool->fresh))
			fake_pools.wrong++;
	}
	unmap(p);
	pthread_mutex_unlock(&lock);
	return true;
}

int cuMemPoolDestroy(void *pool)
{
	struct pool *p;

	if (fake_pools.destroy_error || fake_unsafe())
		return fake_pools.destroy_error ? fake_pools.destroy_error : INVALID_VALUE;
	pthread_mutex_lock(&lock);
	p = pool_of(pool);
	for (int i = 0; p && i < POINTERS; i++) {
		if (pointers[i].size && pointers[i].pool == p && p->imported) {
			fake_pools.wrong++;
			p = NULL;
		}
	}
	if (p && p->imported) {
		close(p->fds[--p->imported]);
		note('d');
		fake_pools.pools -= !p->imported;
	}
	for (int i = 0; p && i < POINTERS && !p->imported; i++) {
		if (pointers[i].size && pointers[i].pool == p)
			unmap(&pointers[i]);
	}
	if (p && !p->imported)
		end_pool(p);
	pthread_mutex_unlock(&lock);
	return p ? 0 : INVALID_VALUE;
}

void fake_pool_lose(bool others)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < POINTERS; i++) {
		if (!pointers[i].size || !pointers[i].pool->imported)
			continue;
		if (others) {
			pointers[i].id = next_id++;
			continue;
		}
		fake_pools.pointers--;
		unmap(&pointers[i]);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- what there is ---- */

bool fake_pool_attribute(CUdeviceptr ptr, int attribute, void *data, int *error)
{
	const struct pointer *p;

	pthread_mutex_lock(&lock);
	p = at(ptr);
	if (p && p->pool->imported && ptr - p->base >= p->size - fake_pools.partly)
		p = NULL;
	if (p) {
		const struct pointer_attributes a = { .type = fake_pools.host ? 1 : 2, .id = p->id, .base = p->base, .size = p->size + fake_pools.longer };

		*error = attribute == 17 ? 0 : pointer_attribute(&a, attribute, data);
		if (attribute == 17)
			*(void **)data = p->pool;
	}
	pthread_mutex_unlock(&lock);
	return p;
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
	*count = fake_pools.devices ? fake_pools.devices : 1;
	return 0;
}

/* CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES; of others it knows nothing. */
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = attribute == 119 && !fake_pools.gpu_shares_none ? FD : 0;
	return device ? INVALID_VALUE : 0;
}
