// SPDX-License-Identifier: MIT OR GPL-2.0
/* pin.c - a pin's life; pin.h draws it and states the lock order. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "pin.h"
#include "trace.h"

DEFINE_XARRAY_ALLOC1(peerdma_pins);
struct peerdma_stats peerdma_stats;

static struct kmem_cache *pin_cache;

/* Who waits for a pin to be torn down by another thread: rare, so one for all. */
static DECLARE_WAIT_QUEUE_HEAD(pin_wait);

static void pin_free(struct kref *ref)
{
	struct peerdma_pin *pin = container_of(ref, struct peerdma_pin, ref);

	put_pid(pin->owner);
	mutex_destroy(&pin->lock);
	kmem_cache_free(pin_cache, pin);
}

void peerdma_pin_put(struct peerdma_pin *pin)
{
	kref_put(&pin->ref, pin_free);
}

static void set_state(struct peerdma_pin *pin, enum peerdma_state state)
{
	lockdep_assert_held(&pin->lock);
	/* Release: who reads LIVE without the lock sees a finished pin. */
	smp_store_release(&pin->state, state);
}

struct peerdma_pin *peerdma_pin_find(const struct peerdma_file *file, u32 handle)
{
	struct peerdma_pin *pin;

	/* Under the array's lock, so that the pin cannot be freed meanwhile. */
	xa_lock(&peerdma_pins);
	pin = xa_load(&peerdma_pins, handle);
	/* Acquire: after LIVE, or published, the pin is whole. */
	if (pin && smp_load_acquire(&pin->state) != PIN_NEW &&
	    (!file || (pin->file == file && smp_load_acquire(&pin->published))))
		kref_get(&pin->ref);
	else
		pin = NULL;
	xa_unlock(&peerdma_pins);
	return pin;
}

int peerdma_pin_usable(const struct peerdma_pin *pin)
{
	lockdep_assert_held(&pin->lock);
	switch (pin->state) {
	case PIN_LIVE:
		return 0;
	case PIN_REVOKING:
	case PIN_REVOKED:
		return -ESTALE;
	default:
		return -ENOENT;
	}
}

u64 peerdma_pin_run(const struct peerdma_pin *pin, u64 offset, u64 max, phys_addr_t *phys)
{
	const struct peerdma_provider *p = pin->provider;
	u64 page = 1ULL << p->page_shift;
	u64 in_page = offset & (page - 1);
	u32 i = offset >> p->page_shift;
	phys_addr_t first = p->page(pin, i), next = first;
	u64 length = page - in_page;

	lockdep_assert_held(&pin->lock);
	*phys = first + in_page;
	while (length < max) {
		next += page;
		if (p->page(pin, ++i) != next)
			break;
		length += page;
	}
	return min(length, max);
}

/* Widens the request to the provider's pages. */
static int widen(struct peerdma_pin *pin, const struct peerdma_provider *p)
{
	u64 mask = (1ULL << p->page_shift) - 1;
	u64 end = pin->addr + pin->length;

	if (end > ~mask)
		return -EINVAL;
	pin->start = pin->addr & ~mask;
	pin->pinned_length = ((end + mask) & ~mask) - pin->start;
	/* Page numbers are u32, and views of neighbouring handles must not meet. */
	if (pin->pinned_length > 1ULL << 40 || pin->pinned_length >> p->page_shift > U32_MAX)
		return -ENOMEM;
	return 0;
}

/* Asks one provider after the other; the last one's answer counts. */
static int pin_get(struct peerdma_pin *pin)
{
	struct peerdma_provider *p = NULL;
	u32 flags = pin->flags;
	int err = flags & PEERDMA_PIN_PERSISTENT ? -EOPNOTSUPP : -ENXIO;

	while ((p = peerdma_provider_next(p, flags))) {
		pin->provider = p;
		pin->flags = flags | (p->host ? PEERDMA_PIN_HOST : PEERDMA_PIN_DEVICE);
		pin->page_shift = p->page_shift;
		err = widen(pin, p) ?: p->get(pin);
		if (err == -ENXIO)
			continue;
		if (err)
			module_put(p->owner);
		break;
	}
	return err;
}

