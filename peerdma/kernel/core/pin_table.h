/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * pin_table.h - struct peerdma_pin with its mapping and its owner, and look-up of pins by
 * handle, id or cookie. pin.h has the states of a pin and the lock order.
 */
#ifndef PEERDMA_PIN_TABLE_H
#define PEERDMA_PIN_TABLE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>

#include "account.h"
#include "object.h"
#include "peerdma_ioctl.h"
#include "peerdma_kapi.h"
#include "provider.h"

/*
 * Lockdep classes of pin->lock, beside the default one.
 *
 * NVIDIA's driver calls peerdma_revoke() with its own lock held, and peerdma_revoke() takes
 * pin->lock.  In the opposite order, the provider's `get' and `dma_map' take the driver's
 * lock with pin->lock held.  The two orders never meet on the same pin, so they cannot
 * deadlock:
 *
 * - NEW: the driver cannot revoke the pin yet.  Arming the callback is the last thing that
 *   `get' does with the driver's lock held.
 * - LASTING: the driver never revokes a persistent pin. dma_map takes the driver's lock for
 *   persistent pins of a coherent GPU only; these have no importers, so no reservation lock
 *   is held around it.
 *
 * EXPORTED: the pin whose dma-buf another pin has imported.  It is locked while that other
 * pin's lock is held, to unmap the dma-buf.
 *
 * KEPT: a persistent pin that keeps the memory of a page view (pages.c).  It is locked while the
 * lock of the pin that the view is made from is held, to compare the two.
 */
enum {
	PIN_LOCK_NEW = 1,
	PIN_LOCK_LASTING,
	PIN_LOCK_EXPORTED,
	PIN_LOCK_KEPT,
};

enum peerdma_state {
	PIN_NEW,
	PIN_LIVE,
	PIN_REVOKING,
	PIN_REVOKED,
	PIN_ENDING,
	PIN_ENDED,
};

struct peerdma_pin;
struct peerdma_room;
struct peerdma_slot;
struct peerdma_generations;

struct attached;
struct iommu_domain;

/* A pin made usable for one device: for user space, a driver or a dma-buf importer (map.h). */
struct peerdma_map {
	struct peerdma_mapping pub;	/* first: what a driver sees */
	struct peerdma_object object;
	u64 offset;			/* of the range in the pin */
	u64 length;
	struct peerdma_segment *segs;
	u32 nsegs;
	u32 segs_room;
	u32 wants_segs;			/* of an attempt that failed: see room.h */
	u32 wants_ents;
	u32 handle;			/* file.c: in file->maps, or 0 */
	bool live;			/* pin->lock: the device's addresses are valid */
	bool program;			/* pin->lock: a program made it, by PEERDMA_MAP */
	bool bus;			/* segs are bus addresses, which no IOMMU translates */
	bool resource;			/* segs are those of peerdma_map_resource() */
	u32 reserved;			/* reserve.c: number of segs kept, not translated */
	struct iommu_domain *domain;	/* ... and the domain that they are of */
	bool outstanding;		/* export.c: an importer must unmap it at the pin's end */
	bool late;			/* export.c: the importer did not unmap it in time */
	struct attached *attached;	/* export.c */
	void *priv;			/* the provider's */
	struct peerdma_segment few[2];	/* segs points here if two are enough */
};

/*
 * What a pin of an imported dma-buf needs in addition to its provider.  The exporter
 * revokes such a pin with the dma-buf's reservation lock held, and unmapping takes that
 * lock.  So the reservation lock is taken before pin->lock around every call that makes or
 * unmakes a mapping.
 */
struct peerdma_import_ops {
	/* Makes room->import, for one mapping.  No lock of ours held. */
	int (*attach)(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir,
		      struct peerdma_room *room);
	/* Does attaching map the memory for the device already, and detaching unmap it? */
	bool (*attach_maps)(struct peerdma_pin *pin);
	/* room: of a mapping that is to be made, with its attachment; or NULL. */
	int (*lock)(struct peerdma_pin *pin, struct peerdma_room *room);
	void (*unlock)(struct peerdma_pin *pin);
	/* No reference to the pin is left. */
	void (*free)(struct peerdma_pin *pin);
};

struct peerdma_owner_ops {
	/* The memory is being taken back.  Called before anything is taken down, no lock held. */
	void (*revoked)(struct peerdma_pin *pin);
	/*
	 * A pin leaves its owner.  Called before its unpin returns, no lock held, and only
	 * if the pin was revoked or still has objects made from it.  NULL: nothing to do.
	 */
	void (*ended)(struct peerdma_pin *pin);
};

struct peerdma_owner {
	const struct peerdma_owner_ops *ops;
	/* For owners whose pins user space knows by handle; names_lock of pin_table.c. */
	struct hlist_head pins;		/* peerdma_pin.owner_node */
	/* NULL: its pins have no slots, and are on no list */
	struct peerdma_generations *generations;
	struct inode *views;		/* of its pins: view.c; NULL: they have none */
};

struct peerdma_pin {
	/* Set before the pin can be found, by pin_table.c and the caller of peerdma_pin_new(). */
	struct kref ref;
	u32 id;				/* unique in the system until the last put */
	u32 handle;			/* of its slot, also the mmap offset; 0: no slot */
	u64 cookie;			/* names this pin for ever */
	u32 generation;			/* while LIVE, of the slot */
	u32 *slot_generation;		/* user space reads it if the owner has slots */
	u32 no_slot;			/* slot_generation points here if it has none */
	u32 flags;			/* PEERDMA_PIN_*, HOST or DEVICE set */
	bool going;			/* peerdma_pin_going() */
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

