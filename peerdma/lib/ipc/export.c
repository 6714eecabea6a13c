// SPDX-License-Identifier: MIT
/*
 * export.c - what this process exports, and the end of exports when memory is freed.
 *
 * A free is reported before it happens (peerdma_monitor.h), in the thread that frees: freed() ends
 * each export of that memory by one store that importers see, takes no lock and allocates nothing.
 * Then the free goes on. An export is made in this order: from publish() on a free ends it; then its
 * memory is identified again; then its handle is returned if nothing has ended it since. If a free
 * began before publish(), the event after the free calls doubt().
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <fcntl.h>

#include "../base/memory.h"
#include "../base/own_fd.h"
#include "../monitor/monitor.h"
#include "ipc.h"
#include "peerdma_monitor.h"

/* peerdma_ipc_alloc()'s */
struct ipc_block {
	struct ipc_block *next;
	void *addr;
	size_t length;		/* whole pages */
	struct own_fd file;
};

enum { HOST, DEVICE };

/* ---- frees ---- */

/*
 * Whether an event that names no memory can be of this provider's: contexts take cuMemAlloc()'s
 * with them. What modules have is not exported. Pools belong to the process, and one that is destroyed
 * or trimmed leaves what is allocated from it.
 */
static bool may_free(const char *call, uint32_t provider)
{
	static const char *const others[] = { "cuModule", "cuLibrary", "cuMemPool" };

	if (!call)
		return true;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (!strncmp(call, others[i], strlen(others[i])))
			return false;
	}
	if (!strncmp(call, "hsa_", 4))
		return provider == IPC_HSA;
	return provider == IPC_CUDA || strncmp(call, "cu", 2);
}

static void doubt(struct ipc *ipc, uint32_t slot, uint64_t generation, uint32_t provider);

/* A free ends it; its descriptor is closed by another thread.  False: it had ended. */
static bool end_freed(struct ipc *ipc, uint32_t slot, uint64_t generation)
{
	if (!ipc_record_end(ipc, slot, generation))
		return false;
	ipc_count(ipc, ended);
	ipc_todo_add(ipc, IPC_REAP, slot);
	return true;
}

static void freed(void *arg, const struct peerdma_hook_event *event)
{
	bool device = arg, all = device && !event->addr && event->length == UINT64_MAX, any = false;
	struct ranges_place place = { 0 };
	struct ipc *ipc = ipc_there();
	uint64_t last = event->addr + event->length - 1;
	uint32_t slot;

	if (event->kind != PEERDMA_HOOK_FREE || !event->length || !ipc || !__atomic_load_n(&ipc->home, __ATOMIC_ACQUIRE))
		return;
	if (last < event->addr)
		last = UINT64_MAX;
	while ((slot = ranges_next(&ipc->ranges[device], event->addr, last, &place)) != RANGES_NONE) {
		const struct ipc_record *r = &ipc->records[slot];
		uint64_t generation = ipc_generation(ipc, slot), base, length;
		uint32_t provider = __atomic_load_n(&r->device, __ATOMIC_RELAXED);

		/* If the record is used again meanwhile, its generation is another; since the range was found, it may be for other memory. */
		if (!(generation & 1) || !!provider != device || (all && !may_free(event->call, provider)))
			continue;
		base = __atomic_load_n(&r->base, __ATOMIC_RELAXED);
		length = __atomic_load_n(&r->length, __ATOMIC_RELAXED);
		if (!length || base > last || event->addr >= base + length)
			continue;
		if (event->after)
			doubt(ipc, slot, generation, provider);
		else
			any |= end_freed(ipc, slot, generation);
	}
	if (any)
		ipc_wake(ipc);
}

/* Frees of that kind of memory are seen from here on: 0, or -EOPNOTSUPP with text. */
static int watch(struct ipc *ipc, int kind)
{
	static int device_arg;
	int ret;

	if (__atomic_load_n(&ipc->watched[kind], __ATOMIC_ACQUIRE))
		return kind == DEVICE && !device_monitor_complete() ?
		       fail(-EOPNOTSUPP, "libpeerdma-hooks does not see every free any more; see peerdma_hooks_report(), or pass "
			    "PEERDMA_IPC_I_UNEXPORT and end exports yourself") : 0;
	ret = peerdma_monitor_subscribe(kind == DEVICE ? PEERDMA_MEMORY_DEVICE : PEERDMA_MEMORY_HOST, freed,
					kind == DEVICE ? &device_arg : NULL);
	if (!ret && kind == DEVICE && !device_monitor_complete())
		ret = fail(-EOPNOTSUPP, "libpeerdma-hooks does not see every free in this process; see peerdma_hooks_report()");
	if (ret)
		return fail(ret == -ENOMEM ? ret : -EOPNOTSUPP, "nothing reports when the memory is freed (%s); pass "
			    "PEERDMA_IPC_I_UNEXPORT if you call peerdma_ipc_unexport() before you free it", peerdma_last_error());
	__atomic_store_n(&ipc->watched[kind], true, __ATOMIC_RELEASE);
	return 0;
}

