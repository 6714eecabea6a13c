// SPDX-License-Identifier: MIT
/*
 * live_cache.c - a cache of pins while GPU memory is freed and allocated all the
 * time, on a back-end that the machine has.
 *
 * There are a few buffers. Some threads use them through the cache, another frees one
 * and allocates it anew (no thread uses it meanwhile; addresses come again), and writes
 * its number into it. What a get finds must be alive, and show that number.
 *
 *	live_cache BACK-END [OPERATIONS [SEED [MEMORY]]]
 *
 * MEMORY: alloc (cuMemAlloc; the default), contexts (the same, by turns in two contexts),
 * vmm (cuMemCreate, mapped), async (of a pool), managed.  No pin is had of the last two:
 * BACK-END `id' registers nothing, and asks CUDA for the buffer id at each hit.
 * Exits with 77 where CUDA does not have that memory.
 *
 * With libpeerdma-hooks in front of CUDA no region needs to be asked about.
 */
#include <pthread.h>

#include "cuda_calls.h"
#include "peerdma_cache.h"
#include "checks.h"

#define BUFFERS	6
#define THREADS	2
#define LENGTH	(192 * 1024UL)

static struct cuda_calls cu;
static struct peerdma *ctx;
static struct peerdma_cache *cache;
static const char *backend;
static unsigned long operations = 4000;
static int bad, viewed, same_address;
static void *context;

static struct buffer {
	pthread_rwlock_t lock;
	gpu_ptr at;
	unsigned char number;
	unsigned long long id;
} buffers[BUFFERS];

/* ---- back-end `id' ---- */

#define BUFFER_ID	7	/* CU_POINTER_ATTRIBUTE_BUFFER_ID */

static unsigned long long id_of(uint64_t addr)
{
	unsigned long long id = 0;

	return cu.cuPointerGetAttribute(&id, BUFFER_ID, addr) ? 0 : id;
}

static int id_add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	out->handle = (void *)(uintptr_t)id_of(addr);
	return 0;
}

static void id_remove(void *arg, uint64_t addr, uint64_t length, void *handle)
{
}

static int id_check(void *arg, const struct peerdma_cached *region, uint64_t addr, uint64_t length)
{
	return (uintptr_t)region->registration == id_of(addr);
}

/* ---- use ---- */

/* Held for reading: it is the buffer's for as long as we look. */
static int wrong(struct buffer *b, uint32_t offset)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_region *region;
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, (void *)(uintptr_t)(b->at + offset), 4096, &hold);
	unsigned char *view;

	if (ret) {
		printf("peerdma_cache_get: %d %s\n", ret, peerdma_last_error());
		return 1;
	}
	region = hold->registration;
	if (!ctx) {
		ret = (uintptr_t)region != b->id;
		peerdma_cache_put(cache, hold);
		return ret;
	}
	ret = peerdma_status(region, &s) || s.state != PEERDMA_STATE_LIVE || strcmp(s.backend, backend) != 0 ||
	      (!s.by_id && !peerdma_valid(region));
	/* Where the CPU has views; a driver that gives none says so in its log. */
	if (!ret && !s.by_id && !peerdma_cpu_view(region, (void **)&view)) {
		ret = view[b->at + offset - s.addr] != b->number;
		peerdma_cpu_view_end(region, view);
		__atomic_add_fetch(&viewed, 1, __ATOMIC_RELAXED);
	}
	peerdma_cache_put(cache, hold);
	return ret;
}

static void *uses(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	cu.cuCtxSetCurrent(context);
	for (unsigned long i = 0; i < operations; i++) {
		struct buffer *b = &buffers[rnd(&seed) % BUFFERS];

		pthread_rwlock_rdlock(&b->lock);
		if (wrong(b, rnd(&seed) % (LENGTH - 4096)))
			__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
		pthread_rwlock_unlock(&b->lock);
	}
	return NULL;
}

/* ---- kinds of memory ---- */

static void *contexts[2];
static struct cuda_prop prop = { .type = 1, .location_type = 1, .rdma_capable = 1 };
static size_t vmm_size;

static int alloc_plain(struct buffer *b)
{
	return cu.cuMemAlloc_v2(&b->at, LENGTH);
}

static int free_plain(struct buffer *b)
{
	return cu.cuMemFree_v2(b->at);
}

/* Only the address tells what to free: any context may. */
static int alloc_turns(struct buffer *b)
{
	return cu.cuCtxSetCurrent(contexts[b->number % 2]) || alloc_plain(b);
}

static int alloc_async(struct buffer *b)
{
	return cu.cuMemAllocAsync(&b->at, LENGTH, NULL);
}

static int free_async(struct buffer *b)
{
	return cu.cuMemFreeAsync(b->at, NULL);
}

static int alloc_managed(struct buffer *b)
{
	return cu.cuMemAllocManaged(&b->at, LENGTH, 1);
}

static int alloc_vmm(struct buffer *b)
{
	struct cuda_access access = { 1, prop.location_id, 3 };
	unsigned long long memory;
	gpu_ptr hint = b->at;
	int err;

	if (cu.cuMemCreate(&memory, vmm_size, &prop, 0))
		return 1;
	err = cu.cuMemAddressReserve(&b->at, vmm_size, 0, hint, 0) || cu.cuMemMap(b->at, vmm_size, 0, memory, 0) ||
	      cu.cuMemSetAccess(b->at, vmm_size, &access, 1);
	return err | cu.cuMemRelease(memory);
}

static int free_vmm(struct buffer *b)
{
	return cu.cuMemUnmap(b->at, vmm_size) | cu.cuMemAddressFree(b->at, vmm_size);
}

