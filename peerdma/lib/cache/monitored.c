// SPDX-License-Identifier: MIT
/* monitored.c - see monitored.h. */
#include "../internal.h"
#include "../monitor/monitor.h"
#include "deferred.h"
#include "invalidate.h"
#include "monitored.h"

/*
 * An event comes before a free, so that regions end while their memory is there; after it, since a region may have been
 * registered in between; and for an allocation, in case a free was missed.  It may come inside malloc() or free():
 * nothing is deregistered here.  An event of length 0 ends what signal handlers left.
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
 * A dma-buf keeps GPU memory allocated after its free, so in caches of pins the registration ends at once.  That is
 * possible because the program called CUDA, and is not inside malloc().  A caller's own remove() may not be called here.
 */
static void on_device(void *arg, const struct peerdma_hook_event *event)
{
	struct peerdma_cache *cache = arg;

	on_host(cache, event);
	/* Without the thread cache: this may be a signal handler in the middle of a hit. */
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
	/* Another thread subscribed first.  Until here events came twice, which does no harm. */
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