/*
 * A free has passed.  Where a record has that memory still, it was made after the free began; the memory
 * may be what was freed, or already another allocation that was exported since.
 */
static void doubt(struct ipc *ipc, uint32_t slot, uint64_t generation, uint32_t provider)
{
	const struct ipc_record *r = &ipc->records[slot];
	struct ipc_offer now = { .fd = -1 };
	uint64_t base = __atomic_load_n(&r->base, __ATOMIC_RELAXED), id = __atomic_load_n(&r->id, __ATOMIC_RELAXED);
	uint32_t was;
	bool gone;

	if (!provider) {
		/* It cannot be looked at here, inside of munmap() or free(). */
		ipc_todo_add(ipc, IPC_RECHECK, slot);
		ipc_wake(ipc);
		return;
	}
	/* HSA numbers nothing: such an export ends, whichever memory's it is. */
	was = attempt_begin();
	gone = !id || ipc_identify_cuda((void *)(uintptr_t)base, &now) || now.id != id;
	attempt_end(was, 0);
	if (gone && end_freed(ipc, slot, generation))
		ipc_wake(ipc);
}

void ipc_recheck(struct ipc *ipc)
{
	uint32_t at = ipc_todo_take(ipc, IPC_RECHECK), slot;
	struct ipc_offer was, now;

	while (ipc_todo_next(ipc, IPC_RECHECK, &at, &slot)) {
		struct ipc_record *r = &ipc->records[slot];
		uint64_t generation;
		bool host;

		pthread_mutex_lock(&ipc->lock);
		generation = ipc_generation(ipc, slot);
		was = r->offer;
		/* The thread that freed may have meant what this record had before: now it may be a signal. */
		host = r->what == IPC_MEMORY && !r->device;
		pthread_mutex_unlock(&ipc->lock);
		if (!host || was.borrowed || (!ipc_identify_host((void *)(uintptr_t)was.base, &now) && ipc_same_memory(&was, &now)))
			continue;
		end_freed(ipc, slot, generation);
	}
}

/* ---- host memory to be shared ---- */

static int alloc(size_t length, void **ptr)
{
	struct ipc *ipc = ipc_get();
	struct ipc_block *b = ipc ? calloc(1, sizeof(*b)) : NULL;
	int fd, ret;

	if (!b)
		return fail(-ENOMEM, "%s", error_words(-ENOMEM));
	b->length = memory_rounded(length);
	ret = b->length < length || b->length > INT64_MAX ? fail(-ENOMEM, "%zu bytes are more than the address space", length) :
	      ipc_file_make("peerdma-ipc-memory", b->length, false, &fd, &b->addr);
	if (ret) {
		free(b);
		return ret;
	}
	/* All of it now: later a page that cannot be had would be a SIGBUS. */
	do
		ret = fallocate(fd, 0, 0, (off_t)b->length) ? -errno : 0;
	while (ret == -EINTR);
	if (ret && ret != -EOPNOTSUPP) {
		munmap(b->addr, b->length);
		close(fd);
		free(b);
		return fail(-ENOMEM, "cannot allocate %zu bytes of shared memory: %s", length, strerror(-ret));
	}
	b->file = own_fd(fd);
	*ptr = b->addr;
	pthread_mutex_lock(&ipc->lock);
	b->next = ipc->blocks;
	LIST_STORE(&ipc->blocks, b);
	pthread_mutex_unlock(&ipc->lock);
	return 0;
}

EXPORT int peerdma_ipc_alloc(size_t length, unsigned int flags, void **ptr)
{
	int was, ret = check_given("peerdma_ipc_alloc", "ptr", ptr, NULL);

	if (ret)
		return ret;
	if (flags || !length)
		return fail(-EINVAL, "peerdma_ipc_alloc: %zu bytes, flags %#x: give a length, and 0 for flags", length, flags);
	was = cancel_off();
	ret = alloc(length, ptr);
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_alloc: %s", peerdma_last_error()) : 0;
}

