// SPDX-License-Identifier: MIT OR GPL-2.0
/* provider.c - the list of providers, in the order in which they are asked. */
#include <linux/mutex.h>
#include <linux/rcupdate.h>

#include "pin.h"

#define PROVIDERS	8
#define HOST		(PROVIDERS - 1)		/* after all others */

/* Readers hold the provider that they will use. */
static struct peerdma_provider __rcu *providers[PROVIDERS];
static DEFINE_MUTEX(providers_lock);		/* writers */
u32 peerdma_claimers;				/* providers_lock, to write */

/*
 * Guards the first hold of a provider, and the last.  It is not part of the provider, which
 * may be gone as soon as the reference to its module is.
 */
static DEFINE_SPINLOCK(holds_lock);

static noinline bool hold_first(struct peerdma_provider *p)
{
	bool held = true;

	spin_lock(&holds_lock);
	if (!atomic_inc_not_zero(&p->holds)) {
		held = try_module_get(p->owner);
		if (held)
			atomic_set(&p->holds, 1);
	}
	spin_unlock(&holds_lock);
	return held;
}

bool peerdma_provider_hold(struct peerdma_provider *p)
{
	return atomic_inc_not_zero(&p->holds) || hold_first(p);
}

void peerdma_provider_let_go(struct peerdma_provider *p)
{
	struct module *owner = p->owner;

	if (!atomic_dec_and_lock(&p->holds, &holds_lock))
		return;
	spin_unlock(&holds_lock);
	module_put(owner);
}

struct peerdma_provider *peerdma_provider_next(struct peerdma_provider *prev, u32 flags)
{
	struct peerdma_provider *p = NULL;
	u32 i;

	rcu_read_lock();
	for (i = prev ? prev->index + 1 : 0; i < PROVIDERS; i++) {
		p = rcu_dereference(providers[i]);
		if (p && !(flags & p->refuses) && peerdma_provider_hold(p))
			break;
		p = NULL;
	}
	rcu_read_unlock();
	if (prev)
		peerdma_provider_let_go(prev);
	return p;
}

u32 peerdma_provider_count(void)
{
	u32 i, n = 0;

	for (i = 0; i < PROVIDERS; i++)
		n += !!rcu_access_pointer(providers[i]);
	return n;
}

void peerdma_provider_init(struct peerdma_provider *provider)
{
	atomic_set(&provider->holds, 0);
	peerdma_group_lock_init(&provider->group_lock);
}

static void enter(struct peerdma_provider *provider, u32 i)
{
	provider->index = i;
	if (provider->host)
		provider->refuses = PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT;
	else
		provider->refuses = PEERDMA_PIN_HOST |
			(provider->can_persist ? 0 : PEERDMA_PIN_PERSISTENT);
	provider->claimer = !!provider->claims;
	peerdma_provider_init(provider);
	rcu_assign_pointer(providers[i], provider);
}

void peerdma_provider_enter_last(struct peerdma_provider *provider)
{
	enter(provider, HOST);
}

/* Providers without `claims' come before those that have it. */
static int place(const struct peerdma_provider *provider, u32 *i)
{
	u32 n;

	for (n = 0; n < HOST; n++) {
		*i = provider->claims ? HOST - 1 - n : n;
		if (!rcu_access_pointer(providers[*i]))
			return 0;
	}
	return -ENOSPC;
}

struct peerdma_provider *peerdma_provider_claiming(const struct peerdma_pin *pin,
						   const struct peerdma_provider *own)
{
	struct peerdma_provider *p = NULL;

	while ((p = peerdma_provider_next(p, PEERDMA_PIN_DEVICE)))
		if (p != own && p->claims && p->claims(pin))
			break;
	return p;
}

int peerdma_register_provider(struct peerdma_provider *provider)
{
	int err;
	u32 i;

	if (!provider->name || strlen(provider->name) >= PEERDMA_PROVIDER_NAME ||
	    !provider->get || !provider->put || !provider->page || provider->host ||
	    provider->page_shift < PAGE_SHIFT || !provider->dma_map != !provider->dma_unmap ||
	    (provider->takes_mmap_lock && provider->reach))
		return -EINVAL;
	mutex_lock(&providers_lock);
	err = place(provider, &i);
	if (!err) {
		enter(provider, i);
		WRITE_ONCE(peerdma_claimers, peerdma_claimers + !!provider->claims);
	}
	mutex_unlock(&providers_lock);
	if (err)
		return err;
	pr_info("peerdma: provider %s\n", provider->name);
	return 0;
}
EXPORT_SYMBOL_GPL(peerdma_register_provider);

void peerdma_unregister_provider(struct peerdma_provider *provider)
{
	mutex_lock(&providers_lock);
	RCU_INIT_POINTER(providers[provider->index], NULL);
	WRITE_ONCE(peerdma_claimers, peerdma_claimers - !!provider->claims);
	mutex_unlock(&providers_lock);
	synchronize_rcu();
	/*
	 * The last pin may have ended in a callback that has not returned yet.  What is
	 * left of that callback is the return from peerdma_revoke(), where nothing sleeps.
	 */
	synchronize_rcu_tasks();
}
EXPORT_SYMBOL_GPL(peerdma_unregister_provider);
