// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * object.c - allocates pins and finds them by handle or cookie.
 *
 * A handle is a small number, unique in the system, that names one pin at a time: in system
 * calls, in the mmap offsets of its CPU views, and in the table of all pins in debugfs.  A
 * cookie names a pin for ever: it is the handle with a serial number above it.  Providers
 * have it as their callback's argument, and the callback may come after the pin has ended.
 *
 * Pinning is a hot path for programs that cannot cache registrations, and allocating a pin
 * and its handle would be a third of it.  So pins that have ended are kept with their
 * handles as spares for the next ones; beyond MAX_SPARES they are freed.
 *
 * The last handles are reserved for CAP_SYS_RESOURCE, so that an administrator can still
 * pin when users have taken all others.  While handles of the reserve are in use no pin is
 * kept as a spare, since any user might get it.
 *
 * In this file a pin's "name" is its handle.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "charge.h"
#include "object.h"
#include "slots.h"

struct peerdma_stats peerdma_stats;

#define HANDLE_BITS	20		/* PEERDMA_MAX_PINS */
#define CHUNK_NAMES	((u32)(PAGE_SIZE / sizeof(unsigned long)))
#define CHUNKS		(PEERDMA_MAX_PINS / CHUNK_NAMES)

/*
 * By handle: a pin, or the next free handle << 1 | 1.  Chunks are allocated when first
 * needed, and kept.
 */
static unsigned long *chunks[CHUNKS];
static struct kmem_cache *pin_cache;

/* Guards the variables below, the contents of the chunks, and owners' lists of pins and slots. */
static DEFINE_SPINLOCK(names_lock);
static u32 first_free;			/* 0: none */
static u32 used = 1;			/* handles from here on were never used; 0 is no handle */
/* 44 bits: at a million pins a second, cookies repeat after 200 days. */
static u64 serial;
#define MAX_SPARES 1024
static struct peerdma_pin *spares;	/* without references, with a handle; linked by priv */
static unsigned int nspares;
static unsigned int max_spares = MAX_SPARES;
static u32 named;			/* number of handles in use, including those of spares */

static unsigned int reserved_pins = PEERDMA_MAX_PINS / 16;
module_param(reserved_pins, uint, 0644);
MODULE_PARM_DESC(reserved_pins, "Pins, of 1048576, that are reserved for processes with CAP_SYS_RESOURCE (default 65536)");

/* The next handle to be taken is in the reserve, or none is left. */
static bool in_reserve(void)
{
	u32 all = PEERDMA_MAX_PINS - 1;

	return named >= all - min(READ_ONCE(reserved_pins), all);
}

/* names_lock held. */
static void count_names(int change)
{
	named += change;
	max_spares = in_reserve() ? 0 : MAX_SPARES;
}

static unsigned long *name_at(u32 handle)
{
	return &chunks[handle / CHUNK_NAMES][handle % CHUNK_NAMES];
}

/* Takes a free handle, or one that was never used if its chunk exists; else returns 0. */
static u32 take_name(struct peerdma_pin *pin)
{
	u32 handle = first_free;

	lockdep_assert_held(&names_lock);
	if (handle)
		first_free = *name_at(handle) >> 1;
	else if (used < PEERDMA_MAX_PINS && chunks[used / CHUNK_NAMES])
		handle = used++;
	else
		return 0;
	pin->handle = handle;
	*name_at(handle) = (unsigned long)pin;
	count_names(1);
	return handle;
}

/*
 * Allocates the chunk for handles that were never used.  -ENFILE: all handles are in use;
 * -ENOMEM.
 */
