// SPDX-License-Identifier: MIT OR GPL-2.0
/* pin.c - begins, revokes and ends a pin; pin.h has its states and the lock order. */
#include "pin.h"
#include "trace.h"

/*
 * Pinning and unpinning are hot paths, and bench/ counts their instructions: what both
 * always run is inlined.
 */

/* Threads that wait for another thread to tear a pin down: rare, so one queue for all pins. */
static DECLARE_WAIT_QUEUE_HEAD(pin_wait);

/*
 * Waits until another thread has taken down what was made from the pin.  Rare: kept out of
 * the hot paths.
 */
static noinline void wait_down(const struct peerdma_pin *pin)
{
	/* Acquire: this thread sees what that thread took down. */
	wait_event(pin_wait, smp_load_acquire(&pin->down));
}

/* The same for a system call, which SIGKILL ends: -EINTR. */
static noinline int wait_down_killable(const struct peerdma_pin *pin)
{
	/* Acquire: as above. */
	return wait_event_killable(pin_wait, smp_load_acquire(&pin->down)) ? -EINTR : 0;
}

static void set_state(struct peerdma_pin *pin, enum peerdma_state state)
{
	lockdep_assert_held(&pin->lock);
	/* Release: a thread that reads LIVE without the lock sees a finished pin. */
	smp_store_release(&pin->state, state);
}

/* ---- beginning ---- */

/* Widens the request to the provider's pages. */
static int widen(struct peerdma_pin *pin, const struct peerdma_provider *p)
{
	u64 mask = (1ULL << p->page_shift) - 1;
	u64 end = pin->addr + pin->length;

	if (end > ~mask)
		return -EINVAL;
	pin->start = pin->addr & ~mask;
	pin->pinned_length = ((end + mask) & ~mask) - pin->start;
	/* Each handle has 1 TiB of mmap offsets (view.c), and page numbers must fit into a u32. */
	if (pin->pinned_length > 1ULL << 40)
		return p->host ? -ENOMEM : -ENXIO;
	return 0;
}

/*
 * Gives the memory back to the provider, unless it was revoked.  The callback may still
 * come while the put is under way: the group lock handles that, or a provider without one.
 */
static __always_inline void give_back(struct peerdma_pin *pin)
{
	struct peerdma_provider *p = pin->provider;

	if (p->host) {
		p->put(pin);
		return;
	}
	if (!p->takes_mmap_lock)
		peerdma_group_enter(&p->group_lock, GROUP_PUT);
	if (!READ_ONCE(pin->revoked))
		p->put(pin);
	if (!p->takes_mmap_lock)
		peerdma_group_leave(&p->group_lock);
	if (p->release)
		p->release(pin);
}

/*
 * Memory has one owner.  If two providers claim it, one of them is wrong, and there is
 * no way to know which: the wrong one would not notify us when the other frees.
 */
static struct peerdma_provider *other_owner(const struct peerdma_pin *pin,
					    const struct peerdma_provider *p)
{
	/* A pin with tokens is one vendor's: no other provider is asked. */
	if (likely(READ_ONCE(peerdma_claimers) <= p->claimer) || p->host ||
	    pin->token | pin->va_space)
		return NULL;
	return peerdma_provider_claiming(pin, p);
}

static int refuse_shared(const struct peerdma_pin *pin, const struct peerdma_provider *other)
{
	pr_warn_ratelimited("peerdma: pin refused: providers %s and %s both claim [%#llx, %#llx); unload one of them\n",
			    pin->provider->name, other->name, pin->addr, pin->addr + pin->length);
	return -EOPNOTSUPP;
}

/*
 * Gets the memory.  From the moment when a provider can revoke the pin until the pin is
 * LIVE, pin->lock delays peerdma_revoke(), so that the provider does not free what its
 * `get' is still reading.  Host memory is never revoked, and its `get' takes mmap_lock,
 * which comes before pin->lock.
 */
static __always_inline int get_locked(struct peerdma_pin *pin, struct peerdma_provider *p)
{
	int err;

	if (p->host || p->takes_mmap_lock)
		return p->get(pin);
	mutex_lock_nested(&pin->lock, PIN_LOCK_NEW);
	err = p->get(pin);
	mutex_unlock(&pin->lock);
	return err;
}

/* If the provider has taken the memory back already, the pin does not start. */
static __always_inline int make_live(struct peerdma_pin *pin, const struct peerdma_provider *other)
{
	int err = 0;

	mutex_lock(&pin->lock);
	if (pin->revoked)
		err = -ESTALE;
	if (!err && unlikely(other))
		err = refuse_shared(pin, other);
	if (!err) {
		pin->holds = 1;
		set_state(pin, PIN_LIVE);
	}
	mutex_unlock(&pin->lock);
	return err;
}

