/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * object.h - the pin and what was made from it, as structs, and pins by name.  What happens
 * to them in their lives, and in which order locks are taken: pin.h.
 */
#ifndef PEERDMA_OBJECT_H
#define PEERDMA_OBJECT_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>

#include "account.h"
#include "peerdma_ioctl.h"
#include "peerdma_kapi.h"
#include "provider.h"

/*
 * Classes of pin->lock for lockdep, beside the common one.
 *
 * NVIDIA's driver holds its lock around peerdma_revoke(), which takes pin->lock in it; its
 * `get' and its dma_map take that lock in pin->lock.  No deadlock of these two, for it is never
 * one and the same pin: the driver does not know it yet (NEW: `get' has had the driver's
 * lock for the last time when the callback is armed), or never revokes it (LASTING:
 * dma_map takes the driver's lock for persistent pins only, of a coherent GPU, which have
 * no importers: no reservation lock is held around it).
 *
 * EXPORTED: of a pin whose dma-buf is unmapped for another pin, an import, whose lock is held.
 */
enum {
	PIN_LOCK_NEW = 1,
	PIN_LOCK_LASTING,
	PIN_LOCK_EXPORTED,
};

enum peerdma_state {
	PIN_NEW,
	PIN_LIVE,
	PIN_REVOKING,
	PIN_REVOKED,
	PIN_ENDING,
	PIN_ENDED,
};

struct peerdma_made;
struct peerdma_pin;
struct peerdma_slot;
struct peerdma_slots;

/*
 * What was made from a pin and reaches its memory.  When the pin ends, all are
 * stopped, then all are waited for, then all are taken down; then one flush for each
 * IOMMU domain lets no device reach the memory by an address that it remembers.
 */
struct peerdma_made_ops {
	enum peerdma_charge charge;
	bool runs_only;			/* of a mapping: without an sg_table */
	/*
	 * No lock held; the pin is not LIVE any more, and nothing new is made from
	 * it.  stop: start to let go.  settle: wait for that; taken: the memory is
	 * another's when the pin's end returns, so whatever is late must be cut
	 * off.  NULL, both: there is nothing to wait for.
	 */
	void (*stop)(struct peerdma_made *made);
	void (*settle)(struct peerdma_made *made, bool taken);
	/* pin->lock held; cannot fail, and may find nothing to do.  NULL: stop was enough. */
	void (*down)(struct peerdma_made *made);
	void (*free)(struct peerdma_made *made);
};

struct peerdma_made {
	struct peerdma_pin *pin;	/* a reference */
	struct peerdma_account *account;	/* of the process that made it */
	const struct peerdma_made_ops *ops;
	struct kref ref;		/* one of them for being on the list */
	struct list_head node;		/* pin->lock: pin->made */
	struct device *stale;		/* pin->lock: may still use addresses that were taken down; a reference */
	u32 pass;			/* pin->lock: of those that visit all */
	bool gone;			/* pin->lock: its maker has ended it, the pin's end will free it */
};

struct attached;

/* A pin made usable for one device: for user space, a driver or a dma-buf importer (map.h). */
struct peerdma_map {
	struct peerdma_mapping pub;	/* first: what a driver sees */
	struct peerdma_made made;
	u64 offset;			/* of the range in the pin */
	u64 length;
	struct peerdma_segment *segs;
	u32 nsegs;
	u32 segs_room;
	u32 handle;			/* file.c: in file->maps, or 0 */
	bool live;			/* pin->lock: the device's addresses are valid */
	bool bus;			/* they are bus addresses, of which no IOMMU knows */
	bool lent;			/* pin->lock: export.c: an importer that is to let go has it */
	bool late;			/* pin->lock: export.c: and has not done so in time */
	struct attached *attached;	/* export.c */
	void *priv;			/* the provider's */
	struct peerdma_segment few[2];	/* segs, where these are enough */
};

/*
 * What a pin of an imported dma-buf has beside its provider.  Its exporter revokes it
 * with the dma-buf's reservation lock held, and unmapping takes that lock: so it is
 * taken before pin->lock around whatever makes or unmakes a mapping.
 */
struct peerdma_import_ops {
	int (*lock)(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir);
	void (*unlock)(struct peerdma_pin *pin);
	/* No reference to the pin is left. */
	void (*free)(struct peerdma_pin *pin);
};

struct peerdma_owner_ops {
	/* The memory goes away; before anything is taken down.  No lock held. */
	void (*revoked)(struct peerdma_pin *pin);
	/*
	 * A pin that was revoked, or from which something was made that is still
	 * there, leaves its owner: before its unpin returns, no lock held.  NULL:
	 * nothing to do.
	 */
	void (*ended)(struct peerdma_pin *pin);
};

struct peerdma_owner {
	const struct peerdma_owner_ops *ops;
	/* For owners whose pins user space knows by name; names_lock of object.c. */
	struct hlist_head pins;		/* peerdma_pin.owner_node */
	struct peerdma_slots *slots;	/* NULL: pins have no slots, and are on no list */
};

