// SPDX-License-Identifier: MIT
/*
 * hooks.c - a cache is told of frees by libpeerdma-hooks, where the process has it
 * and it is in front of CUDA (peerdma_hooks.h).  Nothing is linked: whoever wants
 * it preloads or links it.
 */
#include <dlfcn.h>

#include "../internal.h"
#include "cache.h"
#include "peerdma_hooks.h"

struct hooks {
	int (*active)(void);
	int (*subscribe)(peerdma_hook_fn fn, void *arg);
	void (*unsubscribe)(peerdma_hook_fn fn, void *arg);
};

static bool find(struct hooks *h)
{
	h->active = dlsym(RTLD_DEFAULT, "peerdma_hooks_active");
	h->subscribe = dlsym(RTLD_DEFAULT, "peerdma_hooks_subscribe");
	h->unsubscribe = dlsym(RTLD_DEFAULT, "peerdma_hooks_unsubscribe");
	return h->active && h->subscribe && h->unsubscribe;
}

/*
 * Before a free, so that pins end while their memory is there; after it, because one
 * may have been made in between; and for what was allocated, in case a free was
 * not seen.
 */
static void tell(void *cache, const struct peerdma_hook_event *event)
{
	peerdma_cache_invalidate(cache, (const void *)(uintptr_t)event->addr, event->length);
}

bool cache_hooks_begin(struct peerdma_cache *cache)
{
	struct hooks h;

	return find(&h) && h.active() && !h.subscribe(tell, cache);
}

void cache_hooks_end(struct peerdma_cache *cache)
{
	struct hooks h;

	if (find(&h))
		h.unsubscribe(tell, cache);
}