static __always_inline int get_in_group(struct peerdma_pin *pin, struct peerdma_provider *p)
{
	int err;

	if (p->host || p->takes_mmap_lock)
		return get_locked(pin, p);
	err = peerdma_group_enter_killable(&p->group_lock, GROUP_GET);
	if (unlikely(err))
		return err;
	err = get_locked(pin, p);
	peerdma_group_leave(&p->group_lock);
	return err;
}

static __always_inline int get_live(struct peerdma_pin *pin, struct peerdma_provider *p)
{
	struct peerdma_provider *other = other_owner(pin, p);
	int err;

	err = get_in_group(pin, p);
	if (!err && unlikely(p->read))
		err = p->read(pin);
	if (likely(!err))
		err = make_live(pin, other);
	if (unlikely(other))
		peerdma_provider_let_go(other);
	/* Without pin->lock: a provider's put may wait for the callback. */
	if (unlikely(err && pin->priv)) {
		give_back(pin);
		if (!pin->import)
			pin->priv = NULL;
	}
	return err;
}

static void uncharge(struct peerdma_pin *pin)
{
	if (pin->charged)
		peerdma_uncharge_aperture(pin->account, pin->pinned_length);
	pin->charged = false;
}

static __always_inline int get_from(struct peerdma_pin *pin, struct peerdma_provider *p)
{
	int err;

	pin->provider = p;
	pin->page_shift = p->page_shift;
	err = widen(pin, p);
	if (err)
		return err;
	/* Also without a limit: the sums are shown, and a limit that is set later counts this pin. */
	if (p->aperture) {
		err = peerdma_charge_aperture(pin->account, pin->pinned_length);
		if (err)
			return err;
		pin->charged = true;
	}
	err = get_live(pin, p);
	if (unlikely(err))
		uncharge(pin);
	return err;
}

/* Asks one provider after the other, until one does not return -ENXIO; that result counts. */
static __always_inline int pin_get(struct peerdma_pin *pin)
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
			peerdma_provider_let_go(p);
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
	/* Tokens name GPU memory, and become worthless when it is freed. */
	if (pin->token | pin->va_space && pin->flags & host_or_persistent)
		return -EINVAL;
	if ((pin->flags & host_or_persistent) == host_or_persistent)
		return -EOPNOTSUPP;
	return 0;
}

static int started(struct peerdma_pin *pin, int err)
{
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
	/* Before the provider can call back. */
	peerdma_generation_begin(pin);
	return started(pin, pin_get(pin));
}

int peerdma_pin_start_at(struct peerdma_pin *pin, struct peerdma_provider *provider)
{
	peerdma_generation_begin(pin);
	return started(pin, get_from(pin, provider));
}

/* ---- the memory is taken back ---- */

/*
 * Takes down all that was made from the pin.  The state already keeps new objects from
 * being made.
 */
static void teardown(struct peerdma_pin *pin, bool taken)
{
	peerdma_object_stop_all(pin, taken);
	mutex_lock(&pin->lock);
	peerdma_object_down_all(pin);
	mutex_unlock(&pin->lock);
}

/* Another thread is ending the pin, or has ended it.  Returns when nothing reaches the memory. */
static void revoke_ending(struct peerdma_pin *pin)
{
	/*
	 * The thread that ends an import needs the lock that the exporter holds around this
	 * call.  So this thread takes down what is left.
	 */
	if (pin->import) {
		mutex_lock(&pin->lock);
		peerdma_object_down_all(pin);
		mutex_unlock(&pin->lock);
		return;
	}
	wait_down(pin);
	/* The unpinner let importers keep the memory; they must give it up now. */
	teardown(pin, true);
}