struct peerdma_pin {
	/* Set before the pin can be found, by object.c and the caller of peerdma_pin_new(). */
	struct kref ref;
	u32 handle;			/* also the mmap offset; until the last put */
	u64 cookie;			/* names this pin for ever */
	u32 generation;			/* while LIVE, of the slot */
	u32 slot_index;
	u32 *slot_generation;		/* where user space reads it, if it does */
	u32 no_slot;			/* where it does not */
	u32 flags;			/* PEERDMA_PIN_*, HOST or DEVICE set */
	u64 token;
	u64 addr;			/* as asked for */
	u64 length;
	u64 start;			/* widened to pages */
	u64 pinned_length;
	u32 va_space;
	u8 page_shift;
	struct peerdma_provider *provider;	/* its module is held until ENDED */
	struct peerdma_account *account;
	pid_t tgid;			/* of the process that pinned, in the first namespace */
	char comm[TASK_COMM_LEN];

	void *priv;			/* the provider's */
	const struct peerdma_import_ops *import;	/* of an imported dma-buf; else NULL */

	struct peerdma_owner *owner;	/* names_lock; NULL once the pin has left it */
	struct hlist_node owner_node;	/* names_lock */
	struct peerdma_slot *slot;	/* names_lock */
	const char *client;		/* a driver's name, or /dev/peerdma */
	const struct peerdma_client_ops *ops;	/* kapi.c */
	void *client_priv;
	struct list_head event_node;	/* file.c: file->lock */

	/* lock guards all that follows; state is also read without it. */
	struct mutex lock;
	enum peerdma_state state;
	bool published;			/* file.c: user space knows the handle */
	bool revoked;			/* the provider has the memory back */
	bool down;			/* nothing made from the pin is left */
	bool zapped;			/* view.c: no CPU view shows it any more */
	bool charged;			/* its part of the aperture counts in the account */
	u32 holds;
	u32 wc_views;			/* view.c: CPU views that are write-combined */
	u32 pass;
	struct list_head made;		/* peerdma_made.node */
	/*
	 * Most pins are mapped once, and what is in the pin need not be allocated.  It is taken with
	 * the lock held, and given back without.
	 */
	bool map_taken;
	struct peerdma_map map;
};

/* Counters for INFO and debugfs. */
struct peerdma_stats {
	atomic64_t pins;
	atomic64_t unpins;
	atomic64_t maps;
	atomic64_t unmaps;
	atomic64_t exports;
	atomic64_t late;
	atomic64_t revocations;
	atomic64_t faults;
	atomic64_t flushes;
};
extern struct peerdma_stats peerdma_stats;

static inline u64 peerdma_pins_live(void)
{
	/* In this order: never more ended than made. */
	u64 ended = atomic64_read(&peerdma_stats.unpins);

	return atomic64_read(&peerdma_stats.pins) - ended;
}

/* ---- pins by name ---- */

/*
 * A new pin of this owner with a name (handle) and a reference, charged to the calling
 * process's user; ERR_PTR: -ENOMEM, -ENFILE, -EDQUOT.  The caller sets flags, addr, length,
 * token, va_space and what the owner needs, all of them, and starts it (pin.c).  If that
 * fails, it leaves its owner again, and is put.
 */
struct peerdma_pin *peerdma_pin_new(struct peerdma_owner *owner);
/*
 * Takes the pin off its owner's list and frees its slot.  held: a notifier may still write to its
 * generation, so no other pin gets that slot.
 */
void peerdma_pin_leave(struct peerdma_pin *pin, bool held);
void peerdma_pin_free(struct kref *ref);
static inline void peerdma_pin_put(struct peerdma_pin *pin)
{
	kref_put(&pin->ref, peerdma_pin_free);
}

/*
 * Pins, each with a reference: the published one of this owner and handle; the one that a
 * provider knows by this cookie; the first one from a handle on; any one of an owner.
 * NULL: there is none.
 */
struct peerdma_pin *peerdma_pin_find(const struct peerdma_owner *owner, u32 handle);
struct peerdma_pin *peerdma_pin_by_cookie(u64 cookie);
struct peerdma_pin *peerdma_pin_from(u32 handle);
struct peerdma_pin *peerdma_pin_of(struct peerdma_owner *owner);
/* The generation says that the pin is valid, and is not. */
static inline void peerdma_generation_begin(struct peerdma_pin *pin)
{
	pin->generation = *pin->slot_generation + 1;
	WRITE_ONCE(*pin->slot_generation, pin->generation);
}

static inline void peerdma_generation_end(struct peerdma_pin *pin)
{
	WRITE_ONCE(*READ_ONCE(pin->slot_generation), pin->generation + 1);
	/* Before anything that the pin's end does to devices and views. */
	smp_mb();
}

/* 0, or why the pin cannot be used now.  pin->lock held. */
int peerdma_pin_usable(const struct peerdma_pin *pin);
/*
 * How many contiguous bytes there are from offset on, at most max (which stays
 * inside the pin); *phys is where they start.  pin->lock held, pin alive.
 */
u64 peerdma_pin_run(const struct peerdma_pin *pin, u64 offset, u64 max, phys_addr_t *phys);
int peerdma_object_init(void);
void peerdma_object_exit(void);

/* Can this pin be revoked? */
static inline bool peerdma_pin_revocable(const struct peerdma_pin *pin)
{
	return !(pin->flags & (PEERDMA_PIN_PERSISTENT | PEERDMA_PIN_HOST));
}

#endif