/* lock */
static void end_overlapping(struct ipc *ipc, uint64_t base, uint64_t length)
{
	struct ranges_place place = { 0 };
	uint32_t slot;

	while ((slot = ranges_next(&ipc->ranges[HOST], base, base + length - 1, &place)) != RANGES_NONE) {
		if (ipc_record_end(ipc, slot, ipc_generation(ipc, slot))) {
			ipc_count(ipc, ended);
			ipc_reap_one(ipc, slot);
		}
	}
}

/* Whether it is the memory of a process that forked this one, of which this one has a copy of the list. */
static bool parents(const struct ipc *ipc, const void *ptr)
{
	for (; ipc; ipc = ipc->parent) {
		for (const struct ipc_block *b = ipc->blocks; b; b = b->next) {
			if (b->addr == ptr)
				return true;
		}
	}
	return false;
}

EXPORT int peerdma_ipc_free(void *ptr)
{
	struct ipc *ipc;
	struct ipc_block **at, *b = NULL;
	int was;

	if (!ptr)
		return 0;
	was = cancel_off();
	ipc = ipc_get();
	if (ipc) {
		pthread_mutex_lock(&ipc->lock);
		for (at = &ipc->blocks; *at && (*at)->addr != ptr; at = &(*at)->next)
			;
		b = *at;
		if (b) {
			LIST_STORE(at, b->next);
			end_overlapping(ipc, (uintptr_t)b->addr, b->length);
		}
		pthread_mutex_unlock(&ipc->lock);
	}
	if (b) {
		munmap(b->addr, b->length);
		own_fd_close(&b->file);
		free(b);
	}
	cancel_back(was);
	if (b || (ipc && parents(ipc->parent, ptr)))
		return 0;
	return fail(-EINVAL, "peerdma_ipc_free: %p is not what peerdma_ipc_alloc() returned, or was freed", ptr);
}

/* ---- exports ---- */

/* lock: the live export of this allocation; IPC_SLOTS: none. */
static uint32_t find(struct ipc *ipc, const struct ipc_offer *offer)
{
	const struct ranges *ranges = &ipc->ranges[offer->provider != IPC_HOST];
	struct ranges_place place = { 0 };
	uint32_t slot;

	while ((slot = ranges_next(ranges, offer->base, offer->base, &place)) != RANGES_NONE) {
		if (ipc_generation(ipc, slot) & 1 && ipc_same_memory(&ipc->records[slot].offer, offer))
			return slot;
	}
	return IPC_SLOTS;
}

/* Of a block its own descriptor; else as the provider finds it. */
static int identify(struct ipc *ipc, const void *ptr, struct ipc_offer *offer, bool *block)
{
	uint64_t p = (uintptr_t)ptr;
	bool imported;

	memset(offer, 0, sizeof(*offer));
	offer->fd = -1;
	*block = false;
	pthread_mutex_lock(&ipc->lock);
	imported = ipc_imported(ipc, p);
	for (const struct ipc_block *b = ipc->blocks; b && !*block; b = b->next) {
		if (p - (uintptr_t)b->addr < b->length) {
			*offer = (struct ipc_offer) { .provider = IPC_HOST, .base = (uintptr_t)b->addr, .length = b->length, .fd = -1 };
			*block = true;
		}
	}
	pthread_mutex_unlock(&ipc->lock);
	if (imported)
		return fail(-EEXIST, "%p: another process's memory, which this one opened; let its owner export it", ptr);
	return *block ? 0 : ipc_identify(ptr, offer);
}

/* lock: the descriptor of a block, which stays its own; NULL: there is no such block. */
static const struct own_fd *block_file(const struct ipc *ipc, uint64_t base)
{
	for (const struct ipc_block *b = ipc->blocks; b; b = b->next) {
		if ((uintptr_t)b->addr == base)
			return &b->file;
	}
	return NULL;
}

/* lock.  From here on a free ends it; no other process has its key yet. */
static int publish(struct ipc *ipc, const struct ipc_offer *offer, unsigned int flags, uint32_t *slot)
{
	struct ipc_record *r;
	int ret = ipc_record_get(ipc, slot);

	if (ret)
		return ret;
	r = &ipc->records[*slot];
	r->what = IPC_MEMORY;
	r->flags = flags;
	r->offer = *offer;
	__atomic_store_n(&r->device, offer->provider == IPC_HOST ? 0 : offer->provider, __ATOMIC_RELAXED);
	__atomic_store_n(&r->id, offer->id, __ATOMIC_RELAXED);
	__atomic_store_n(&r->base, offer->base, __ATOMIC_RELAXED);
	__atomic_store_n(&r->length, offer->length, __ATOMIC_RELAXED);
	ranges_insert(&ipc->ranges[offer->provider != IPC_HOST], *slot, offer->base, offer->base + offer->length - 1);
	r->ranged = true;
	ipc_record_publish(ipc, *slot);
	return 0;
}

