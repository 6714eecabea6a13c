// SPDX-License-Identifier: MIT
/* events.c - the subscribers, and the events they are called for. */
#include <errno.h>

#include "hooks.h"
#include "../lib/monitor/subscribers.h"

static struct subscribers subscribers;

EXPORT int peerdma_hooks_subscribe(peerdma_hook_fn fn, void *arg)
{
	return fn ? subscribers_add(&subscribers, fn, arg) : -EINVAL;
}

EXPORT void peerdma_hooks_unsubscribe(peerdma_hook_fn fn, void *arg)
{
	if (fn)
		subscribers_remove(&subscribers, fn, arg);
}

/* Alone in its cache line: others read it all the time.  Never 0. */
static _Alignas(64) _Atomic uint64_t making = PEERDMA_HOOKS_MAKING_ONE;

EXPORT const uint64_t *peerdma_hooks_making(void)
{
	return (const uint64_t *)&making;
}

void making_begins(void)
{
	atomic_fetch_add(&making, PEERDMA_HOOKS_MAKING_ONE + 1);
}

void making_ends(void)
{
	atomic_fetch_sub(&making, 1);
}

void hook_count(struct hook *h)
{
	atomic_fetch_add_explicit(&h->events, 1, memory_order_relaxed);
}

void hook_tell(struct hook *h, uint32_t kind, uint32_t after, uint64_t addr, uint64_t length)
{
	const struct peerdma_hook_event event = {
		.kind = kind, .after = after, .addr = addr, .length = length, .call = h->name,
	};

	if (!after)
		hook_count(h);
	if (!length)	/* cuMemFree(0), which many programs begin with */
		return;
	subscribers_call(&subscribers, &event);
}
