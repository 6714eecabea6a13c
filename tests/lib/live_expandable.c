// SPDX-License-Identifier: MIT
/*
 * live_expandable.c - pins and a cache of pins over memory as PyTorch's expandable
 * segments are: one reservation, in which chunks are mapped side by side; it grows at its
 * end, chunks are unmapped there and in the middle, and mapped again.
 *
 *	live_expandable BACK-END [OPERATIONS [SEED]]
 *	live_expandable cost BACK-END		how long hits take, of one chunk and of 52
 *
 * Threads get ranges of some chunks, each of which shows its number, while others are
 * unmapped and mapped anew.  No get may fail, and none may find what was there before.
 */
#include <pthread.h>

#include "cuda_calls.h"
#include "peerdma_cache.h"
#include "checks.h"

#define CHUNKS	52
#define THREADS	2
#define TRIES	1000

static struct cuda_calls cu;
static struct peerdma *ctx;
static struct peerdma_cache *cache;
static const char *backend;
static unsigned long operations = 3000;
static int bad, viewed, overtaken, spanning;
static void *context;
static struct cuda_prop prop = { .type = 1, .location_type = 1, .rdma_capable = 1 };
static size_t chunk;
static gpu_ptr base;

static struct {
	pthread_rwlock_t lock;
	int mapped;
	unsigned char number;
} chunks[CHUNKS];

static gpu_ptr at(int i)
{
	return base + (size_t)i * chunk;
}

static void *ptr(gpu_ptr p)
{
	return (void *)(uintptr_t)p;
}

static struct peerdma_status status(struct peerdma_region *r)
{
	struct peerdma_status s = { .size = sizeof(s) };

	__atomic_add_fetch(&bad, !!peerdma_status(r, &s), __ATOMIC_RELAXED);
	return s;
}

static void map(int i)
{
	struct cuda_access access = { 1, prop.location_id, 3 };
	unsigned long long memory;
	int err = cu.cuMemCreate(&memory, chunk, &prop, 0) || cu.cuMemMap(at(i), chunk, 0, memory, 0) ||
		  cu.cuMemSetAccess(at(i), chunk, &access, 1) || cu.cuMemRelease(memory);

	chunks[i].number++;
	chunks[i].mapped = 1;
	err = err || cu.cuMemsetD8_v2(at(i), chunks[i].number, 4096) || cu.cuStreamSynchronize(NULL);
	__atomic_add_fetch(&bad, err, __ATOMIC_RELAXED);
}

static void unmap(int i)
{
	__atomic_add_fetch(&bad, !!cu.cuMemUnmap(at(i), chunk), __ATOMIC_RELAXED);
	chunks[i].mapped = 0;
}

static void map_all(int on)
{
	for (int i = 0; i < CHUNKS; i++) {
		if (chunks[i].mapped != on)
			(on ? map : unmap)(i);
	}
}

/* ---- one region over all ---- */

static int tells;	/* the back-end calls, or the kernel writes a word */
static int notices;	/* it, or libpeerdma-hooks */
static int views;

