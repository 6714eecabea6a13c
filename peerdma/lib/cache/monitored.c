// SPDX-License-Identifier: MIT
/* monitored.c - see monitored.h. */
#include "../internal.h"
#include "../monitor/monitor.h"
#include "deferred.h"
#include "invalidate.h"
#include "monitored.h"

/*
 * Called before a free, so that regions end while their memory exists.  Called again after it,
 * because another thread may have registered a region in between.  Also called for an allocation,
 * in case no monitor reported the free before it.  It may be called inside malloc() or free(), so
 * it deregisters nothing.  An event of length 0 ends the regions in left ranges (lock.h).
 */
static void on_host(void *arg, const struct peerdma_hook_event *event)
{
	struct peerdma_cache *cache = arg;

	if (cache->process != process_id())
		return;
	if (event->length)
		peerdma_cache_invalidate(cache, (const void *)(uintptr_t)event->addr,
					 event->length);
	else if (gate_closed(cache) && !this_thread.locks)
		invalidate_left(cache);
}

/*
 * A dma-buf keeps its GPU memory allocated after the free.  So a cache of pins deregisters at once.
 * It may do so because the program has called CUDA, and is not inside malloc().  Other caches must
 * not call their remove() here.
 */
static void on_device(void *arg, const struct peerdma_hook_event *event)
{
	struct peerdma_cache *cache = arg;

	on_host(cache, event);
	/* Passes no thread cache: this may be a signal handler that interrupted a hit. */
	if (cache->process == process_id() && cache->stats.by_hooks && !this_thread.locks)
		deferred_drain(cache, NULL);
}

int cache_monitor_host(struct peerdma_cache *cache)
{
	bool is = false;
	int ret = host_monitor_begin();

	if (ret || __atomic_load_n(&cache->host_monitored, __ATOMIC_ACQUIRE))
		return ret;
	ret = monitor_subscribe(MONITOR_HOST, on_host, cache);
	/*
	 * Another thread has subscribed first.  Until now each event came twice, which does no
	 * harm.
	 */
	if (!ret && !__atomic_compare_exchange_n(&cache->host_monitored, &is, true, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		monitor_unsubscribe(MONITOR_HOST, on_host, cache);
	if (!ret)
		cache_monitors_set(cache, PEERDMA_MONITOR_HOST, true);
	return ret;
}

static int monitor_device(struct peerdma_cache *cache)
{
	int ret = hooks_begin();

	if (ret < 0 || (!ret && !monitor_outside(MONITOR_DEVICE)))
		return ret;
	ret = monitor_subscribe(MONITOR_DEVICE, on_device, cache);
	cache->hooked = !ret;
	cache_monitors_set(cache, PEERDMA_MONITOR_HOOKS, cache->hooked);
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
	cache_monitors_set(cache,
			   (PEERDMA_MONITOR_HOOKS | PEERDMA_MONITOR_HOST) & ~cache->ops.monitors,
			   false);
}
