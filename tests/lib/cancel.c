// SPDX-License-Identifier: MIT
/*
 * cancel.c - a thread is cancelled while it frees pinned memory, and while it unpins:
 * others can still poll, pin and unpin.  With softgpu's library, in this process.
 */
#include <pthread.h>

#include "cuda_calls.h"
#include "peerdma.h"
#include "checks.h"

#define LENGTH	65536UL

static struct cuda_calls cu;
static struct peerdma *ctx;
static void *gpu;

static void *free_it(void *p)
{
	cu.cuCtxSetCurrent(gpu);
	pthread_cancel(pthread_self());
	cu.cuMemFree_v2((uintptr_t)p);
	pthread_testcancel();
	return NULL;
}

static void *unpin_it(void *region)
{
	pthread_cancel(pthread_self());
	peerdma_unpin(region);
	pthread_testcancel();
	return NULL;
}

static void in_thread(void *(*fn)(void *), void *arg)
{
	void *ret = NULL;
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, fn, arg) && !pthread_join(t, &ret) && ret == PTHREAD_CANCELED,
	      "the thread is cancelled");
}

int main(void)
{
	struct peerdma_notice notice = { .size = sizeof(notice) };
	struct peerdma_region *a = NULL, *b = NULL;
	gpu_ptr p = 0, q = 0;

	alarm(20);
	setenv("PEERDMA_PROVIDER", "soft", 1);
	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuCtxCreate_v2(&gpu, 0, 0) || cu.cuMemAlloc_v2(&p, LENGTH) ||
	    cu.cuMemAlloc_v2(&q, LENGTH) || peerdma_open(&ctx, 0))
		return 77;
	CHECK(!peerdma_pin(ctx, (void *)(uintptr_t)p, LENGTH, 0, NULL, &a) &&
	      !peerdma_pin(ctx, (void *)(uintptr_t)q, LENGTH, 0, NULL, &b), "two pins");
	in_thread(free_it, (void *)(uintptr_t)p);
	CHECK(!peerdma_next_event(ctx, &notice, 0) && notice.region == a, "the free is reported");
	CHECK(!peerdma_unpin(a), "and the pin ends");
	in_thread(free_it, (void *)(uintptr_t)q);
	/* Its notice waits still. */
	in_thread(unpin_it, b);
	CHECK(peerdma_next_event(ctx, &notice, 0) == -EAGAIN, "nothing is left of the other");
	peerdma_close(ctx);
	return check_end(NULL);
}