static const struct memory {
	const char *name;
	int (*alloc)(struct buffer *b), (*free)(struct buffer *b);
} memories[] = {
	{ "alloc", alloc_plain, free_plain },
	{ "contexts", alloc_turns, free_plain },
	{ "vmm", alloc_vmm, free_vmm },
	{ "async", alloc_async, free_async },
	{ "managed", alloc_managed, free_plain },
}, *memory = memories;

static int memory_is(const char *name)
{
	for (size_t i = 0; i < sizeof(memories) / sizeof(*memories); i++) {
		memory = &memories[i];
		if (!strcmp(memory->name, name))
			return 1;
	}
	return 0;
}

/* What this CUDA cannot do at all is not ours to test. */
static int memory_is_there(int device)
{
	struct buffer b = { .at = 0 };

	contexts[0] = context;
	if (memory->alloc == alloc_turns && cu.cuCtxCreate_v2(&contexts[1], 0, device))
		return 0;
	prop.location_id = device;
	if (memory->alloc == alloc_vmm &&
	    (!cu.cuMemGetAllocationGranularity || cu.cuMemGetAllocationGranularity(&vmm_size, &prop, 0)))
		return 0;
	vmm_size = vmm_size > LENGTH ? vmm_size : LENGTH;
	if (memory->alloc == alloc_async && !cu.cuMemAllocAsync)
		return 0;
	return !memory->alloc(&b) && !memory->free(&b);
}

static void renew(struct buffer *b)
{
	gpu_ptr before = b->at;

	if (b->at && memory->free(b))
		__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
	b->number++;
	if (memory->alloc(b) || cu.cuMemsetD8_v2(b->at, b->number, LENGTH) ||
	    cu.cuStreamSynchronize(NULL))	/* SYNC_MEMOPS comes with the pin: too late for this */
		__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
	b->id = id_of(b->at);
	same_address += b->at == before;
}

int main(int argc, char **argv)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = id_add, .remove = id_remove, .check = id_check };
	struct peerdma_cache_options options = { .size = sizeof(options), .max_regions = 5 };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	pthread_t threads[THREADS];
	uint64_t seed = 1;
	int device, hooks;

	if (argc < 2 || (argc > 4 && !memory_is(argv[4]))) {
		fprintf(stderr, "Usage: live_cache BACK-END [OPERATIONS [SEED [alloc|contexts|vmm|async|managed]]]\n");
		return 2;
	}
	backend = argv[1];
	if (argc > 2)
		operations = strtoul(argv[2], NULL, 0);
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 0);
	printf("%lu operations of each of %d threads, seed %llu, memory %s\n", operations, THREADS, (unsigned long long)seed,
	       memory->name);
	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDeviceGet(&device, 0) ||
	    cu.cuDevicePrimaryCtxRetain(&context, device) || cu.cuCtxSetCurrent(context)) {
		fprintf(stderr, "CUDA does not start\n");
		return 1;
	}
	if (!memory_is_there(device))
		check_skip("this CUDA has no memory of the kind '%s'", memory->name);
	if (!strcmp(backend, "id")) {
		options.max_regions = 200;	/* nothing is dear here: hits, rather than misses */
		CHECK(!peerdma_cache_create(&ops, NULL, &options, &cache), "a cache of buffer ids");
	} else {
		CHECK(!peerdma_open(&ctx, PEERDMA_OPEN_DIRECT) && !peerdma_cache_open(ctx, &options, &cache), "a cache of pins");
	}
	for (int i = 0; i < BUFFERS; i++) {
		pthread_rwlock_init(&buffers[i].lock, NULL);
		renew(&buffers[i]);
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, uses, (void *)(uintptr_t)(seed * 1000 + i));
	for (unsigned long i = 0; i < operations / 8; i++) {
		struct buffer *b = &buffers[rnd(&seed) % BUFFERS];

		pthread_rwlock_wrlock(&b->lock);
		renew(b);
		pthread_rwlock_unlock(&b->lock);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);

	/* At least once, whatever the threads have met. */
	for (int i = 0; i < BUFFERS; i++) {
		bad += wrong(&buffers[i], 0);
		renew(&buffers[i]);
		bad += wrong(&buffers[i], 0);
	}
	CHECK(!peerdma_cache_counters(cache, &c), "counters");
	printf("%llu gets, %llu misses, %llu merged, %llu evicted, %llu found stale, %llu ended when told, %llu made under the tag check; "
	       "%d times the same address, %d looks\n", (unsigned long long)c.gets, (unsigned long long)c.misses,
	       (unsigned long long)c.merges, (unsigned long long)c.evictions, (unsigned long long)c.stale, (unsigned long long)c.invalidations,
	       (unsigned long long)c.checked, same_address, viewed);
	CHECK(!bad, "%d gets found what was not the buffer's", bad);
	CHECK(c.stale + c.invalidations > 0, "some were stale, and found to be");
	hooks = !!(c.monitors & PEERDMA_MONITOR_HOOKS);
	printf("back-end %s, hooks %d\n", backend, hooks);
	if (!ctx)
		CHECK(c.monitors & PEERDMA_MONITOR_CHECK && (hooks || c.stale), "the ids were asked for, and frees were reported");
	else
		CHECK(!!c.checked == (!strcmp(backend, "dmabuf") && !hooks) && !!(c.monitors & PEERDMA_MONITOR_CHECK) == !!c.checked,
		      "the tag check is at work where frees are not reported");
	peerdma_cache_close(cache);
	for (int i = 0; i < BUFFERS; i++)
		memory->free(&buffers[i]);
	peerdma_close(ctx);
	return check_end(NULL);
}