static void one_region(void)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	struct peerdma_memory pieces[CHUNKS] = { { .size = sizeof(pieces[0]) } };
	struct peerdma_region *r, *none, *const *segments;
	struct peerdma_status s;
	unsigned char *view;
	size_t count = 0;
	uint64_t sum = 0;

	map_all(1);
	CHECK(!peerdma_query_range(ctx, ptr(base), CHUNKS * chunk, pieces, CHUNKS, &count) && count == CHUNKS &&
	      pieces[CHUNKS - 1].buffer_id != pieces[0].buffer_id, "%d allocations", CHUNKS);
	CHECK(!peerdma_pin(ctx, ptr(base + 100), CHUNKS * chunk - 200, PEERDMA_DIRECT, "all", &r), "one region over them");
	s = status(r);
	segments = peerdma_segments(r, &count);
	CHECK(!strcmp(s.backend, backend) && s.state == PEERDMA_STATE_LIVE && s.segments == count &&
	      s.pinned_addr <= base + 100 && s.pinned_addr + s.pinned_length >= base + CHUNKS * chunk - 100,
	      "back-end %s, %zu segments", s.backend, count);
	CHECK(count == (tells ? CHUNKS : 1) && (count > 1 || segments[0] == r), "as many as the back-end needs");
	CHECK(!!peerdma_valid(r) == tells, "valid");
	for (size_t i = 0; i < count; i++)
		sum += status(segments[i]).length;
	CHECK(sum == CHUNKS * chunk - 200, "the segments make up the range");
	if (count > 1)
		CHECK(peerdma_unpin(segments[3]) == -EINVAL, "a segment is not unpinned: %s", peerdma_last_error());
	if (views) {
		CHECK(!peerdma_cpu_view(r, (void **)&view), "one view");
		for (size_t i = 1; i < CHUNKS; i++)
			bad += view[i * chunk - 100] != chunks[i].number;
		CHECK(!bad, "shows all of it");
		CHECK(!peerdma_cpu_view_end(r, view) && !peerdma_cpu_view(r, (void **)&view), "ended, and another");
	}
	unmap(17);
	CHECK(!peerdma_valid(r) && status(r).state == PEERDMA_STATE_REVOKED, "over as soon as one allocation is");
	CHECK(peerdma_next_event(ctx, &n, notices ? 1000 : 0) == (notices ? 0 : -EAGAIN) && (!notices || n.region == r),
	      "notices: %d", notices);
	unmap(18);
	CHECK(peerdma_next_event(ctx, &n, 0) == -EAGAIN, "and no more");
	CHECK(peerdma_pin(ctx, ptr(base), CHUNKS * chunk, PEERDMA_DIRECT, NULL, &none) == -ENXIO,
	      "none over a hole: %s", peerdma_last_error());
	CHECK(!peerdma_unpin(r), "unpinned");
	map_all(1);
	CHECK(!peerdma_pin(ctx, ptr(at(3)), chunk, PEERDMA_DIRECT, NULL, &r) && status(r).segments == 1 && !peerdma_unpin(r),
	      "one allocation is one segment");
	CHECK(!peerdma_pin(ctx, ptr(at(5)), 4 * chunk, PEERDMA_PERSISTENT, NULL, &r), "persistent");
	unmap(6);
	CHECK(peerdma_valid(r) && status(r).state == PEERDMA_STATE_LIVE && !peerdma_unpin(r), "outlives it");
	map_all(0);
	CHECK(peerdma_next_event(ctx, &n, 0) == -EAGAIN, "no notice is left");
}

/* ---- a piece goes while the range is being pinned, or held ---- */

static int stop, gone;
static int asks_freely = 1;	/* 0: NVIDIA's libcuda, which may crash when it is asked about what another thread unmaps */

static void *comes_and_goes(void *arg)
{
	int i = (int)(uintptr_t)arg;

	cu.cuCtxSetCurrent(context);
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		unmap(i);
		map(i);
		__atomic_add_fetch(&gone, 1, __ATOMIC_RELAXED);
		usleep(20);
	}
	return NULL;
}