static noinline int make_names(void)
{
	u32 missing = READ_ONCE(used) / CHUNK_NAMES;
	unsigned long page;

	if (missing == CHUNKS)
		return -ENFILE;
	page = get_zeroed_page(GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	spin_lock(&names_lock);
	if (!chunks[missing]) {
		chunks[missing] = (unsigned long *)page;
		page = 0;
	}
	spin_unlock(&names_lock);
	free_page(page);
	return 0;
}

/* Allocates a pin with a handle, in the state of a spare. */
static noinline struct peerdma_pin *make_spare(void)
{
	struct peerdma_pin *pin = kmem_cache_alloc(pin_cache, GFP_KERNEL);
	/* No audit: mostly the result does not matter. */
	bool exempt = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
	bool refused;
	u32 handle = 0;
	int err;

	if (!pin)
		return ERR_PTR(-ENOMEM);
	/* From take_name() on the pin can be found, but it has no references to get. */
	for (;;) {
		spin_lock(&names_lock);
		refused = in_reserve() && !exempt;
		if (!refused)
			handle = take_name(pin);
		spin_unlock(&names_lock);
		if (handle)
			return pin;
		err = refused ? -ENFILE : make_names();
		if (err)
			break;
	}
	kmem_cache_free(pin_cache, pin);
	return ERR_PTR(err);
}

/* Sets the fields of a spare that the last put left as they were. names_lock held. */
static void set_up(struct peerdma_pin *pin, struct peerdma_owner *owner,
		   struct peerdma_account *account)
{
	struct peerdma_slot *slot;

	pin->cookie = ++serial << HANDLE_BITS | pin->handle;
	pin->account = account;
	pin->state = PIN_NEW;
	pin->published = false;
	pin->revoked = false;
	pin->down = false;
	pin->zapped = false;
	pin->charged = false;
	pin->priv = NULL;
	pin->import = NULL;
	pin->owner = owner;
	pin->slot_generation = &pin->no_slot;
	if (owner->slots) {
		slot = peerdma_slot_take(owner->slots);
		pin->slot = slot;
		pin->slot_index = slot->index;
		pin->slot_generation = slot->generation;
		hlist_add_head(&pin->owner_node, &owner->pins);
	}
	/* From here on look-ups return the pin. */
	kref_init(&pin->ref);
}

/* A spare pin and, if the owner has slots, a free slot are there. names_lock held. */
static bool ready(const struct peerdma_owner *owner)
{
	return likely(spares && (!owner->slots || owner->slots->free));
}

/*
 * Allocates what ready() misses, without the lock, and returns with the lock held, so that
 * no other user takes a spare that root made from the reserve.
 */
static noinline int make_ready(struct peerdma_owner *owner)
	__acquires(&names_lock)
{
	struct peerdma_slot *slot = NULL;
	struct peerdma_pin *pin = NULL;

	if (owner->slots && !READ_ONCE(owner->slots->free))
		slot = peerdma_slot_make(owner->slots);
	if (IS_ERR(slot))
		pin = ERR_CAST(slot);
	else if (!READ_ONCE(spares))
		pin = make_spare();
	spin_lock(&names_lock);
	if (!IS_ERR_OR_NULL(slot))
		peerdma_slot_give(owner->slots, slot);
	if (!IS_ERR_OR_NULL(pin)) {
		pin->priv = spares;
		spares = pin;
		nspares++;
	}
	return PTR_ERR_OR_ZERO(pin);
}

struct peerdma_pin *peerdma_pin_new(struct peerdma_owner *owner)
{
	struct peerdma_account *account = peerdma_account();
	struct peerdma_pin *pin;
	int err;

	if (!account)
		return ERR_PTR(-ENOMEM);
	err = peerdma_charge(account, CHARGE_PINS);
	if (err)
		return ERR_PTR(err);
	spin_lock(&names_lock);
	while (!ready(owner)) {
		spin_unlock(&names_lock);
		err = make_ready(owner);
		if (err) {
			spin_unlock(&names_lock);
			peerdma_uncharge(account, CHARGE_PINS);
			return ERR_PTR(err);
		}
	}
	pin = spares;
	spares = pin->priv;
	nspares--;
	set_up(pin, owner, account);
	spin_unlock(&names_lock);
	pin->tgid = current->tgid;
	memcpy(pin->comm, current->comm, sizeof(pin->comm));
	return pin;
}

void peerdma_pin_leave(struct peerdma_pin *pin, bool held)
{
	struct peerdma_owner *owner = pin->owner;

	spin_lock(&names_lock);
	pin->owner = NULL;
	hlist_del(&pin->owner_node);
	if (likely(!held)) {
		peerdma_slot_give(owner->slots, pin->slot);
	} else {
		WRITE_ONCE(pin->slot_generation, &pin->no_slot);
		peerdma_slot_abandon(owner->slots, pin->slot);
	}
	spin_unlock(&names_lock);
}

void peerdma_pin_free(struct kref *ref)
{
	struct peerdma_pin *pin = container_of(ref, struct peerdma_pin, ref);

	if (unlikely(pin->import))
		pin->import->free(pin);
	if (unlikely(pin->views)) {
		iput(pin->views);
		pin->views = NULL;
	}
	peerdma_uncharge(pin->account, CHARGE_PINS);
	spin_lock(&names_lock);
	if (likely(nspares < max_spares)) {
		pin->priv = spares;
		spares = pin;
		nspares++;
		pin = NULL;
	} else {
		*name_at(pin->handle) = (unsigned long)first_free << 1 | 1;
		first_free = pin->handle;
		count_names(-1);
	}
	spin_unlock(&names_lock);
	if (unlikely(pin))
		kmem_cache_free(pin_cache, pin);
}

/* Returns the pin of this handle with a reference, or NULL if there is none or it has ended. */
static struct peerdma_pin *get_at(u32 handle)
{
	struct peerdma_pin *pin;
	unsigned long value;

	lockdep_assert_held(&names_lock);
	if (!handle || handle >= used)
		return NULL;
	value = *name_at(handle);
	if (!value || value & 1)
		return NULL;
	pin = (struct peerdma_pin *)value;
	return kref_get_unless_zero(&pin->ref) ? pin : NULL;
}

struct peerdma_pin *peerdma_pin_find(const struct peerdma_owner *owner, u32 handle)
{
	struct peerdma_pin *pin;

	spin_lock(&names_lock);
	pin = get_at(handle);
	/* Acquire: a published pin is complete, and its maker does not use it any more. */
	if (likely(pin) && unlikely(pin->owner != owner || !smp_load_acquire(&pin->published))) {
		spin_unlock(&names_lock);
		peerdma_pin_put(pin);
		return NULL;
	}
	spin_unlock(&names_lock);
	return pin;
}

struct peerdma_pin *peerdma_pin_of(struct peerdma_owner *owner)
{
	struct peerdma_pin *pin;

	spin_lock(&names_lock);
	pin = hlist_entry_safe(owner->pins.first, struct peerdma_pin, owner_node);
	/* A pin on the list has its owner's reference. */
	if (pin)
		kref_get(&pin->ref);
	spin_unlock(&names_lock);
	return pin;
}

struct peerdma_pin *peerdma_pin_by_cookie(u64 cookie)
{
	struct peerdma_pin *pin;
	bool same;

	spin_lock(&names_lock);
	pin = get_at(cookie & (PEERDMA_MAX_PINS - 1));
	same = pin && pin->cookie == cookie;
	spin_unlock(&names_lock);
	if (pin && !same) {
		peerdma_pin_put(pin);
		pin = NULL;
	}
	return pin;
}

struct peerdma_pin *peerdma_pin_from(u32 handle)
{
	struct peerdma_pin *pin = NULL;

	spin_lock(&names_lock);
	for (; handle < used && !(pin = get_at(handle)); handle++)
		cond_resched_lock(&names_lock);
	spin_unlock(&names_lock);
	return pin;
}

/* ---- queries of one pin ---- */

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

/* ---- the module ---- */

/*
 * The state of a pin when it is allocated, and again after its last put: no references, an
 * unlocked lock, empty lists.
 */
static void pin_construct(void *object)
{
	struct peerdma_pin *pin = object;

	memset(pin, 0, sizeof(*pin));
	mutex_init(&pin->lock);
	INIT_LIST_HEAD(&pin->made);
	INIT_LIST_HEAD(&pin->event_node);
}

/* To lockdep: pin->lock is taken after what is charged was allocated (charge.h). */
static void teach_order(void)
{
	struct peerdma_pin *pin = IS_ENABLED(CONFIG_LOCKDEP) ? kmem_cache_alloc(pin_cache, GFP_KERNEL) : NULL;
	unsigned int subclass;

	if (!pin)
		return;
	for (subclass = 0; subclass <= PIN_LOCK_EXPORTED; subclass++)
		PEERDMA_CHARGE_BEFORE(&pin->lock, subclass);
	kmem_cache_free(pin_cache, pin);
}

int peerdma_object_init(void)
{
	BUILD_BUG_ON(1U << HANDLE_BITS != PEERDMA_MAX_PINS);
	/* No SLAB_ACCOUNT: a spare pin may serve another user than the one who made it. */
	pin_cache = kmem_cache_create("peerdma_pin", sizeof(struct peerdma_pin), 0, 0,
				      pin_construct);
	if (!pin_cache)
		return -ENOMEM;
	teach_order();
	return 0;
}

/* The module is unloaded: no file is open, so nothing is mapped, and no driver holds a pin. */
void peerdma_object_exit(void)
{
	struct peerdma_pin *pin;
	u32 i;

	while ((pin = spares)) {
		spares = pin->priv;
		kmem_cache_free(pin_cache, pin);
	}
	kmem_cache_destroy(pin_cache);
	for (i = 0; i < CHUNKS; i++)
		free_page((unsigned long)chunks[i]);
}
