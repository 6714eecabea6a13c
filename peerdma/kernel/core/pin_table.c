// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * pin_table.c - allocates pins, and finds them by handle, id or cookie.
 *
 * A handle names a pin in one open file: in system calls, and in the mmap offsets of its CPU
 * views.  It is that of the pin's slot (generations.h), so it does not depend on the pins of other
 * files, and a look-up touches no pin of other files.
 *
 * An id is a small number, unique in the system, that names one pin at a time: in the
 * kernel's log, in tracepoints, and in the table of all pins in debugfs.  Programs do not
 * learn it, since ids that are taken and freed show what other users do.
 *
 * A cookie names a pin for ever: it is the id with a serial number above it.  Providers have
 * it as their callback's argument, and the callback may come after the pin has ended.
 *
 * Pinning is a hot path for programs that cannot cache registrations.  So pins that have
 * ended are kept with their ids as spares for the next ones; beyond MAX_SPARES they are freed.
 * With pin_cache and the xarray alone, a pin and its unpin take three times the instructions
 * (bench/README.md).  The list is singly linked, by hand, since an hlist takes 13 more.
 *
 * The last ids are reserved for CAP_SYS_RESOURCE, so that an administrator can still pin
 * when users have taken all others.  While ids of the reserve are in use no pin is kept as a
 * spare, since any user might get it.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "charge.h"
#include "generations.h"
#include "pin_table.h"

struct peerdma_stats peerdma_stats;

#define ID_BITS		20		/* PEERDMA_MAX_PINS */
#define IDS		XA_LIMIT(1, PEERDMA_MAX_PINS - 1)

/* By id: all pins, spares too. */
static DEFINE_XARRAY_ALLOC1(ids);
static struct kmem_cache *pin_cache;

/*
 * Guards the variables below, owners' lists of pins and slots, and pins that are found by id
 * until they have a reference.
 */
static DEFINE_SPINLOCK(names_lock);
/* 44 bits: at a million pins a second, cookies repeat after 200 days. */
static u64 serial;
#define MAX_SPARES 1024
static struct peerdma_pin *spares;	/* without references, with an id; by next_spare */
static unsigned int nspares;
static unsigned int max_spares = MAX_SPARES;
static u32 named;			/* number of ids in use, including those of spares */

static unsigned int reserved_pins = PEERDMA_MAX_PINS / 16;
module_param(reserved_pins, uint, 0644);
MODULE_PARM_DESC(reserved_pins, "Pins, of 1048576, that are reserved for processes with CAP_SYS_RESOURCE (default 65536)");

/* The next id to be taken is in the reserve, or none is left. */
static bool in_reserve(void)
{
	u32 all = PEERDMA_MAX_PINS - 1;

	return named >= all - min(READ_ONCE(reserved_pins), all);
}

/* names_lock held. */
static void count_ids(int change)
{
	lockdep_assert_held(&names_lock);
	named += change;
	max_spares = in_reserve() ? 0 : MAX_SPARES;
}

/* From here on the pin can be found by its id, but it has no references to get. */
static int take_id(struct peerdma_pin *pin)
{
	/* No audit: mostly the result does not matter. */
	bool exempt = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
	bool refused;
	int err;

	spin_lock(&names_lock);
	refused = in_reserve() && !exempt;
	if (!refused)
		count_ids(1);
	spin_unlock(&names_lock);
	if (refused)
		return -ENFILE;
	err = xa_alloc(&ids, &pin->id, pin, IDS, GFP_KERNEL);
	if (!err)
		return 0;
	spin_lock(&names_lock);
	count_ids(-1);
	spin_unlock(&names_lock);
	return err == -EBUSY ? -ENFILE : err;
}

/* Allocates a pin with an id, in the state of a spare. */
static noinline struct peerdma_pin *make_spare(void)
{
	struct peerdma_pin *pin = kmem_cache_alloc(pin_cache, GFP_KERNEL);
	int err;

	if (!pin)
		return ERR_PTR(-ENOMEM);
	err = take_id(pin);
	if (!err)
		return pin;
	kmem_cache_free(pin_cache, pin);
	return ERR_PTR(err);
}

/* Sets the fields of a spare that the last put left as they were. names_lock held. */
static void set_up(struct peerdma_pin *pin, struct peerdma_owner *owner,
		   struct peerdma_account *account)
{
	struct peerdma_slot *slot;

	pin->cookie = ++serial << ID_BITS | pin->id;
	pin->account = account;
	pin->state = PIN_NEW;
	pin->token = 0;
	pin->va_space = 0;
	pin->going = false;
	pin->revoked = false;
	pin->down = false;
	pin->zapped = false;
	pin->charged = false;
	pin->priv = NULL;
	pin->import = NULL;
	pin->owner = owner;
	pin->handle = 0;
	pin->slot_generation = &pin->no_slot;
	if (owner->generations) {
		slot = peerdma_slot_take(owner->generations);
		pin->slot = slot;
		pin->handle = slot->handle;
		pin->slot_generation = slot->generation;
		hlist_add_head(&pin->owner_node, &owner->pins);
	}
	/* From here on look-ups return the pin. */
	kref_init(&pin->ref);
}

