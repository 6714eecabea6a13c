// SPDX-License-Identifier: MIT
/*
 * test_verbs_soft.c - memory regions of verbs on the software GPU in this process: what
 * is freed is out of the device's reach before it is anything else.  libibverbs is a
 * stand-in.  The arguments: its path, and that of softgpu's libcuda, beside which there is
 * a stand-in, too, that may be found first.
 */
#include <pthread.h>

#include "cuda_calls.h"
#include "fake_verbs.h"
#include "peerdma_cache.h"
#include "peerdma_verbs.h"
#include "checks.h"

#define LENGTH	(1UL << 20)
#define ROUNDS	200

static struct cuda_calls cu;
static struct fake_verbs *verbs;
static struct ibv_pd *const one = (struct ibv_pd *)0x1000, *const two = (struct ibv_pd *)0x2000;
static gpu_ptr buffer;
static int seen, others;	/* MRs that went, and of these, with other bytes behind them */

/* What a device would reach just now. */
static void look(struct fake_mr *mr)
{
	seen++;
	others += *(volatile unsigned char *)mr->addr != 0x5a;
}

static gpu_ptr gpu_alloc(void)
{
	gpu_ptr p = 0;

	return cu.cuMemAlloc_v2(&p, LENGTH) || cu.cuMemsetD8_v2(p, 0x5a, LENGTH) ? 0 : p;
}

static void pins(struct peerdma *ctx)
{
	struct peerdma_region *region = NULL;
	const struct peerdma_mr *mr = NULL;

	buffer = gpu_alloc();
	CHECK(buffer && !peerdma_pin(ctx, (void *)(uintptr_t)(buffer + 4096), 8192, 0, NULL, &region), "GPU memory is pinned");
	if (check_counts.failures)
		return;
	CHECK(!peerdma_verbs_mr(region, one, 1, &mr) && !strcmp(mr->way, "view") && mr->addr == buffer + 4096, "an MR of it, as the CPU sees it");
	CHECK(!peerdma_verbs_mr(region, two, 1, &mr) && fake_verbs_live(verbs) == 2, "and one of another domain");
	verbs->at_dereg = look;
	cu.cuMemFree_v2(buffer);
	CHECK(seen == 2 && !others && !fake_verbs_live(verbs), "when the memory is freed both go, with its bytes still there (%d, %d)", seen, others);
	CHECK(peerdma_verbs_mr(region, one, 4, &mr) == -ESTALE && !fake_verbs_live(verbs), "and no other is made");
	CHECK(!peerdma_unpin(region), "the pin ends");

	buffer = gpu_alloc();
	CHECK(!peerdma_pin(ctx, (void *)(uintptr_t)buffer, LENGTH, 0, NULL, &region) && !peerdma_verbs_mr(region, one, 1, &mr), "again");
	CHECK(!peerdma_verbs_end(ctx, one) && !fake_verbs_live(verbs), "the domain ends, and its MR before");
	CHECK(!peerdma_verbs_mr(region, one, 1, &mr) && !peerdma_unpin(region) && !fake_verbs_live(verbs), "the pin ends, and its MR before");
	cu.cuMemFree_v2(buffer);
	CHECK(!others, "each with the memory still there");
}