static void racing(void)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	int pinned = 0, refused = 0, revoked = 0, others = 0, unseen = 0;
	struct peerdma_region *r, *const *segments;
	pthread_t thread;
	size_t count;

	map_all(1);
	pthread_create(&thread, NULL, comes_and_goes, (void *)(uintptr_t)6);
	while (__atomic_load_n(&gone, __ATOMIC_RELAXED) < 300 || pinned < 100) {
		int ret = peerdma_pin(ctx, ptr(at(0)), 8 * chunk, PEERDMA_DIRECT, NULL, &r), valid;

		if (ret) {
			refused += ret == -ENXIO || ret == -ESTALE;
			others += ret != -ENXIO && ret != -ESTALE;
			continue;
		}
		pinned++;
		/* Nothing that a piece has lost is in what the whole says it has. */
		segments = peerdma_segments(r, &count);
		valid = peerdma_valid(r);
		__sync_synchronize();
		for (size_t j = 0; tells && j < count; j++)
			unseen += !peerdma_valid(segments[j]) && peerdma_valid(r);
		if (tells && !valid) {
			revoked++;
			others += peerdma_next_event(ctx, &n, 10000) || n.region != r || peerdma_valid(r);
		}
		others += !!peerdma_unpin(r);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	stop = 0;
	CHECK(!others && !unseen, "while an allocation came and went %d times: %d pinned, %d refused, %d revoked, each with its notice; %d odd, %d unseen",
	      gone, pinned, refused, revoked, others, unseen);
	CHECK(peerdma_next_event(ctx, &n, 0) == -EAGAIN, "no notice is left");
	CHECK(!peerdma_pin(ctx, ptr(at(0)), 8 * chunk, PEERDMA_DIRECT, NULL, &r) && !peerdma_unpin(r), "afterwards all is there");
	map_all(0);
}

