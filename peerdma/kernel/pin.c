// SPDX-License-Identifier: MIT OR GPL-2.0
/* pin.c - a pin's life; pin.h draws it and states the lock order. */
#include <linux/dma-buf.h>
#include <linux/mm.h>

#include "pin.h"
#include "trace.h"

struct peerdma_stats peerdma_stats;

/* Who waits for a pin to be torn down by another thread: rare, so one for all. */
static DECLARE_WAIT_QUEUE_HEAD(pin_wait);

static void pin_free(struct kref *ref)
{
	struct peerdma_pin *pin = container_of(ref, struct peerdma_pin, ref);

	if (pin->source)
		peerdma_source_free(pin);
	peerdma_slot_leave(pin);
}

void peerdma_pin_put(struct peerdma_pin *pin)
{
	kref_put(&pin->ref, pin_free);
}

/* Until another thread has taken down what was made.  Rare: kept out of the hot paths. */
static noinline void wait_down(const struct peerdma_pin *pin)
{
	/* Acquire: what it took down stays down. */
	wait_event(pin_wait, smp_load_acquire(&pin->down));
}

static void set_state(struct peerdma_pin *pin, enum peerdma_state state)
{
	lockdep_assert_held(&pin->lock);
	/* Release: who reads LIVE without the lock sees a finished pin. */
	smp_store_release(&pin->state, state);
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

/*
 * Gives the memory back to the provider, unless it has it.  The callback may still
 * come while the put is on its way: that is what the turn is for.
 */
static void give_back(struct peerdma_pin *pin)
{
	struct peerdma_provider *p = pin->provider;

	if (p->host) {
		p->put(pin);
		return;
	}
	peerdma_turn_enter(&p->turns, TURN_PUT);
	if (!READ_ONCE(pin->revoked))
		p->put(pin);
	peerdma_turn_leave(&p->turns);
	if (p->release)
		p->release(pin);
}

/*
 * Memory has one owner.  If two say that they are, one of them is wrong, and there is
 * no way to know which: whoever it was would be told nothing when the other frees.
 */
static int check_sole_owner(const struct peerdma_pin *pin)
{
	struct peerdma_provider *other;

	/* Tokens are one make's. */
	if (likely(READ_ONCE(peerdma_claimers) <= !!pin->provider->claims) || pin->token | pin->va_space)
		return 0;
	other = peerdma_provider_claiming(pin);
	if (!other)
		return 0;
	pr_warn_ratelimited("peerdma: %s gives [%#llx, %#llx), and %s says that this is its own: refused\n",
			    pin->provider->name, pin->addr, pin->addr + pin->length, other->name);
	module_put(other->owner);
	return -EOPNOTSUPP;
}

/*
 * Gets the memory.  Between the moment when a provider can revoke the pin and
 * the one when it is LIVE, the lock holds back peerdma_revoke(): the provider
 * must not take apart what its `get' is still reading.  Host memory is never
 * revoked, and its `get' takes mmap_lock, which comes before ours.
 */
static int get_live(struct peerdma_pin *pin, struct peerdma_provider *p)
{
	int err;

	if (p->host) {
		err = p->get(pin);
		if (err)
			return err;
		mutex_lock(&pin->lock);
	} else {
		peerdma_turn_enter(&p->turns, TURN_GET);
		if (p->takes_mmap_lock) {
			err = p->get(pin);
			mutex_lock(&pin->lock);
		} else {
			mutex_lock(&pin->lock);
			err = p->get(pin);
		}
		if (!err && pin->revoked)
			err = -ESTALE;
		if (!err)
			err = check_sole_owner(pin);
	}
	if (!err) {
		pin->holds = 1;
		set_state(pin, PIN_LIVE);
	}
	mutex_unlock(&pin->lock);
	if (!p->host)
		peerdma_turn_leave(&p->turns);
	/* Not under the lock: a provider's put may wait for the callback. */
	if (err && pin->priv)
		give_back(pin);
	return err;
}

static int get_from(struct peerdma_pin *pin, struct peerdma_provider *p)
{
	pin->provider = p;
	pin->page_shift = p->page_shift;
	return widen(pin, p) ?: get_live(pin, p);
}

/* Asks one provider after the other; the last one's answer counts. */
static int pin_get(struct peerdma_pin *pin)
{
	struct peerdma_provider *p = NULL;
	u32 flags = pin->flags;
	int err = flags & PEERDMA_PIN_PERSISTENT ? -EOPNOTSUPP : -ENXIO;

	while ((p = peerdma_provider_next(p, flags))) {
		pin->flags = flags | (p->host ? PEERDMA_PIN_HOST : PEERDMA_PIN_DEVICE);
		err = get_from(pin, p);
		if (err == -ENXIO)
			continue;
		if (err)
			module_put(p->owner);
		break;
	}
	return err;
}

static int check(const struct peerdma_pin *pin)
{
	const u32 which = PEERDMA_PIN_HOST | PEERDMA_PIN_DEVICE;
	const u32 known = which | PEERDMA_PIN_PERSISTENT | PEERDMA_PIN_READONLY;
	const u32 host_or_persistent = PEERDMA_PIN_HOST | PEERDMA_PIN_PERSISTENT;

	if (pin->flags & ~known || (pin->flags & which) == which)
		return -EINVAL;
	if (!pin->length || pin->addr + pin->length < pin->addr)
		return -EINVAL;
	/* Tokens name a GPU's memory, and only for as long as it is there. */
	if (pin->token | pin->va_space && pin->flags & host_or_persistent)
		return -EINVAL;
	if ((pin->flags & host_or_persistent) == host_or_persistent)
		return -EOPNOTSUPP;
	return 0;
}

struct peerdma_pin *peerdma_pin_new(struct peerdma_file *file)
{
	struct peerdma_pin *pin = peerdma_slot_take(file);

	if (IS_ERR(pin))
		return pin;
	pin->state = PIN_NEW;
	pin->revoked = false;
	pin->down = false;
	pin->wc = false;
	pin->viewed = false;
	pin->lent = 0;
	pin->priv = NULL;
	pin->tgid = current->tgid;
	memcpy(pin->comm, current->comm, sizeof(pin->comm));
	return pin;
}

void peerdma_pin_abandon(struct peerdma_pin *pin)
{
	if (pin->file)
		peerdma_slot_unlist(pin);
	peerdma_pin_put(pin);
}

static int start(struct peerdma_pin *pin)
{
	int err;

	/* Before the provider can call back. */
	peerdma_generation_begin(pin);
	err = pin->source ? get_from(pin, &peerdma_dmabuf_provider) : pin_get(pin);
	if (err) {
		peerdma_generation_end(pin);
		return err;
	}
	atomic64_inc(&peerdma_stats.pins);
	trace_peerdma_pin(pin);
	return 0;
}

int peerdma_pin_start(struct peerdma_pin *pin)
{
	int err = check(pin);

	if (err)
		return err;
	if (pin->token | pin->va_space)
		pin->flags |= PEERDMA_PIN_DEVICE;
	return start(pin);
}

int peerdma_pin_start_dmabuf(struct peerdma_pin *pin, struct dma_buf *dmabuf)
{
	int err;

	if (pin->flags & ~PEERDMA_PIN_READONLY)
		return -EINVAL;
	/* As large as it is, from there on. */
	if (!pin->length && pin->addr < dmabuf->size)
		pin->length = dmabuf->size - pin->addr;
	if (!pin->length || pin->addr + pin->length < pin->addr)
		return -EINVAL;
	pin->token = 0;
	pin->va_space = 0;
	pin->flags |= PEERDMA_PIN_DEVICE | PEERDMA_PIN_DMABUF;
	err = peerdma_source_set(pin, dmabuf);
	if (err)
		return err;
	/* The caller is in this module's code, so that is there. */
	__module_get(peerdma_dmabuf_provider.owner);
	err = start(pin);
	if (err)
		module_put(peerdma_dmabuf_provider.owner);
	return err;
}

static void maps_down(struct peerdma_pin *pin)
{
	struct peerdma_map *map;

	lockdep_assert_held(&pin->lock);
	list_for_each_entry(map, &pin->maps, node)
		if (!map->hold)
			peerdma_map_down(map);
}

/* Views and dma-bufs; then the caller takes down the mappings. */
static void others_down(struct peerdma_pin *pin, bool taken)
{
	if (pin->viewed)
		peerdma_view_zap(pin);
	if (!list_empty(&pin->export_list))
		peerdma_export_revoke(pin, taken);
}

/*
 * Takes down all that was made from the pin.  The state says already that
 * nothing new is to be made.  Runs once per pin in which anything was made; a
 * second time there is nothing left to do.
 */
static void teardown(struct peerdma_pin *pin, bool taken)
{
	others_down(pin, taken);
	mutex_lock(&pin->lock);
	maps_down(pin);
	if (pin->wc)
		peerdma_view_release(pin);
	mutex_unlock(&pin->lock);
}

static void revoke(struct peerdma_pin *pin)
{
	bool new, ours;

	mutex_lock(&pin->lock);
	/* NEW: `get' has failed with the provider's pin in hand.  ours: this thread tears down. */
	new = pin->state == PIN_NEW;
	ours = pin->state == PIN_LIVE;
	if (ours) {
		peerdma_generation_end(pin);
		set_state(pin, PIN_REVOKING);
	}
	/*
	 * Also if it is being unpinned: a `put' that has not begun must not, for
	 * the pin is over.  One that has begun keeps others from being given what
	 * it names this pin by (turns.h).
	 */
	WRITE_ONCE(pin->revoked, true);
	mutex_unlock(&pin->lock);

	if (new)
		return;
	if (!ours) {
		/*
		 * Who takes an import down needs the lock that this thread has: so
		 * it is this thread that takes down what can be reached.
		 */
		if (pin->source) {
			mutex_lock(&pin->lock);
			maps_down(pin);
			mutex_unlock(&pin->lock);
		} else {
			wait_down(pin);
			/* Unpinned, it was left to importers, who could keep it until now. */
			if (READ_ONCE(pin->lent))
				peerdma_importers_wait(pin, true);
		}
		return;
	}

	trace_peerdma_revoke_begin(pin);
	atomic64_inc(&peerdma_stats.revocations);
	if (pin->file)
		peerdma_file_event(pin);
	if (pin->ops && pin->ops->revoke)
		pin->ops->revoke(pin, pin->client_priv);
	teardown(pin, true);
	trace_peerdma_revoke_end(pin);

	mutex_lock(&pin->lock);
	set_state(pin, PIN_REVOKED);
	/* Release: the unpinner finds everything taken down. */
	smp_store_release(&pin->down, true);
	mutex_unlock(&pin->lock);
	wake_up_all(&pin_wait);
}

void peerdma_revoke(u64 cookie)
{
	struct peerdma_pin *pin;

	might_sleep();
	pin = peerdma_pin_by_cookie(cookie);
	if (!pin)
		return;
	revoke(pin);
	peerdma_pin_put(pin);
}
EXPORT_SYMBOL_GPL(peerdma_revoke);

/* ENDED: gives the memory back, then the name.  Nothing is left but references. */
static void finish(struct peerdma_pin *pin)
{
	give_back(pin);
	if (pin->source)
		peerdma_source_end(pin);
	module_put(pin->provider->owner);
	atomic64_inc(&peerdma_stats.unpins);

	if (pin->file)
		peerdma_slot_unlist(pin);
	/* Only now may another pin take the name: until put returned, the callback could come. */
	peerdma_pin_put(pin);
}

/* The owner's or an importer's.  True: it was the last one. */
static bool drop_hold(struct peerdma_pin *pin)
{
	lockdep_assert_held(&pin->lock);
	if (--pin->holds)
		return false;
	set_state(pin, PIN_ENDED);
	return true;
}

void peerdma_pin_drop_hold(struct peerdma_pin *pin)
{
	bool last;

	mutex_lock(&pin->lock);
	last = drop_hold(pin);
	mutex_unlock(&pin->lock);
	if (last)
		finish(pin);
}

/* Has nothing ever been made from the pin that is still there?  The common case. */
static bool bare(const struct peerdma_pin *pin)
{
	return !pin->viewed && !pin->revoked && list_empty(&pin->maps) &&
		list_empty(&pin->export_list);
}

/* What was made for user space and for importers goes. */
static void end_made(struct peerdma_pin *pin)
{
	struct peerdma_map *map, *next;
	bool last;

	if (!pin->down && !pin->source)
		teardown(pin, false);
	peerdma_maps_lock(pin, NULL, DMA_NONE);
	maps_down(pin);
	list_for_each_entry_safe(map, next, &pin->maps, node)
		if (map->handle)
			peerdma_map_destroy(map);
	/* An importer may keep the memory, and with it the pin, for longer than the file lives. */
	if (pin->file) {
		peerdma_file_forget(pin);
		peerdma_slot_unlist(pin);
	}
	/* Release: a revoker that came meanwhile may let the memory be reused. */
	smp_store_release(&pin->down, true);
	last = drop_hold(pin);
	peerdma_maps_unlock(pin);
	/* It has seen `down', or is seen waiting: pairs with the barrier in wait_event(). */
	if (wq_has_sleeper(&pin_wait))
		wake_up_all(&pin_wait);
	if (last)
		finish(pin);
}

bool peerdma_pin_end(struct peerdma_pin *pin, bool *busy)
{
	bool made;

	mutex_lock(&pin->lock);
	while (pin->state == PIN_REVOKING) {
		mutex_unlock(&pin->lock);
		wait_down(pin);
		mutex_lock(&pin->lock);
	}
	if (pin->state >= PIN_ENDING || (busy && pin->holds > 1)) {
		if (busy)
			*busy = pin->state < PIN_ENDING;
		mutex_unlock(&pin->lock);
		return false;
	}
	if (pin->state == PIN_LIVE)
		peerdma_generation_end(pin);
	made = !bare(pin);
	if (made) {
		set_state(pin, PIN_ENDING);
	} else {
		pin->down = true;
		drop_hold(pin);
	}
	mutex_unlock(&pin->lock);

	trace_peerdma_unpin(pin);
	if (made)
		end_made(pin);
	else
		finish(pin);
	return true;
}