/* names_lock held. */
static void give_spare(struct peerdma_pin *pin)
{
	lockdep_assert_held(&names_lock);
	pin->next_spare = spares;
	spares = pin;
	nspares++;
}

/* names_lock held; there is a spare. */
static struct peerdma_pin *take_spare(void)
{
	struct peerdma_pin *pin = spares;

	lockdep_assert_held(&names_lock);
	spares = pin->next_spare;
	nspares--;
	return pin;
}

/* A spare pin and, if the owner has slots, a free slot are there. names_lock held. */
static bool ready(const struct peerdma_owner *owner)
{
	return likely(spares && (!owner->generations || owner->generations->free));
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

	if (owner->generations && !READ_ONCE(owner->generations->free))
		slot = peerdma_slot_make(owner->generations);
	if (IS_ERR(slot))
		pin = ERR_CAST(slot);
	else if (!READ_ONCE(spares))
		pin = make_spare();
	spin_lock(&names_lock);
	if (!IS_ERR_OR_NULL(slot))
		peerdma_slot_give(owner->generations, slot);
	if (!IS_ERR_OR_NULL(pin))
		give_spare(pin);
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
	pin = take_spare();
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
	pin->slot->pin = NULL;
	if (likely(!held)) {
		peerdma_slot_give(owner->generations, pin->slot);
	} else {
		WRITE_ONCE(pin->slot_generation, &pin->no_slot);
		peerdma_slot_abandon(owner->generations);
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
		give_spare(pin);
		pin = NULL;
	} else {
		xa_erase(&ids, pin->id);
		count_ids(-1);
	}
	spin_unlock(&names_lock);
	if (unlikely(pin))
		kmem_cache_free(pin_cache, pin);
}

struct peerdma_pin *peerdma_pin_find(const struct peerdma_owner *owner, u32 handle)
{
	struct peerdma_slot *slot = peerdma_slot_find(owner->generations, handle);
	struct peerdma_pin *pin;

	if (unlikely(!slot))
		return NULL;
	spin_lock(&names_lock);
	/* Acquire: a published pin is complete, and its maker does not use it any more. */
	pin = smp_load_acquire(&slot->pin);
	/* While a pin has its slot, it has its owner's reference. */
	if (likely(pin))
		kref_get(&pin->ref);
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

/* NULL, too, if the pin has ended. */
static struct peerdma_pin *get_unless_ended(struct peerdma_pin *pin)
{
	lockdep_assert_held(&names_lock);
	return pin && kref_get_unless_zero(&pin->ref) ? pin : NULL;
}

struct peerdma_pin *peerdma_pin_by_cookie(u64 cookie)
{
	struct peerdma_pin *pin;
	bool same;

	spin_lock(&names_lock);
	pin = get_unless_ended(xa_load(&ids, cookie & (PEERDMA_MAX_PINS - 1)));
	same = pin && pin->cookie == cookie;
	spin_unlock(&names_lock);
	if (pin && !same) {
		peerdma_pin_put(pin);
		pin = NULL;
	}
	return pin;
}

struct peerdma_pin *peerdma_pin_from(u32 id)
{
	struct peerdma_pin *pin, *found = NULL;
	unsigned long at;

	spin_lock(&names_lock);
	xa_for_each_start(&ids, at, pin, id) {
		found = get_unless_ended(pin);
		if (found)
			break;
		cond_resched_lock(&names_lock);
	}
	spin_unlock(&names_lock);
	return found;
}

/* ---- queries of one pin ---- */

int peerdma_pin_usable(const struct peerdma_pin *pin)
{
	lockdep_assert_held(&pin->lock);
	switch (pin->state) {
	case PIN_LIVE:
		return READ_ONCE(pin->going) ? -ESTALE : 0;
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
	INIT_LIST_HEAD(&pin->objects);
	INIT_LIST_HEAD(&pin->event_node);
}

/* To lockdep: pin->lock is taken after what is charged was allocated (charge.h). */
static void teach_order(void)
{
	struct peerdma_pin *pin = IS_ENABLED(CONFIG_LOCKDEP) ?
				  kmem_cache_alloc(pin_cache, GFP_KERNEL) : NULL;
	unsigned int subclass;

	if (!pin)
		return;
	for (subclass = 0; subclass <= PIN_LOCK_EXPORTED; subclass++)
		PEERDMA_CHARGE_BEFORE(&pin->lock, subclass);
	kmem_cache_free(pin_cache, pin);
}

int peerdma_pin_table_init(void)
{
	BUILD_BUG_ON(1U << ID_BITS != PEERDMA_MAX_PINS);
	/* No SLAB_ACCOUNT: a spare pin may serve another user than the one who made it. */
	pin_cache = kmem_cache_create("peerdma_pin", sizeof(struct peerdma_pin), 0, 0,
				      pin_construct);
	if (!pin_cache)
		return -ENOMEM;
	teach_order();
	return 0;
}

/* The module is unloaded: no file is open, so nothing is mapped, and no driver holds a pin. */
void peerdma_pin_table_exit(void)
{
	struct peerdma_pin *pin;

	while ((pin = spares)) {
		spares = pin->next_spare;
		kmem_cache_free(pin_cache, pin);
	}
	kmem_cache_destroy(pin_cache);
	xa_destroy(&ids);
}