/* What lies beside a range comes and goes.  The region does not change, and CUDA is not asked about it. */
static void beside(void)
{
	struct peerdma_cached *hold;
	struct peerdma_region *r;
	int pinned = 0, got = 0;
	pthread_t thread;

	map_all(1);
	CHECK(!peerdma_cache_open(ctx, NULL, &cache), "a cache");
	CHECK(!peerdma_cache_get(cache, ptr(at(0)), 12 * chunk, &hold), "one region over what stays and what goes");
	peerdma_cache_put(cache, hold);
	gone = 0;
	pthread_create(&thread, NULL, comes_and_goes, (void *)(uintptr_t)8);
	while (__atomic_load_n(&gone, __ATOMIC_RELAXED) < 1000) {
		int from = got % 6;

		if (peerdma_pin(ctx, ptr(at(0)), 8 * chunk, PEERDMA_DIRECT, NULL, &r))
			break;
		pinned++;
		if (peerdma_unpin(r) || peerdma_cache_get(cache, ptr(at(from)), 2 * chunk, &hold))
			break;
		got++;
		peerdma_cache_put(cache, hold);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	CHECK(gone >= 1000 && pinned == got, "while the allocation beside came and went %d times: %d pinned, %d got from a cache: %s",
	      gone, pinned, got, pinned == got ? "" : peerdma_last_error());
	stop = gone = 0;
	peerdma_cache_close(cache);
	map_all(0);
}

static void forked(void)
{
	struct peerdma_region *r;
	int wait_status = -1;
	pid_t pid;

	map_all(1);
	CHECK(!peerdma_pin(ctx, ptr(base), CHUNKS * chunk, PEERDMA_DIRECT, NULL, &r), "a region before a fork");
	pid = fork();
	if (!pid) {
		int wrong = peerdma_unpin(r) || peerdma_pin(ctx, ptr(base), chunk, 0, NULL, &r) != -EPERM;

		peerdma_close(ctx);
		_exit(wrong);
	}
	waitpid(pid, &wait_status, 0);
	CHECK(!wait_status && !!peerdma_valid(r) == tells && status(r).state == PEERDMA_STATE_LIVE, "is the parent's alone");
	CHECK(!peerdma_unpin(r), "until it unpins");
	map_all(0);
}

/* ---- the cache ---- */

/* 0, 1: it is not what is there, -1: neighbours of ours went meanwhile, and the region with them. */
static int look(struct peerdma_cached *hold, int from, int to)
{
	struct peerdma_region *r = hold->registration;
	struct peerdma_status s;
	unsigned char *view;
	int wrong, ret;

	/* The neighbours are unmapped meanwhile, and a status asks about the whole region. */
	if (!asks_freely)
		return 0;
	s = status(r);
	wrong = strcmp(s.backend, backend) != 0;
	if (s.state != PEERDMA_STATE_LIVE)
		return -1;
	if (wrong || !views)
		return wrong;
	ret = peerdma_cpu_view(r, (void **)&view);
	if (ret)
		return ret == -ESTALE ? -1 : 1;
	for (int i = from; i < to; i++)
		wrong |= view[at(i) - s.addr] != chunks[i].number;
	peerdma_cpu_view_end(r, view);
	__atomic_add_fetch(&viewed, 1, __ATOMIC_RELAXED);
	return wrong;
}

/* Chunks [from, to), which stay as long as we look. */
static int wrong(int from, int to)
{
	struct peerdma_cached *hold;
	int ret;

	for (int i = 0; i < TRIES; i++) {
		ret = peerdma_cache_get(cache, ptr(at(from)), (size_t)(to - from) * chunk, &hold);
		if (ret) {
			printf("get of chunks %d to %d: %d %s\n", from, to, ret, peerdma_last_error());
			return 1;
		}
		ret = look(hold, from, to);
		peerdma_cache_put(cache, hold);
		if (ret >= 0)
			return ret;
		__atomic_add_fetch(&overtaken, 1, __ATOMIC_RELAXED);
	}
	printf("chunks %d to %d: overtaken each time\n", from, to);
	return 1;
}

static void *uses(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	cu.cuCtxSetCurrent(context);
	for (unsigned long i = 0; i < operations || !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i++) {
		int from = (int)(rnd(&seed) % CHUNKS), most = 1 + (int)(rnd(&seed) % 8), to = from;

		while (to < CHUNKS && to - from < most) {
			pthread_rwlock_rdlock(&chunks[to].lock);
			if (!chunks[to].mapped) {
				pthread_rwlock_unlock(&chunks[to].lock);
				break;
			}
			to++;
		}
		if (to > from && wrong(from, to))
			__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
		if (to > from + 1)
			__atomic_add_fetch(&spanning, 1, __ATOMIC_RELAXED);
		while (to > from)
			pthread_rwlock_unlock(&chunks[--to].lock);
	}
	return NULL;
}

static void turn(int i, int on)
{
	pthread_rwlock_wrlock(&chunks[i].lock);
	if (chunks[i].mapped != on)
		(on ? map : unmap)(i);
	pthread_rwlock_unlock(&chunks[i].lock);
}

/* It grows at the end, shrinks from there, and has a hole now and then. */
static void churn(uint64_t *seed)
{
	int top = CHUNKS / 2;

	for (unsigned long i = 0; i < operations / 8; i++) {
		uint32_t what = rnd(seed) % 8;

		if (what == 7)
			usleep(rnd(seed) % 200);	/* some gets between */

		if (what < 4 && top < CHUNKS)
			turn(top++, 1);
		else if (what < 6 && top > CHUNKS / 2)
			turn(--top, 0);
		else if (top)
			turn((int)(rnd(seed) % (uint32_t)top), what & 1);
	}
}

static void cached(uint64_t seed)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	pthread_t threads[THREADS];

	CHECK(!peerdma_cache_open(ctx, NULL, &cache), "a cache");
	for (int i = 0; i < CHUNKS / 2; i++)
		map(i);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, uses, (void *)(uintptr_t)(seed * 1000 + i));
	churn(&seed);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	map_all(1);
	for (int i = 0; i < CHUNKS; i++) {
		bad += wrong(0, CHUNKS);
		bad += wrong(0, CHUNKS);
		unmap(i);
		map(i);
	}
	bad += wrong(0, CHUNKS);
	CHECK(!peerdma_cache_counters(cache, &c), "counters");
	printf("%llu gets, %d over several allocations, %llu misses, %llu merged, %llu found stale, %llu ended when told; %d looks, %d overtaken\n",
	       (unsigned long long)c.gets, spanning, (unsigned long long)c.misses, (unsigned long long)c.merges,
	       (unsigned long long)c.stale, (unsigned long long)c.invalidations, viewed, overtaken);
	CHECK(!bad, "%d gets failed, or found what was not there", bad);
	CHECK(spanning > 100, "%d gets were of several allocations", spanning);
	CHECK(c.gets - c.misses > CHUNKS - 1 && c.stale + c.invalidations >= CHUNKS, "there were hits, and what was stale was found to be");
	peerdma_cache_close(cache);
	map_all(0);
}

