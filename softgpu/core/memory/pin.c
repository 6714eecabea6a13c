// SPDX-License-Identifier: MIT
/*
 * pin.c - pins, and how they end.
 *
 *	            put                      the memory is freed
 *	LIVE ---------------------+    LIVE ----> CALLBACK ---+
 *	                          v                           v
 *	                       ENDING (wait for holds, unmap, release BAR1 and VRAM)
 *	                          |
 *	                        freed
 *
 * A persistent pin can only take the left path.  If its GPU is removed it becomes an
 * ORPHAN, already unmapped, and put ends it from there.
 *
 * The thread that moves a pin out of LIVE ends it, so it ends once.  The callback runs with
 * no lock held.  A put that finds CALLBACK or ENDING waits until the pin is removed from
 * sg->pins; it compares serials to detect that the storage was reused.
 */
#include "memory.h"

enum sg_pin_state { PIN_LIVE = 1, PIN_CALLBACK, PIN_ENDING, PIN_ORPHAN };

static struct sg_pin *find_locked(struct sg *sg, const void *key)
{
	return SG_NODE_OF(sg_hash_find(&sg->pins, (u64)(unsigned long)key), struct sg_pin);
}

int sg_pin_take_locked(struct sg_pin *pin, const struct sg_pin_ops *ops, struct sg_mem *mem,
		       u64 offset, u64 va, u64 length, bool persistent)
{
	struct sg *sg = mem->gpu->sg;
	int err;

	if (mem->gpu->removed)
		return -ENODEV;
	if (sg_chaos_hits_locked(&sg->chaos.fail_pin))
		return -ENOMEM;
	err = sg_bar1_take_locked(mem, offset, length);
	if (err)
		return err;
	pin->sg = sg;
	pin->gpu = mem->gpu;
	pin->mem = mem;
	pin->range = NULL;
	pin->ops = ops;
	pin->va = va;
	pin->length = length;
	pin->mem_offset = offset;
	pin->serial = sg->next_pin_serial++;
	pin->callback_thread = 0;
	pin->npages = (u32)(length / SG_PAGE_SIZE);
	pin->holds = 0;
	pin->state = PIN_LIVE;
	pin->persistent = persistent;
	sg_mem_get_locked(pin->mem);
	pin->gpu->pins++;
	sg_list_init(&pin->link);
	sg_list_add_tail(&pin->gpu->pinned, &pin->in_gpu);
	pin->node.key = (u64)(unsigned long)pin;
	sg_hash_add(&sg->pins, &pin->node);
	return 0;
}

void sg_pin_attach_locked(struct sg_pin *pin, struct sg_range *range)
{
	pin->range = range;
	sg_list_add_tail(pin->persistent ? &range->persistent : &range->pins, &pin->link);
}

/*
 * Drops the lock.  Ends a pin that has left LIVE, or whose callback has returned.  `mapped`:
 * unmap was not called yet.
 */
static void end_locked(struct sg_pin *pin, bool mapped)
{
	struct sg *sg = pin->sg;
	struct sg_gpu *gpu = pin->gpu;

	pin->state = PIN_ENDING;
	while (pin->holds)
		sg_cond_wait(&sg->ended, &sg->lock);
	if (mapped) {
		sg_mutex_unlock(&sg->lock);
		pin->ops->unmap(pin);
		sg_mutex_lock(&sg->lock);
	}
	sg_bar1_give_locked(pin->mem, pin->mem_offset, pin->length);
	gpu->pins--;
	/*
	 * If its range still exists, slots that were freed while it was pinned may be used
	 * again.
	 */
	if (pin->range) {
		sg_list_del(&pin->link);
		sg_slab_unpinned_locked(pin->range);
	}
	sg_list_del(&pin->in_gpu);
	sg_hash_del(&sg->pins, &pin->node);
	sg_mem_put_locked(pin->mem);
	sg_cond_broadcast(&sg->ended);
	sg_mutex_unlock(&sg->lock);
	pin->ops->free(pin);
	sg_mutex_lock(&sg->lock);
}

struct sg_pin *sg_pin_live_at_locked(struct sg *sg, const void *key, u64 serial)
{
	struct sg_pin *pin = find_locked(sg, key);

