// SPDX-License-Identifier: MIT OR GPL-2.0
/* provider.c - the list of those who own memory. */
#include <linux/rculist.h>
#include <linux/mutex.h>

#include "pin.h"

/* Writers; readers walk under RCU and hold the module of the one they use. */
static DEFINE_MUTEX(providers_lock);
static LIST_HEAD(providers);

static bool suits(const struct peerdma_provider *p, u32 flags)
{
	if (p->host)
		return !(flags & (PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT));
	if (flags & PEERDMA_PIN_HOST)
		return false;
	return p->can_persist || !(flags & PEERDMA_PIN_PERSISTENT);
}

struct peerdma_provider *peerdma_provider_next(struct peerdma_provider *prev, u32 flags)
{
	struct peerdma_provider *p = NULL;
	struct list_head *at;

	if (prev && prev->host) {
		module_put(prev->owner);
		return NULL;
	}
	rcu_read_lock();
	/* prev stays on the list for as long as its module is held. */
	at = rcu_dereference(list_next_rcu(prev ? &prev->node : &providers));
	for (; at != &providers; at = rcu_dereference(list_next_rcu(at))) {
		p = list_entry(at, struct peerdma_provider, node);
		if (suits(p, flags) && try_module_get(p->owner))
			break;
		p = NULL;
	}
	rcu_read_unlock();
	if (prev)
		module_put(prev->owner);
	if (!p && suits(&peerdma_host_provider, flags)) {
		p = &peerdma_host_provider;
		__module_get(p->owner);
	}
	return p;
}

u32 peerdma_provider_count(void)
{
	struct list_head *at;
	u32 n = 1;

	mutex_lock(&providers_lock);
	list_for_each(at, &providers)
		n++;
	mutex_unlock(&providers_lock);
	return n;
}

int peerdma_register_provider(struct peerdma_provider *provider)
{
	if (!provider->name || strlen(provider->name) >= PEERDMA_PROVIDER_NAME ||
	    !provider->get || !provider->put || !provider->page || provider->host ||
	    provider->page_shift < PAGE_SHIFT || !provider->dma_map != !provider->dma_unmap)
		return -EINVAL;
	mutex_lock(&providers_lock);
	list_add_tail_rcu(&provider->node, &providers);
	mutex_unlock(&providers_lock);
	pr_info("peerdma: provider %s\n", provider->name);
	return 0;
}
EXPORT_SYMBOL_GPL(peerdma_register_provider);

void peerdma_unregister_provider(struct peerdma_provider *provider)
{
	mutex_lock(&providers_lock);
	list_del_rcu(&provider->node);
	mutex_unlock(&providers_lock);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(peerdma_unregister_provider);
