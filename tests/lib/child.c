// SPDX-License-Identifier: MIT
/*
 * child.c - forked children, on the software GPU: what a child does with its parent's
 * context changes nothing for the parent, and a child never waits for a lock that a
 * thread of the parent held when it was forked.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cuda_calls.h"
#include "peerdma.h"
#include "checks.h"

#define MIB	(1UL << 20)
#define ROUNDS	300
#define PATIENCE 30	/* seconds */

static struct cuda_calls cu;
static struct peerdma *ctx;

static void *ptr(gpu_ptr p)
{
	return (void *)(uintptr_t)p;
}

static int readable(void)
{
	struct pollfd p = { .fd = peerdma_event_fd(ctx), .events = POLLIN };

	return poll(&p, 1, 0);
}

/* Ends a child that waits for ever; what it has to say is its status. */
static int child_says(int (*run)(void *arg), void *arg)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		alarm(PATIENCE);
		_exit(run(arg));
	}
	waitpid(pid, &status, 0);
	return status;
}

/* ---- what is the parent's ---- */

struct pins {
	struct peerdma_region *revoked, *live;
};

static int unpins(void *arg)
{
	struct pins *pins = arg;

	return peerdma_unpin(pins->revoked) || peerdma_unpin(pins->live);
}

static int closes(void *arg)
{
	peerdma_close(ctx);
	return 0;
}

static int unpins_and_closes(void *arg)
{
	return unpins(arg) || closes(arg);
}

static void parent_hears(const char *what, int (*run)(void *arg))
{
	struct peerdma_notice n = { .size = sizeof(n) };
	struct pins pins;
	gpu_ptr a, b;

	cu.cuMemAlloc_v2(&a, MIB);
	cu.cuMemAlloc_v2(&b, MIB);
	CHECK(!peerdma_pin(ctx, ptr(a), MIB, 0, &a, &pins.revoked) && !peerdma_pin(ctx, ptr(b), MIB, 0, &b, &pins.live),
	      "two pins");
	cu.cuMemFree_v2(a);
	CHECK(readable() == 1, "one is revoked: its notice waits");
	CHECK(child_says(run, &pins) == 0, "a child %s", what);
	CHECK(readable() == 1, "the parent's notice still waits");
	CHECK(!peerdma_next_event(ctx, &n, 0) && n.cookie == &a, "and is read");
	CHECK(!readable(), "it was the only one");
	CHECK(peerdma_valid(pins.live), "the other pin lives");
	cu.cuMemFree_v2(b);
	CHECK(readable() == 1 && !peerdma_next_event(ctx, &n, 0) && n.cookie == &b, "a later revocation is notified as well");
	CHECK(!peerdma_unpin(pins.revoked) && !peerdma_unpin(pins.live), "the parent unpins both");
}

/* ---- what other threads are in the middle of ---- */

static _Atomic int over;

static void *pins_and_frees(void *arg)
{
	struct peerdma_region *r;
	void *view;
	gpu_ptr p;

	while (!over) {
		if (cu.cuMemAlloc_v2(&p, MIB))
			continue;
		if (!peerdma_pin(ctx, ptr(p), MIB, 0, NULL, &r)) {
			peerdma_cpu_view(r, &view);
			cu.cuMemFree_v2(p);
			peerdma_unpin(r);
		} else {
			cu.cuMemFree_v2(p);
		}
	}
	return NULL;
}

static int begins_anew(void *arg)
{
	struct peerdma_region *r = NULL, *parents = arg;
	static char memory[8192];
	struct peerdma *own;

	if (peerdma_open(&own, 0))
		return 1;
	if (peerdma_pin(own, memory, sizeof(memory), 0, NULL, &r) || peerdma_unpin(r))
		return 2;
	r = NULL;
	/* No child has its parent's GPU. */
	if (!peerdma_pin(own, parents, MIB, PEERDMA_DEVICE, NULL, &r) || r)
		return 3;
	peerdma_close(own);
	peerdma_close(ctx);
	return 0;
}

static void forked_in_the_middle(void)
{
	pthread_t threads[2];
	int bad = 0;
	gpu_ptr p;

	cu.cuMemAlloc_v2(&p, MIB);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, pins_and_frees, NULL);
	for (int i = 0; i < ROUNDS && !bad; i++)
		bad = child_says(begins_anew, ptr(p));
	over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	cu.cuMemFree_v2(p);
	CHECK(!bad, "%d children, forked while threads pin and free, open contexts of their own (status 0x%x)", ROUNDS, bad);
}

int main(void)
{
	void *context;

	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuCtxCreate_v2(&context, 0, 0))
		return 77;
	if (!CHECK(!peerdma_open(&ctx, 0), "a context"))
		return 1;
	parent_hears("unpins both", unpins);
	parent_hears("closes the context", closes);
	parent_hears("unpins both and closes", unpins_and_closes);
	forked_in_the_middle();
	peerdma_close(ctx);
	return check_end(NULL);
}
