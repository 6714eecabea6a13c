// SPDX-License-Identifier: MIT
/* monitored.c - what a cache does with events of its monitors. */
#include "../internal.h"
#include "../monitor/monitor.h"
#include "deferred.h"
#include "invalidate.h"
#include "monitored.h"

/*
 * Before a free, so that registrations end while their memory is there; after it, since
 * one may have been made in between; and for an allocation, in case a free was missed.
 * Inside malloc() and free(), perhaps: nothing is deregistered here.  An event of nothing asks for what
 * signal handlers left.
 */
static void on_host(void *arg, const struct peerdma_hook_event *event)
{
	struct peerdma_cache *cache = arg;

	if (cache->process != process_id())
		return;
	if (event->length)
		peerdma_cache_invalidate(cache, (const void *)(uintptr_t)event->addr, event->length);
	else if (gate_closed(cache) && !this_thread.locks)
		invalidate_left(cache);
}

/*
 * A dma-buf would keep the GPU's memory allocated after its free.  The program calls
 * CUDA to free it, from outside malloc(); what a caller's own remove() needs is not known.
 */
static void on_device(void *arg, const struct peerdma_hook_event *event)
{
	struct peerdma_cache *cache = arg;

	on_host(cache, event);
	/* Without the thread cache: a signal handler may have come in the middle of a hit. */
	if (cache->process == process_id() && cache->by_hooks && !this_thread.locks)
		deferred_drain(cache, NULL);
}

int cache_monitor_host(struct peerdma_cache *cache)
{
	bool is = false;
	int ret = host_monitor_begin();

	if (ret || __atomic_load_n(&cache->host_monitored, __ATOMIC_ACQUIRE))
		return ret;
	ret = monitor_subscribe(MONITOR_HOST, on_host, cache);
	/* Another thread was first: until here events came twice, which does no harm. */
	if (!ret && !__atomic_compare_exchange_n(&cache->host_monitored, &is, true, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		monitor_unsubscribe(MONITOR_HOST, on_host, cache);
	return ret;
}

static int monitor_device(struct peerdma_cache *cache)
{
	int ret = hooks_begin();

	if (ret < 0 || (!ret && !monitor_outside(MONITOR_DEVICE)))
		return ret;
	ret = monitor_subscribe(MONITOR_DEVICE, on_device, cache);
	cache->hooked = !ret;
	return ret;
}

int cache_monitors_begin(struct peerdma_cache *cache)
{
	int ret = monitor_subscribe(MONITOR_OUTSIDE, on_host, cache);

	if (!ret)
		ret = monitor_device(cache);
	if (ret)
		return fail(ret, "peerdma_cache_create: %s", peerdma_last_error());
	if (!(cache->ops.monitors & PEERDMA_MONITOR_HOST))
		return 0;
	ret = cache_monitor_host(cache);
	return ret ? fail(ret, "peerdma_cache_create: %s; start a monitor of another library with peerdma_monitor_start(), or leave "
			  "PEERDMA_MONITOR_HOST out and call peerdma_cache_invalidate() before memory goes", peerdma_last_error()) : 0;
}

void cache_monitors_end(struct peerdma_cache *cache)
{
	monitor_unsubscribe(MONITOR_OUTSIDE, on_host, cache);
	if (cache->hooked)
		monitor_unsubscribe(MONITOR_DEVICE, on_device, cache);
	if (cache->host_monitored)
		monitor_unsubscribe(MONITOR_HOST, on_host, cache);
	cache->hooked = cache->host_monitored = false;
}