/* ---- cost ---- */

#define HITS	20000

static double hits(int from, int to)
{
	struct timespec a, b;
	struct peerdma_cached *hold;
	double best = 1e9, ns;

	for (int round = 0; round < 20; round++) {
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int i = 0; i < HITS; i++) {
			if (peerdma_cache_get(cache, ptr(at(from)), (size_t)(to - from) * chunk, &hold))
				return 0;
			peerdma_cache_put(cache, hold);
		}
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / HITS;
		best = ns < best ? ns : best;
	}
	return best;
}

static void cost(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	double one, all;

	map_all(1);
	CHECK(!peerdma_cache_open(ctx, NULL, &cache), "a cache");
	one = hits(0, 1);
	all = hits(0, CHUNKS);
	/* Without a word or hooks, CUDA is asked for the id of each allocation. */
	if (!peerdma_cache_counters(cache, &c) && c.checked) {
		printf("skipped: without the hooks a hit takes %.1f ns of one allocation, %.1f ns of %d\n", one, all, CHUNKS);
		exit(77);
	}
	CHECK(one > 0 && all > 0 && all <= 2 * one, "a hit takes %.1f ns of one allocation, %.1f ns of %d: %.2f times", one, all, CHUNKS, all / one);
	peerdma_cache_close(cache);
	map_all(0);
}

int main(int argc, char **argv)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	int only_cost = argc == 3 && !strcmp(argv[1], "cost"), device;
	char name[100] = "";
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;

	if (argc < 2) {
		fprintf(stderr, "Usage: live_expandable BACK-END [OPERATIONS [SEED]]\n       live_expandable cost BACK-END\n");
		return 2;
	}
	backend = argv[1 + only_cost];
	if (argc > 2 && !only_cost)
		operations = strtoul(argv[2], NULL, 0);
	tells = strcmp(backend, "dmabuf") != 0;
	views = tells;
	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDeviceGet(&device, 0) ||
	    cu.cuDevicePrimaryCtxRetain(&context, device) || cu.cuCtxSetCurrent(context)) {
		fprintf(stderr, "CUDA does not start\n");
		return 1;
	}
	prop.location_id = device;
	asks_freely = !cu.cuDeviceGetName(name, sizeof(name), device) && !strncmp(name, "softgpu", 7);
	if (!cu.cuMemGetAllocationGranularity || cu.cuMemGetAllocationGranularity(&chunk, &prop, 0) ||
	    cu.cuMemAddressReserve(&base, CHUNKS * chunk, 0, 0, 0)) {
		printf("skipped: this CUDA cannot map memory side by side\n");
		return 77;
	}
	for (int i = 0; i < CHUNKS; i++)
		pthread_rwlock_init(&chunks[i].lock, NULL);
	CHECK(!peerdma_open(&ctx, PEERDMA_OPEN_DIRECT) && !peerdma_cache_open(ctx, NULL, &cache) &&
	      !peerdma_cache_counters(cache, &c), "a context");
	notices = tells || c.monitors & PEERDMA_MONITOR_HOOKS;
	peerdma_cache_close(cache);
	if (only_cost) {
		cost();
	} else {
		printf("%lu operations of each of %d threads, seed %llu\n", operations, THREADS, (unsigned long long)seed);
		one_region();
		if (asks_freely)
			racing();
		else
			printf("left out on NVIDIA's libcuda: pins of memory that another thread unmaps meanwhile (tests/gpu/unmapped.c)\n");
		beside();
		forked();
		cached(seed);
	}
	peerdma_close(ctx);
	CHECK(!cu.cuMemAddressFree(base, CHUNKS * chunk), "all is unmapped");
	return check_end(NULL);
}