	return pin && pin->state == PIN_LIVE && (!serial || pin->serial == serial) ? pin : NULL;
}

int sg_pin_put_locked(struct sg *sg, const void *key, bool persistent, u64 serial, bool no_wait)
{
	struct sg_pin *pin;
	int err;

	for (;;) {
		err = -ENOENT;
		pin = find_locked(sg, key);
		if (!pin || (serial && pin->serial != serial))
			break;
		err = -EINVAL;
		if (pin->persistent != persistent)
			break;
		err = 0;
		if (pin->state == PIN_LIVE || pin->state == PIN_ORPHAN) {
			end_locked(pin, pin->state == PIN_LIVE);
			break;
		}
		err = -EDEADLK;
		if (pin->callback_thread == sg_thread_self())
			break;
		err = -EBUSY;
		if (no_wait)
			break;
		serial = pin->serial;
		sg_cond_wait(&sg->ended, &sg->lock);
	}
	return err;
}

int sg_pin_put(struct sg *sg, const void *key, bool persistent)
{
	int err;

	sg_mutex_lock(&sg->lock);
	err = sg_pin_put_locked(sg, key, persistent, 0, false);
	sg_mutex_unlock(&sg->lock);
	return err;
}

/* Drops the lock.  Revokes a live pin. */
static void revoke_locked(struct sg_pin *pin)
{
	struct sg *sg = pin->sg;
	u32 delay = sg->chaos.callback_delay_ms;

	pin->state = PIN_CALLBACK;
	pin->callback_thread = sg_thread_self();
	pin->gpu->revocations++;
	sg_mutex_unlock(&sg->lock);
	if (delay)
		sg_sleep_ms(delay);
	pin->ops->callback(pin);
	sg_mutex_lock(&sg->lock);
	pin->callback_thread = 0;
	end_locked(pin, true);
}

/*
 * Returns a live pin of the range, or NULL.  Pins that other threads are ending come first
 * in the list, but they are few.
 */
static struct sg_pin *live_pin_locked(struct sg_range *range)
{
	struct sg_pin *pin;

	sg_list_for_each(pin, &range->pins, struct sg_pin, link) {
		if (pin->state == PIN_LIVE)
			return pin;
	}
	return NULL;
}

void sg_pins_revoke_locked(struct sg_range *range)
{
	struct sg *sg = range->proc->sg;
	struct sg_pin *pin;

	while ((pin = live_pin_locked(range)))
		revoke_locked(pin);
	/* When this returns, no revoked pin may reach the memory. */
	while (!sg_list_empty(&range->pins))
		sg_cond_wait(&sg->ended, &sg->lock);
	/* Persistent pins remain: only unlink them. */
	while (!sg_list_empty(&range->persistent)) {
		pin = sg_list_entry(range->persistent.next, struct sg_pin, link);
		sg_list_del(&pin->link);
		pin->range = NULL;
	}
}

/* May this pin be revoked on demand?  That is rare, so the search for one looks at all pins. */
static bool may_be_revoked(const struct sg_pin *pin)
{
	return pin->state == PIN_LIVE && !pin->persistent;
}

/* Returns the live pin with this serial or, if that is 0, one that contains this address. */
static struct sg_pin *chosen_locked(struct sg *sg, u64 serial, u64 va)
{
	struct sg_pin *pin;
	u32 i;

	for (i = 0; i < SOFTGPU_MAX_GPUS; i++) {
		if (!sg->gpus[i])
			continue;
		sg_list_for_each(pin, &sg->gpus[i]->pinned, struct sg_pin, in_gpu) {
			if (may_be_revoked(pin) &&
			    (serial ? pin->serial == serial : va - pin->va < pin->length))
				return pin;
		}
	}
	return NULL;
}

int sg_pin_revoke(struct sg *sg, u64 serial)
{
	struct sg_pin *pin;

	sg_mutex_lock(&sg->lock);
	pin = serial ? chosen_locked(sg, serial, 0) : NULL;
	if (pin)
		revoke_locked(pin);
	sg_mutex_unlock(&sg->lock);
	return pin ? 0 : -ENOENT;
}