static void name_of(struct ipc *ipc, uint32_t slot, uint64_t offset, uint64_t length, const struct ipc_id *boot,
		    struct peerdma_ipc_handle *handle)
{
	struct ipc_name name;

	ipc_record_name(ipc, slot, &name);
	name.boot = *boot;
	name.offset = offset;
	name.length = length;
	ipc_handle_make(&name, handle);
}

static int fail_freed(const void *ptr)
{
	return fail(-ENXIO, "%p: the memory was freed meanwhile", ptr);
}

/* 0: that memory is still what it was, now that a free of it would end the export. */
static int same_still(struct ipc *ipc, const void *ptr, const struct ipc_offer *was)
{
	struct ipc_offer now;
	bool block;
	int ret = identify(ipc, ptr, &now, &block);

	/* It could not be asked: that says nothing of the memory. */
	if (ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM || ret == -ENODEV)
		return ret;
	return !ret && !block && ipc_same_memory(&now, was) ? 0 : fail_freed(ptr);
}

/* lock: of a block, which peerdma_ipc_free() frees with the lock. */
static int export_block(struct ipc *ipc, const void *ptr, struct ipc_offer *offer, unsigned int flags, uint32_t *slot)
{
	const struct own_fd *file = block_file(ipc, offer->base);
	int ret;

	if (!file)
		return fail_freed(ptr);
	if (!own_fd_still(file))
		return fail(-EBADF, "%p: the program has closed the descriptor of this memory, as a daemon does; allocate it after that", ptr);
	offer->fd = file->fd;
	offer->borrowed = true;
	ret = publish(ipc, offer, flags, slot);
	if (!ret)
		ipc->records[*slot].file = *file;
	return ret;
}

/*
 * lock: the pool of CUDA's with that handle. Its other exports, if any, have its number already; else it gets a new one, since
 * the handle may have been another pool's.  0 or -ENOMEM with text.
 */
static int pool_of(struct ipc *ipc, uint64_t handle, struct ipc_exported_pool **pool)
{
	struct ipc_exported_pool *p;

	/* What frees have ended is no export of it any more. */
	ipc_reap(ipc);
	for (p = ipc->pools; p && p->pool != handle; p = p->next)
		;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return fail(-ENOMEM, "%s", error_words(-ENOMEM));
		*p = (struct ipc_exported_pool) { .next = ipc->pools, .pool = handle, .number = ++ipc->pool_numbers };
		ipc->pools = p;
	}
	p->records++;
	*pool = p;
	return 0;
}

/* lock, which it gives up for the provider. */
static int export_new(struct ipc *ipc, const void *ptr, struct ipc_offer *offer, unsigned int flags, uint32_t *slot)
{
	struct ipc_record *r;
	uint64_t generation;
	int ret = publish(ipc, offer, flags, slot);

	if (ret)
		return ret;
	r = &ipc->records[*slot];
	r->making = true;
	generation = r->generation;
	pthread_mutex_unlock(&ipc->lock);
	ret = same_still(ipc, ptr, offer);
	if (!ret)
		ret = ipc_offer(ptr, offer);
	pthread_mutex_lock(&ipc->lock);
	r->making = false;
	if (!ret && offer->pool) {
		ret = pool_of(ipc, offer->pool, &r->pool);
		offer->pool_number = ret ? 0 : r->pool->number;
	}
	r->offer = *offer;
	r->file = own_fd(offer->fd);
	pthread_cond_broadcast(&ipc->settled);
	if (!ret && ipc_generation(ipc, *slot) == generation)
		return 0;
	ipc_record_end(ipc, *slot, generation);
	ipc_reap_one(ipc, *slot);
	return ret ? ret : fail_freed(ptr);
}