static int check_request(const struct peerdma_request *req)
{
	const u32 which = PEERDMA_PIN_HOST | PEERDMA_PIN_DEVICE;
	const u32 known = which | PEERDMA_PIN_PERSISTENT | PEERDMA_PIN_READONLY;
	bool tokens = req->token || req->va_space;

	if (req->flags & ~known || (req->flags & which) == which)
		return -EINVAL;
	if (!req->length || req->addr + req->length < req->addr)
		return -EINVAL;
	/* Tokens name a GPU's memory, and only for as long as it is there. */
	if (tokens && req->flags & (PEERDMA_PIN_HOST | PEERDMA_PIN_PERSISTENT))
		return -EINVAL;
	if ((req->flags & (PEERDMA_PIN_HOST | PEERDMA_PIN_PERSISTENT)) ==
	    (PEERDMA_PIN_HOST | PEERDMA_PIN_PERSISTENT))
		return -EOPNOTSUPP;
	return 0;
}

struct peerdma_pin *peerdma_pin_create(const struct peerdma_request *req)
{
	struct peerdma_pin *pin;
	int err;

	err = check_request(req);
	if (err)
		return ERR_PTR(err);

	pin = kmem_cache_zalloc(pin_cache, GFP_KERNEL);
	if (!pin)
		return ERR_PTR(-ENOMEM);
	kref_init(&pin->ref);
	mutex_init(&pin->lock);
	INIT_LIST_HEAD(&pin->maps);
	INIT_LIST_HEAD(&pin->export_list);
	INIT_LIST_HEAD(&pin->file_node);
	INIT_LIST_HEAD(&pin->event_node);
	pin->flags = req->flags;
	pin->token = req->token;
	pin->va_space = req->va_space;
	pin->addr = req->addr;
	pin->length = req->length;
	pin->file = req->file;
	pin->ops = req->ops;
	pin->client_priv = req->priv;
	pin->owner = get_pid(task_tgid(current));
	pin->tgid = current->tgid;
	memcpy(pin->comm, current->comm, sizeof(pin->comm));
	if (pin->token || pin->va_space)
		pin->flags |= PEERDMA_PIN_DEVICE;

	/* The name first: the provider's callback needs it.  NEW pins are not found by handle. */
	err = xa_alloc(&peerdma_pins, &pin->handle, pin, XA_LIMIT(1, PEERDMA_MAX_PINS - 1),
		       GFP_KERNEL);
	if (err) {
		err = err == -EBUSY ? -ENFILE : err;
		goto put_pin;
	}
	err = peerdma_generation_next(pin->handle, &pin->generation);
	if (err)
		goto erase;
	WRITE_ONCE(pin->cookie, (u64)pin->generation << 32 | pin->handle);
	if (pin->file)
		peerdma_file_adopt(pin);

	err = pin_get(pin);
	if (err)
		goto end_generation;

	mutex_lock(&pin->lock);
	if (pin->state == PIN_NEW) {
		pin->holds = 1;
		set_state(pin, PIN_LIVE);
	} else {
		/* Freed at once: as if that had come before us. */
		err = -ENXIO;
	}
	mutex_unlock(&pin->lock);
	if (err) {
		module_put(pin->provider->owner);
		goto end_generation;
	}
	atomic64_inc(&peerdma_stats.live);
	atomic64_inc(&peerdma_stats.pins);
	trace_peerdma_pin(pin);
	return pin;

end_generation:
	if (pin->file)
		peerdma_file_forget(pin);
	peerdma_generation_end(pin->handle);
erase:
	xa_erase(&peerdma_pins, pin->handle);
put_pin:
	peerdma_pin_put(pin);
	return ERR_PTR(err);
}

/*
 * Takes down all that was made from the pin.  The state says already that
 * nothing new is to be made.  Runs once per pin in which anything was made; a
 * second time there is nothing left to do.
 */
static void teardown(struct peerdma_pin *pin)
{
	struct peerdma_map *map;

	if (pin->viewed)
		peerdma_view_zap(pin);
	if (!list_empty(&pin->export_list))
		peerdma_export_revoke(pin);

	mutex_lock(&pin->lock);
	list_for_each_entry(map, &pin->maps, node)
		if (!map->hold)
			peerdma_map_down(map);
	if (pin->wc)
		peerdma_view_release(pin);
	mutex_unlock(&pin->lock);
}