u32 sg_pins_revoke_at(struct sg *sg, u64 va)
{
	struct sg_pin *pin;
	u32 n = 0;

	sg_mutex_lock(&sg->lock);
	while ((pin = chosen_locked(sg, 0, va))) {
		revoke_locked(pin);
		n++;
	}
	sg_mutex_unlock(&sg->lock);
	return n;
}

void sg_pin_revoke_any_locked(struct sg_gpu *gpu)
{
	struct sg_pin *pin, *victim = NULL;
	u32 seen = 0;

	/*
	 * The n-th candidate replaces the choice with probability 1/n, so all are equally
	 * likely in the end.
	 */
	sg_list_for_each(pin, &gpu->pinned, struct sg_pin, in_gpu) {
		if (may_be_revoked(pin) && sg_chaos_random_locked(gpu->sg) % ++seen == 0)
			victim = pin;
	}
	if (victim)
		revoke_locked(victim);
}

void sg_pins_orphan_locked(struct sg_gpu *gpu)
{
	struct sg *sg = gpu->sg;
	struct sg_pin *pin;

	while (!sg_list_empty(&gpu->pinned)) {
		pin = sg_list_entry(gpu->pinned.next, struct sg_pin, in_gpu);
		if (pin->state != PIN_LIVE || !pin->persistent) {
			/* Another thread is ending it. */
			sg_cond_wait(&sg->ended, &sg->lock);
			continue;
		}
		pin->state = PIN_ENDING;
		while (pin->holds)
			sg_cond_wait(&sg->ended, &sg->lock);
		sg_mutex_unlock(&sg->lock);
		pin->ops->unmap(pin);
		sg_mutex_lock(&sg->lock);
		pin->state = PIN_ORPHAN;
		sg_list_del(&pin->in_gpu);
		sg_list_add_tail(&gpu->orphans, &pin->in_gpu);
		sg_cond_broadcast(&sg->ended);
	}
}

struct sg_pin *sg_pin_hold(struct sg *sg, const void *key)
{
	struct sg_pin *pin;

	sg_mutex_lock(&sg->lock);
	pin = find_locked(sg, key);
	if (pin && (pin->state == PIN_LIVE || pin->state == PIN_CALLBACK))
		pin->holds++;
	else
		pin = NULL;
	sg_mutex_unlock(&sg->lock);
	return pin;
}

void sg_pin_unhold(struct sg_pin *pin)
{
	struct sg *sg = pin->sg;

	sg_mutex_lock(&sg->lock);
	if (!--pin->holds)
		sg_cond_broadcast(&sg->ended);
	sg_mutex_unlock(&sg->lock);
}

bool sg_pin_live(const struct sg_pin *pin)
{
	bool live;

	sg_mutex_lock(&pin->sg->lock);
	live = pin->state == PIN_LIVE;
	sg_mutex_unlock(&pin->sg->lock);
	return live;
}

u64 sg_pin_page(const struct sg_pin *pin, u32 index)
{
	return sg_mem_phys(pin->mem, pin->mem_offset + index * SG_PAGE_SIZE);
}

void sg_pin_pages(const struct sg_pin *pin, u64 *to, size_t stride)
{
	sg_mem_phys_pages(pin->mem, pin->mem_offset, pin->length, to, stride);
}

bool sg_pin_in_system(const struct sg_pin *pin)
{
	return pin->mem->system;
}

void sg_pin_uuid(const struct sg_pin *pin, u8 uuid[16])
{
	memcpy(uuid, pin->gpu->desc.uuid, 16);
}

u32 sg_pin_gpu_index(const struct sg_pin *pin)
{
	return pin->gpu->index;
}

void sg_pins_for_each(struct sg *sg, void (*fn)(void *arg, const struct sg_pin *pin), void *arg)
{
	const struct sg_pin *pin;
	u32 i;

	sg_mutex_lock(&sg->lock);
	for (i = 0; i < SOFTGPU_MAX_GPUS; i++) {
		if (!sg->gpus[i])
			continue;
		sg_list_for_each(pin, &sg->gpus[i]->pinned, struct sg_pin, in_gpu)
			fn(arg, pin);
		sg_list_for_each(pin, &sg->gpus[i]->orphans, struct sg_pin, in_gpu)
			fn(arg, pin);
	}
	sg_mutex_unlock(&sg->lock);
}