/* lock, which it gives up meanwhile. */
static int export_locked(struct ipc *ipc, const void *ptr, struct ipc_offer *offer, bool block, unsigned int flags, uint32_t *slot)
{
	/* Another thread may be making it: then it is there, or it is not. */
	for (*slot = find(ipc, offer); *slot < IPC_SLOTS && ipc->records[*slot].making; *slot = find(ipc, offer))
		cancel_safe_wait(&ipc->settled, &ipc->lock);
	if (*slot == IPC_SLOTS)
		return block ? export_block(ipc, ptr, offer, flags, slot) : export_new(ipc, ptr, offer, flags, slot);
	if (ipc->records[*slot].flags != flags)
		return fail(-EINVAL, "flags %#x: the allocation is exported with %#x, and all its exports need the same flags", flags,
			    ipc->records[*slot].flags);
	ipc->records[*slot].count++;
	return 0;
}

static int export(const void *ptr, size_t length, unsigned int flags, struct peerdma_ipc_handle *handle)
{
	struct ipc *ipc = ipc_get();
	struct ipc_offer offer;
	struct ipc_id boot;
	uint64_t offset;
	uint32_t slot;
	bool block;
	int ret;

	ret = ipc ? identify(ipc, ptr, &offer, &block) : -ENOMEM;
	if (ret)
		return ret;
	offset = (uintptr_t)ptr - offer.base;
	if (offset + length > offer.length)
		return fail(-ENXIO, "[%p, +%zu) passes the end of its allocation, [%#llx, +%llu)", ptr, length,
			    (unsigned long long)offer.base, (unsigned long long)offer.length);
	if (!block && !(flags & PEERDMA_IPC_I_UNEXPORT))
		ret = watch(ipc, offer.provider == IPC_HOST ? HOST : DEVICE);
	if (!ret)
		ret = ipc_boot(ipc, &boot);
	if (ret)
		return ret;
	offer.any_user = flags & PEERDMA_IPC_ANY_USER;

	pthread_mutex_lock(&ipc->lock);
	ret = ipc_home_open(ipc);
	if (!ret)
		ret = export_locked(ipc, ptr, &offer, block, flags, &slot);
	if (!ret)
		name_of(ipc, slot, offset, length, &boot, handle);
	pthread_mutex_unlock(&ipc->lock);
	return ret;
}

EXPORT int peerdma_ipc_export(const void *ptr, size_t length, unsigned int flags, struct peerdma_ipc_handle *handle)
{
	uint32_t texts;
	int was, ret = check_given("peerdma_ipc_export", "handle", handle, NULL);

	if (ret)
		return ret;
	if (flags & ~(PEERDMA_IPC_ANY_USER | PEERDMA_IPC_I_UNEXPORT) || !length || (uintptr_t)ptr + length < (uintptr_t)ptr)
		return fail(-EINVAL, "peerdma_ipc_export: %s", !length ? "the length is 0" :
			    flags & ~(PEERDMA_IPC_ANY_USER | PEERDMA_IPC_I_UNEXPORT) ? "unknown flags; set those of peerdma_ipc.h only" :
			    "the range passes the end of addresses");
	was = cancel_off();
	texts = attempt_begin();
	ret = attempt_end(texts, export(ptr, length, flags, handle));
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_export: %s", peerdma_last_error()) : 0;
}

static bool is_parents(const struct ipc *ipc, const struct ipc_id *process)
{
	for (; ipc; ipc = ipc->parent) {
		if (ipc->home && !memcmp(&ipc->self, process, sizeof(*process)))
			return true;
	}
	return false;
}

EXPORT int peerdma_ipc_unexport(const struct peerdma_ipc_handle *handle)
{
	struct ipc *ipc;
	struct ipc_name name;
	int ret = check_given("peerdma_ipc_unexport", "handle", handle, NULL), was;

	if (ret)
		return ret;
	ret = ipc_handle_parse(handle, sizeof(*handle), IPC_MEMORY, &name);
	if (ret)
		return fail(ret, "peerdma_ipc_unexport: %s", peerdma_last_error());
	was = cancel_off();
	ipc = ipc_get();
	ret = -EINVAL;
	if (ipc && is_parents(ipc->parent, &name.process)) {
		ret = 0;
	} else if (ipc && ipc->home && !memcmp(&ipc->self, &name.process, sizeof(name.process))) {
		pthread_mutex_lock(&ipc->lock);
		if (name.slot < ipc->high && name.generation & 1 && name.generation <= ipc_generation(ipc, name.slot)) {
			struct ipc_record *r = &ipc->records[name.slot];

			ret = 0;
			if (ipc_generation(ipc, name.slot) == name.generation && r->what == IPC_MEMORY && !--r->count) {
				ipc_record_end(ipc, name.slot, name.generation);
				ipc_reap_one(ipc, name.slot);
			}
		}
		pthread_mutex_unlock(&ipc->lock);
	}
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_unexport: this process has no export of this handle") : 0;
}