/* Returns pin->priv. */
static void *revoke(struct peerdma_pin *pin)
{
	enum peerdma_state was;
	void *priv;

	mutex_lock(&pin->lock);
	was = pin->state;
	priv = pin->priv;
	if (was == PIN_LIVE) {
		peerdma_generation_end(pin);
		set_state(pin, PIN_REVOKING);
	}
	/*
	 * Set also while the pin is being unpinned: a `put' that has not begun must not
	 * begin, since the provider's pin is gone.  While a `put' is under way, no get can
	 * receive the same page table (group_lock.h).
	 */
	WRITE_ONCE(pin->revoked, true);
	mutex_unlock(&pin->lock);

	/* NEW: `get' has failed after it had set pin->priv. */
	if (was == PIN_NEW)
		return priv;
	if (was != PIN_LIVE) {
		revoke_ending(pin);
		return priv;
	}

	trace_peerdma_revoke_begin(pin);
	atomic64_inc(&peerdma_stats.revocations);
	atomic64_inc(&pin->account->revocations);
	pin->owner->ops->revoked(pin);
	teardown(pin, true);
	trace_peerdma_revoke_end(pin);

	mutex_lock(&pin->lock);
	set_state(pin, PIN_REVOKED);
	/* The pin holds no memory any more while it waits for its unpin. */
	uncharge(pin);
	/* Release: the unpinner sees everything taken down. */
	smp_store_release(&pin->down, true);
	mutex_unlock(&pin->lock);
	wake_up_all(&pin_wait);
	return priv;
}

void *peerdma_revoke(u64 cookie)
{
	struct peerdma_pin *pin;
	struct module *owner;
	bool held;
	void *priv;

	might_sleep();
	pin = peerdma_pin_by_cookie(cookie);
	if (!pin)
		return NULL;
	/*
	 * This returns into the provider's code, whose module the pin's end may have
	 * released meanwhile.  After module_put() nothing here sleeps, and
	 * peerdma_unregister_provider() waits for that.
	 */
	owner = pin->provider->owner;
	held = try_module_get(owner);
	priv = revoke(pin);
	peerdma_pin_put(pin);
	if (held)
		module_put(owner);
	return priv;
}
EXPORT_SYMBOL_GPL(peerdma_revoke);

/* ---- ending ---- */

static void leave_owner(struct peerdma_pin *pin, bool held)
{
	const struct peerdma_owner_ops *ops = pin->owner->ops;

	if (unlikely(pin->revoked || !list_empty(&pin->objects)) && ops->ended)
		ops->ended(pin);
	if (pin->owner->generations)
		peerdma_pin_leave(pin, held);
	else
		pin->owner = NULL;
}

/* ENDED: gives the memory back, then releases the id.  Only references are left. */
static __always_inline void finish(struct peerdma_pin *pin)
{
	struct peerdma_provider *p = pin->provider;

	give_back(pin);
	uncharge(pin);
	if (likely(pin->owner))
		leave_owner(pin, false);
	peerdma_provider_let_go(p);
	atomic64_inc(&peerdma_stats.unpins);
	/* Only now may another pin get the id: until put returned, the callback could come. */
	peerdma_pin_put(pin);
}

/* Drops the hold of the owner or of an importer.  Returns true if it was the last one. */
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

/* Takes down what was made from the pin, for user space and for importers. */
static noinline void end_objects(struct peerdma_pin *pin)
{
	bool last;

	if (!pin->down)
		peerdma_object_stop_all(pin, false);
	peerdma_maps_lock(pin, NULL);
	peerdma_object_down_all(pin);
	/* Release: a revoker that waits may now let the memory be reused. */
	smp_store_release(&pin->down, true);
	peerdma_maps_unlock(pin);
	/* A waiter either sees `down' or is seen here: pairs with the barrier in wait_event(). */
	if (wq_has_sleeper(&pin_wait))
		wake_up_all(&pin_wait);

	/* An importer may keep the memory, and so the pin, for longer than the file is open. */
	mutex_lock(&pin->lock);
	last = pin->holds == 1;
	mutex_unlock(&pin->lock);
	if (!last)
		leave_owner(pin, true);
	peerdma_pin_drop_hold(pin);
}

int peerdma_pin_end(struct peerdma_pin *pin, bool asked)
{
	bool has_objects;
	int err;

	mutex_lock(&pin->lock);
	while (pin->state == PIN_REVOKING) {
		mutex_unlock(&pin->lock);
		if (!asked) {
			wait_down(pin);
		} else {
			err = wait_down_killable(pin);
			if (err)
				return err;
		}
		mutex_lock(&pin->lock);
	}
	if (pin->state >= PIN_ENDING || (asked && pin->holds > 1)) {
		err = pin->state < PIN_ENDING ? -EBUSY : -ENOENT;
		mutex_unlock(&pin->lock);
		return err;
	}
	if (pin->state == PIN_LIVE)
		peerdma_generation_end(pin);
	has_objects = !list_empty(&pin->objects) || pin->revoked;
	if (has_objects) {
		set_state(pin, PIN_ENDING);
	} else {
		pin->down = true;
		drop_hold(pin);
	}
	mutex_unlock(&pin->lock);

	trace_peerdma_unpin(pin);
	if (has_objects)
		end_objects(pin);
	else
		finish(pin);
	return 0;
}