/* Over two allocations: one key, which goes with either; and one for each, which go as one, too. */
static void several(struct peerdma *ctx)
{
	struct peerdma_region *region = NULL, *const *segments;
	const struct peerdma_mr *mr = NULL;
	gpu_ptr p = gpu_alloc(), q = gpu_alloc(), other;
	unsigned char *bytes;
	size_t n = 0;

	if (p > q) {
		other = p;
		p = q;
		q = other;
	}
	verbs->at_dereg = look;
	seen = 0;
	CHECK(q == p + LENGTH && !peerdma_pin(ctx, (void *)(uintptr_t)(p + 4096), 2 * LENGTH - 8192, 0, NULL, &region),
	      "two allocations side by side are pinned");
	if (check_counts.failures)
		return;
	segments = peerdma_segments(region, &n);
	CHECK(!peerdma_verbs_mr(region, one, 1, &mr) && !strcmp(mr->way, "view") && mr->length == 2 * LENGTH - 8192, "one MR");
	bytes = ((const struct fake_mr *)mr->verbs)->addr;
	CHECK(bytes[0] == 0x5a && bytes[LENGTH - 4097] == 0x5a && bytes[LENGTH] == 0x5a, "of both");
	CHECK(n == 2 && !peerdma_verbs_mr(segments[0], one, 1, &mr) && !peerdma_verbs_mr(segments[1], two, 1, &mr) &&
	      mr->addr == q && fake_verbs_live(verbs) == 3, "and one of each");
	cu.cuMemFree_v2(q);
	CHECK(seen == 3 && !others && !fake_verbs_live(verbs), "when one of them is freed all go, with its bytes still there (%d, %d)", seen, others);
	CHECK(!peerdma_valid(region) && peerdma_verbs_mr(region, one, 4, &mr) == -ESTALE && !fake_verbs_live(verbs), "and no other is made");
	CHECK(!peerdma_unpin(region) && !cu.cuMemFree_v2(p), "the pin ends");
}

/* One thread frees, another makes MRs: whichever comes first, none is left when the free has returned and the maker has, too. */
static struct peerdma_region *raced;
static pthread_barrier_t start;

static void *maker(void *arg)
{
	const struct peerdma_mr *mr;

	pthread_barrier_wait(&start);
	for (int access = 0; access < 4; access++) {
		int ret = peerdma_verbs_mr(raced, one, access, &mr);

		if (ret && ret != -ESTALE)
			return maker;
	}
	return NULL;
}

static void race(struct peerdma *ctx)
{
	int wrong = 0;

	verbs->at_dereg = NULL;
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t t;
		void *failed;

		buffer = gpu_alloc();
		if (!buffer || peerdma_pin(ctx, (void *)(uintptr_t)buffer, 65536, 0, NULL, &raced) ||
		    pthread_create(&t, NULL, maker, NULL)) {
			CHECK(0, "round %d", i);
			return;
		}
		pthread_barrier_wait(&start);
		cu.cuMemFree_v2(buffer);
		pthread_join(t, &failed);
		wrong += failed || fake_verbs_live(verbs);
		peerdma_unpin(raced);
	}
	CHECK(!wrong, "%d times freed while MRs are made: none is left", ROUNDS);
}

static void cached(struct peerdma *ctx)
{
	struct peerdma_cached *hold = NULL;
	const struct peerdma_mr *mr = NULL, *again = NULL;
	struct peerdma_cache *cache = NULL;
	uint32_t key;

	buffer = gpu_alloc();
	CHECK(!peerdma_cache_open(ctx, NULL, &cache) && !peerdma_cache_get(cache, (void *)(uintptr_t)buffer, 100, &hold) &&
	      !peerdma_cache_mr(cache, hold, one, 1, &mr), "a cache's region has an MR");
	if (check_counts.failures)
		return;
	key = mr->lkey;
	peerdma_cache_put(cache, hold);
	cu.cuMemFree_v2(buffer);
	CHECK(!fake_verbs_live(verbs), "which goes with its memory, and without a notification");
	buffer = gpu_alloc();
	CHECK(!peerdma_cache_get(cache, (void *)(uintptr_t)buffer, 100, &hold) && !peerdma_cache_mr(cache, hold, one, 1, &again) &&
	      again->lkey != key, "what comes there next has another");
	peerdma_cache_put(cache, hold);
	peerdma_cache_close(cache);
	CHECK(!fake_verbs_live(verbs), "the cache closes");
	cu.cuMemFree_v2(buffer);
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL, *context;
	struct fake_verbs *(*get)(void) = library ? dlsym(library, "fake_verbs") : NULL;
	struct peerdma *ctx;

	if (argc < 3 || !dlopen(argv[2], RTLD_NOW) || !get || !cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) ||
	    cu.cuCtxSetCurrent(context) || peerdma_open(&ctx, 0)) {
		fprintf(stderr, "no software GPU, or no stand-in\n");
		return 1;
	}
	verbs = get();
	pthread_barrier_init(&start, NULL, 2);
	pins(ctx);
	several(ctx);
	race(ctx);
	cached(ctx);
	peerdma_close(ctx);
	return check_end(NULL);
}