	union {
		void *priv;		/* the provider's */
		struct peerdma_pin *next_spare;	/* pin_table.c: of a pin without references */
	};
	const struct peerdma_import_ops *import;	/* of an imported dma-buf; else NULL */

	struct peerdma_owner *owner;	/* names_lock; NULL once the pin has left it */
	struct hlist_node owner_node;	/* names_lock */
	struct peerdma_slot *slot;	/* names_lock */
	const char *client;		/* a driver's name, or /dev/peerdma */
	const struct peerdma_client_ops *ops;	/* kapi.c */
	void *client_priv;
	struct list_head event_node;	/* file.c: file->lock */

	/* lock guards all fields from here on. state is also read without it. */
	struct mutex lock;
	enum peerdma_state state;
	bool revoked;			/* peerdma_revoke() was called for it */
	bool down;			/* all that was made from the pin is taken down */
	bool zapped;			/* view.c: no CPU view shows it any more */
	bool charged;			/* pinned_length is charged to account->aperture */
	u32 holds;
	u32 wc_views;			/* view.c: CPU views that are write-combined */
	struct inode *views;		/* view.c: of all views; a reference; NULL: none yet */
	u32 pass;
	struct list_head objects;	/* peerdma_object.node */
	/*
	 * The first mapping of a pin, so that a pin that is mapped once needs no
	 * allocation.  It is taken with the lock held and given back without.
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
	/* unpins is read first, so the result cannot be negative. */
	u64 ended = atomic64_read(&peerdma_stats.unpins);

	return atomic64_read(&peerdma_stats.pins) - ended;
}

/* ---- pins by name ---- */

/*
 * Returns a new pin of this owner with an id and one reference, charged to the calling
 * process's user.  ERR_PTR: -ENOMEM, -ENFILE, -EDQUOT.  The caller sets flags, addr,
 * length, tokens if it has any, and what the owner needs, and starts the pin (pin.c).  If
 * starting fails, the caller removes the pin from its owner and puts it.
 */
struct peerdma_pin *peerdma_pin_new(struct peerdma_owner *owner);
/*
 * Takes the pin off its owner's list and frees its slot. held: a notifier may still write
 * to the slot's generation, so no other pin may get that slot.
 */
void peerdma_pin_leave(struct peerdma_pin *pin, bool held);
void peerdma_pin_free(struct kref *ref);
static inline void peerdma_pin_put(struct peerdma_pin *pin)
{
	kref_put(&pin->ref, peerdma_pin_free);
}

/*
 * Look-up; each returns a pin with a reference, or NULL if there is none. find: the
 * published pin of this owner, which has slots, and handle; no other owner's pin is looked
 * at. by_cookie: the pin that a provider knows by this cookie. from: the first pin whose id
 * is not less than this one. of: any pin of this owner.
 */
struct peerdma_pin *peerdma_pin_find(const struct peerdma_owner *owner, u32 handle);
struct peerdma_pin *peerdma_pin_by_cookie(u64 cookie);
struct peerdma_pin *peerdma_pin_from(u32 id);
struct peerdma_pin *peerdma_pin_of(struct peerdma_owner *owner);
/*
 * begin: an odd generation tells user space that the pin is valid. end: an even one, that
 * it is not.
 */
static inline void peerdma_generation_begin(struct peerdma_pin *pin)
{
	pin->generation = *pin->slot_generation + 1;
	WRITE_ONCE(*pin->slot_generation, pin->generation);
}

static inline void peerdma_generation_end(struct peerdma_pin *pin)
{
	WRITE_ONCE(*READ_ONCE(pin->slot_generation), pin->generation + 1);
	/* User space sees this before any effect of the pin's end on devices and views. */
	smp_mb();
}

/*
 * The pin's memory is going, and peerdma_revoke() will be called later.  User space sees
 * that from now on, and no new object is made from the pin.  May run where sleeping is not
 * allowed, and takes no lock.  The caller knows that the pin has not left its owner.
 */
static inline void peerdma_pin_going(struct peerdma_pin *pin)
{
	WRITE_ONCE(pin->going, true);
	/* The slot's file may be closing: generations.h. */
	rcu_read_lock();
	peerdma_generation_end(pin);
	rcu_read_unlock();
}

/* 0; -ESTALE: the pin was revoked; -ENOENT: it is not started or is ending. pin->lock held. */
int peerdma_pin_usable(const struct peerdma_pin *pin);
/*
 * Returns the number of physically contiguous bytes from offset on, at most max, and their
 * address in *phys. [offset, offset + max) must lie in the pin. pin->lock held, pin alive.
 */
u64 peerdma_pin_run(const struct peerdma_pin *pin, u64 offset, u64 max, phys_addr_t *phys);
int peerdma_pin_table_init(void);
void peerdma_pin_table_exit(void);

/* Can this pin be revoked? */
static inline bool peerdma_pin_revocable(const struct peerdma_pin *pin)
{
	return !(pin->flags & (PEERDMA_PIN_PERSISTENT | PEERDMA_PIN_HOST));
}

#endif