static void revoke(struct peerdma_pin *pin)
{
	bool torn_down_by_us = false;

	mutex_lock(&pin->lock);
	switch (pin->state) {
	case PIN_NEW:
		pin->revoked = true;
		pin->down = true;
		set_state(pin, PIN_REVOKED);
		break;
	case PIN_LIVE:
		pin->revoked = true;
		peerdma_generation_end(pin->handle);
		set_state(pin, PIN_REVOKING);
		torn_down_by_us = true;
		break;
	default:
		/*
		 * Being unpinned.  If the provider's put was not called yet it
		 * must not be: its key, the provider's table, may be another
		 * pin's by then.
		 */
		pin->revoked = true;
		break;
	}
	mutex_unlock(&pin->lock);

	if (!torn_down_by_us) {
		wait_event(pin_wait, smp_load_acquire(&pin->down));
		return;
	}

	trace_peerdma_revoke_begin(pin);
	atomic64_inc(&peerdma_stats.revocations);
	if (pin->file)
		peerdma_file_event(pin);
	if (pin->ops && pin->ops->revoke)
		pin->ops->revoke(pin, pin->client_priv);
	teardown(pin);
	trace_peerdma_revoke_end(pin);

	mutex_lock(&pin->lock);
	set_state(pin, PIN_REVOKED);
	smp_store_release(&pin->down, true);
	mutex_unlock(&pin->lock);
	wake_up_all(&pin_wait);
}

void peerdma_revoke(u64 cookie)
{
	struct peerdma_pin *pin;

	might_sleep();
	xa_lock(&peerdma_pins);
	pin = xa_load(&peerdma_pins, (u32)cookie);
	if (pin && READ_ONCE(pin->cookie) == cookie)
		kref_get(&pin->ref);
	else
		pin = NULL;
	xa_unlock(&peerdma_pins);
	if (!pin)
		return;
	revoke(pin);
	peerdma_pin_put(pin);
}
EXPORT_SYMBOL_GPL(peerdma_revoke);

/* Gives the memory back and the pin's name free.  Nothing is left but references. */
static void finish(struct peerdma_pin *pin, bool revoked)
{
	if (!revoked)
		pin->provider->put(pin);
	module_put(pin->provider->owner);
	atomic64_dec(&peerdma_stats.live);
	atomic64_inc(&peerdma_stats.unpins);

	/* Only now may another pin take the name: until put returned, the callback could come. */
	xa_erase(&peerdma_pins, pin->handle);
	peerdma_pin_put(pin);
}

void peerdma_pin_drop_hold(struct peerdma_pin *pin)
{
	bool last, revoked;

	mutex_lock(&pin->lock);
	last = !--pin->holds;
	revoked = pin->revoked;
	if (last)
		set_state(pin, PIN_ENDED);
	mutex_unlock(&pin->lock);
	if (last)
		finish(pin, revoked);
}

/* Makes this thread the one that ends the pin. */
static bool claim_end(struct peerdma_pin *pin, bool *busy)
{
	bool mine = false;

	mutex_lock(&pin->lock);
	while (pin->state == PIN_REVOKING) {
		mutex_unlock(&pin->lock);
		wait_event(pin_wait, smp_load_acquire(&pin->down));
		mutex_lock(&pin->lock);
	}
	if (busy && pin->holds > 1) {
		*busy = true;
	} else if (pin->state < PIN_ENDING) {
		if (pin->state == PIN_LIVE)
			peerdma_generation_end(pin->handle);
		set_state(pin, PIN_ENDING);
		mine = true;
	}
	mutex_unlock(&pin->lock);
	return mine;
}

bool peerdma_pin_end(struct peerdma_pin *pin, bool *busy)
{
	struct peerdma_map *map, *next;

	if (!claim_end(pin, busy))
		return false;

	trace_peerdma_unpin(pin);
	if (!pin->down)
		teardown(pin);
	if (!list_empty(&pin->maps)) {
		mutex_lock(&pin->lock);
		list_for_each_entry_safe(map, next, &pin->maps, node)
			if (map->handle)
				peerdma_map_destroy(map);
		mutex_unlock(&pin->lock);
	}
	if (pin->file)
		peerdma_file_forget(pin);
	smp_store_release(&pin->down, true);
	/* A revoker that waits holds no lock of ours, but came between claim and here. */
	smp_mb();
	if (waitqueue_active(&pin_wait))
		wake_up_all(&pin_wait);
	peerdma_pin_drop_hold(pin);
	return true;
}

int peerdma_pin_init(void)
{
	pin_cache = KMEM_CACHE(peerdma_pin, SLAB_ACCOUNT);
	return pin_cache ? 0 : -ENOMEM;
}

void peerdma_pin_exit(void)
{
	WARN_ON(!xa_empty(&peerdma_pins));
	kmem_cache_destroy(pin_cache);
}
