// SPDX-License-Identifier: MIT
/* monitor.c - the lists of subscribers, and the monitors of other libraries. */
#include "../internal.h"
#include "monitor.h"
#include "subscribers.h"

static struct subscribers lists[MONITOR_KINDS];
static _Atomic unsigned int subscribed[MONITOR_KINDS];
static _Atomic(const char *) outside[MONITOR_KINDS];

int monitor_subscribe(enum monitor_memory kind, peerdma_hook_fn fn, void *arg)
{
	int ret = subscribers_add(&lists[kind], fn, arg);

	if (ret)
		return fail(ret, "a subscription to memory events: out of memory");
	atomic_fetch_add(&subscribed[kind], 1);
	return 0;
}

__attribute__((no_sanitize("thread")))
bool monitor_any(enum monitor_memory kind)
{
	return atomic_load_explicit(&subscribed[kind], memory_order_relaxed);
}

void monitor_unsubscribe(enum monitor_memory kind, peerdma_hook_fn fn, void *arg)
{
	subscribers_remove(&lists[kind], fn, arg);
	atomic_fetch_sub(&subscribed[kind], 1);
}

void monitor_call(enum monitor_memory kind, const struct peerdma_hook_event *event)
{
	subscribers_call(&lists[kind], event);
}

const char *monitor_outside_start(enum monitor_memory kind, const char *name)
{
	const char *is = NULL;

	atomic_compare_exchange_strong(&outside[kind], &is, name);
	return is;
}

const char *monitor_outside(enum monitor_memory kind)
{
	return atomic_load_explicit(&outside[kind], memory_order_acquire);
}
