// SPDX-License-Identifier: MIT
/*
 * test_pins.c - pins whose end only CUDA's buffer id shows, in a program with
 * libpeerdma-hooks: their ends are noticed as those of other pins are.
 */
#include <pthread.h>

#include <cuda.h>
#include "peerdma.h"
#include "../lib/checks.h"

#define LENGTH	65536UL
#define ROUNDS	300

static struct peerdma *ctx;
static CUcontext context;

static struct peerdma_region *pin(CUdeviceptr p, void *cookie)
{
	struct peerdma_region *region;
	int ret = peerdma_pin(ctx, (void *)(uintptr_t)(p + 100), 1000, PEERDMA_STAGING, cookie, &region);

	if (ret) {
		printf("%s: %s\n", ret == -ENOMEM ? "skipped" : "not ok", peerdma_last_error());
		exit(ret == -ENOMEM ? 77 : 1);
	}
	return region;
}

static void *notice(void)
{
	struct peerdma_notice n = { .size = sizeof(n) };

	return peerdma_next_event(ctx, &n, 0) ? NULL : n.cookie;
}

static uint32_t state(struct peerdma_region *region)
{
	struct peerdma_status s = { .size = sizeof(s) };

	return peerdma_status(region, &s) ? 0 : s.state;
}

/* One thread frees what another unpins: one of them is first, and either is right. */
static pthread_barrier_t start;

static void *frees(void *arg)
{
	cuCtxSetCurrent(context);
	pthread_barrier_wait(&start);
	return cuMemFree((CUdeviceptr)(uintptr_t)arg) ? arg : NULL;
}

static void race(void)
{
	int wrong = 0;

	pthread_barrier_init(&start, NULL, 2);
	for (int i = 0; i < ROUNDS; i++) {
		struct peerdma_region *region;
		void *failed = &start;
		CUdeviceptr p;
		pthread_t t;

		if (cuMemAlloc(&p, LENGTH))
			exit(1);
		region = pin(p, &ctx);
		if (pthread_create(&t, NULL, frees, (void *)(uintptr_t)p))
			exit(1);
		pthread_barrier_wait(&start);
		wrong += peerdma_unpin(region) != 0;
		pthread_join(t, &failed);
		wrong += failed || notice();
	}
	CHECK(!wrong, "a free beside an unpin: no notice is left of what is gone");
}

int main(void)
{
	struct peerdma_region *a, *b;
	CUdeviceptr p, q, r;
	CUcontext other;

	if (cuInit(0) || cuCtxCreate(&context, 0, 0) || cuMemAlloc(&p, LENGTH) || cuMemAlloc(&q, LENGTH) ||
	    cuCtxCreate(&other, 0, 0) || cuMemAlloc(&r, LENGTH) || cuCtxSetCurrent(context) || peerdma_open(&ctx, 0))
		return 2;
	a = pin(p, &p);
	b = pin(q, &q);
	pin(r, &r);			/* until the context closes */
	CHECK(!notice() && state(a) == PEERDMA_STATE_LIVE, "pins, and nothing to tell");
	cuMemFree(p);
	CHECK(notice() == &p && !notice(), "a free is told, of its own memory alone");
	CHECK(state(a) == PEERDMA_STATE_REVOKED && state(b) == PEERDMA_STATE_LIVE, "and so says the status");
	cuMemAlloc(&p, LENGTH);
	CHECK(state(a) == PEERDMA_STATE_REVOKED && !notice(), "once, whatever is there next");
	CHECK(!peerdma_unpin(a), "the pin is unpinned");
	cuMemFree(p);
	CHECK(!notice(), "and of no more concern");
	cuCtxDestroy(other);
	CHECK(notice() == &r && !notice() && state(b) == PEERDMA_STATE_LIVE, "a context's end, of its own memory alone");
	cuMemFree(q);
	CHECK(!peerdma_unpin(b) && !notice(), "unpinned before the notice was read: there is none");
	race();
	peerdma_close(ctx);
	return check_end(NULL);
}
