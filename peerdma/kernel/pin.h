/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * pin.h - the pin, the one object of peerdma, and its life.
 *
 *	NEW --get--> LIVE --memory goes away--> REVOKING --torn down--> REVOKED
 *	              |                            |                       |
 *	            unpin                        (wait)                  unpin
 *	              v                            |                       v
 *	            ENDING <-----------------------+---------------------ENDING
 *	              | torn down, last hold gone
 *	              v
 *	            ENDED  (at once when nothing was made from the pin)
 *
 * Two threads may want to end a pin at once: the one that frees the memory
 * (peerdma_revoke) and the one that unpins (peerdma_pin_end).  Whoever changes
 * LIVE first tears down; the other waits until nothing made from the pin is left.
 * The revoker must wait because the memory is reused when it returns; the
 * unpinner because it frees what the revoker works on.
 *
 * Reference count: the memory of this struct (kref).  `holds' count who needs
 * the pinned memory itself: the owner, and static dma-buf importers.  The
 * provider gets the memory back when the last hold goes.  Importers that can let
 * go, and do not in time, come to hold it too (importers.c).
 *
 * Lock order, outermost first:
 *
 *	a lock that a provider holds around peerdma_revoke()
 *	a client's own locks
 *	a turn at the provider (turns.h): all of a get, all of a put
 *	mmap_lock, dma_resv of an export or of what is imported
 *	peerdma_pin.lock (of an import; inside it, that of the pin that is exported)
 *	locks that a provider's get and dma_map take (see provider.h), those of
 *	    the page tables
 *	slots_lock (slots.c), peerdma_file.lock, peerdma_file.maps.xa_lock
 *
 * Nothing is copied from or to user space under pin.lock.  No lock of ours is
 * held while a client's revoke, a provider's put or move_notify of a foreign
 * pin runs (move_notify: its own dma_resv, as dma-buf demands; and so a client's
 * revoke, when it is an import that its exporter takes away).
 */
#ifndef PEERDMA_PIN_H
#define PEERDMA_PIN_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "peerdma_ioctl.h"
#include "peerdma_kapi.h"
#include "provider.h"

enum peerdma_state {
	PIN_NEW,
	PIN_LIVE,
	PIN_REVOKING,
	PIN_REVOKED,
	PIN_ENDING,
	PIN_ENDED,
};

struct dma_buf;
struct peerdma_file;
struct peerdma_source;

struct peerdma_pin {
	/* Set before the pin can be found, by slots.c and the caller of peerdma_pin_new(). */
	struct kref ref;
	u32 handle;			/* also the slot, and the mmap offset; until the last put */
	u32 generation;			/* of the slot, while LIVE */
	u32 *slot_generation;		/* where user space reads it; for slots.c */
	u64 cookie;			/* names this pin for ever */
	u32 flags;			/* PEERDMA_PIN_*, HOST or DEVICE set */
	u32 va_space;
	u64 token;
	u64 addr;			/* as asked for */
	u64 length;
	u64 start;			/* widened to pages */
	u64 pinned_length;
	u8 page_shift;
	struct peerdma_provider *provider;	/* its module is held until ENDED */
	struct peerdma_file *file;
	const struct peerdma_client_ops *ops;
	void *client_priv;
	pid_t tgid;			/* of the process that pinned, in the first namespace */
	char comm[TASK_COMM_LEN];

	void *priv;			/* the provider's */
	struct peerdma_source *source;	/* of a dma-buf's pin: dmabuf.c; else NULL */

	/* lock guards all that follows; state is also read without it. */
	struct mutex lock;
	enum peerdma_state state;
	bool revoked;			/* the provider has the memory back */
	bool down;			/* nothing made from the pin is left */
	bool wc;			/* memory type reserved for CPU views */
	bool viewed;			/* there were CPU views */
	u32 holds;
	u32 views;
	u32 exports;
	u32 lent;			/* maps of importers that are to let go; also read without the lock */
	struct list_head maps;		/* peerdma_map.node */
	struct list_head export_list;	/* peerdma_export.node */

	bool published;			/* user space knows the handle */
	struct hlist_node file_node;	/* slots_lock; file is NULL once it is off the list */
	struct list_head event_node;	/* file->lock */
};

/* A pin made usable for one device: for user space, a driver or a dma-buf importer. */
struct peerdma_map {
	struct peerdma_mapping pub;	/* first: what a driver sees */
	struct list_head node;		/* pin->lock */
	u64 offset;			/* of the range in the pin */
	u64 length;
	struct peerdma_segment *segs;
	u32 nsegs;
	u32 segs_room;
	u32 handle;			/* in file->maps, or 0 */
	bool live;			/* pin->lock: the device's addresses are valid */
	bool hold;			/* pin->lock: of an importer that holds the memory */
	bool lent;			/* pin->lock: counts in pin->lent */
	bool late;			/* pin->lock: of an importer that has not let go in time */
	bool *importer_holds;		/* pin->lock: its attachment counts in pin->holds; NULL: no importer's */
	void *priv;			/* the provider's */
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
};
extern struct peerdma_stats peerdma_stats;

static inline u64 peerdma_pins_live(void)
{
	/* In this order: never more ended than made. */
	u64 ended = atomic64_read(&peerdma_stats.unpins);

	return atomic64_read(&peerdma_stats.pins) - ended;
}

/*
 * A pin is made in two steps: a new one of this file (NULL: a driver's), in which
 * the caller sets what he wants (flags, addr, length, token, va_space, ops,
 * client_priv: all of them); and its start.  If that fails, it is abandoned.
 */
struct peerdma_pin *peerdma_pin_new(struct peerdma_file *file);
int peerdma_pin_start(struct peerdma_pin *pin);
void peerdma_pin_abandon(struct peerdma_pin *pin);
/*
 * Ends a pin; takes over the owner's reference.  False: another thread has.
 * With `busy', a pin that someone else holds is left alone and *busy set.
 */
bool peerdma_pin_end(struct peerdma_pin *pin, bool *busy);
void peerdma_pin_put(struct peerdma_pin *pin);
/* Gives up one hold of the memory. */
void peerdma_pin_drop_hold(struct peerdma_pin *pin);
/* 0, or why the pin cannot be used now.  pin->lock held. */
int peerdma_pin_usable(const struct peerdma_pin *pin);
/* Can this pin be revoked? */
static inline bool peerdma_pin_revocable(const struct peerdma_pin *pin)
{
	return !(pin->flags & (PEERDMA_PIN_PERSISTENT | PEERDMA_PIN_HOST));
}

/*
 * How many contiguous bytes there are from offset on, at most max (which stays
 * inside the pin); *phys is where they start.  pin->lock held, pin alive.
 */
u64 peerdma_pin_run(const struct peerdma_pin *pin, u64 offset, u64 max, phys_addr_t *phys);

/* provider.c: the one after `prev' that may know a range with these flags, its module held; prev's is let go. */
struct peerdma_provider *peerdma_provider_next(struct peerdma_provider *prev, u32 flags);
/* Another than the pin's own one that says that the memory is its own, its module held; NULL: none. */
struct peerdma_provider *peerdma_provider_claiming(const struct peerdma_pin *pin);
/* How many there are that can say so. */
extern u32 peerdma_claimers;
u32 peerdma_provider_count(void);
void peerdma_provider_init(void);

/* dmabuf.c: before peerdma_pin_start(), so that it pins this; the pin gets a reference of its own. */
int peerdma_source_set(struct peerdma_pin *pin, struct dma_buf *dmabuf);
/* Nothing is mapped any more; no lock held.  And: nobody has a reference to the pin. */
void peerdma_source_end(struct peerdma_pin *pin);
void peerdma_source_free(struct peerdma_pin *pin);
int peerdma_maps_lock_source(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir);
void peerdma_maps_unlock_source(struct peerdma_pin *pin);
/* A dma-buf as PEERDMA_PIN_DMABUF has it, for `pin', which is new. */
int peerdma_pin_start_dmabuf(struct peerdma_pin *pin, struct dma_buf *dmabuf);

/*
 * pin->lock, and before it what an import needs, around whatever makes or unmakes a
 * mapping.  dev: for whom one is to be made, NULL if none.  A negative errno: it
 * cannot be mapped, nothing is locked; never when dev is NULL.
 */
static inline int peerdma_maps_lock(struct peerdma_pin *pin, struct device *dev,
				    enum dma_data_direction dir)
{
	if (likely(!READ_ONCE(pin->source))) {
		mutex_lock(&pin->lock);
		/* It is set under the lock, so until the unlock it stays as it is. */
		if (likely(!pin->source))
			return 0;
		mutex_unlock(&pin->lock);
	}
	return peerdma_maps_lock_source(pin, dev, dir);
}

static inline void peerdma_maps_unlock(struct peerdma_pin *pin)
{
	if (unlikely(pin->source))
		peerdma_maps_unlock_source(pin);
	else
		mutex_unlock(&pin->lock);
}

/* map.c, for [offset, offset + length) of the pin, peerdma_maps_lock() held. */
struct peerdma_map *peerdma_map_create(struct peerdma_pin *pin, struct device *dev,
				       enum dma_data_direction dir, u64 offset, u64 length);
/* Takes the device's addresses away; the object stays. */
void peerdma_map_down(struct peerdma_map *map);
/* Unlinks and frees.  Does not give up a hold. */
void peerdma_map_destroy(struct peerdma_map *map);
/* Translates an IOMMU for this device, that is: can it reach any address, and be kept from it? */
bool peerdma_translated(struct device *dev);

/* view.c */
int peerdma_view_init(void);
void peerdma_view_exit(void);
struct address_space *peerdma_view_mapping(void);
/* A CPU view from byte `offset' of the pin on. */
int peerdma_view_mmap(struct peerdma_pin *pin, struct vm_area_struct *vma, u64 offset);
unsigned long peerdma_view_area(struct file *file, unsigned long addr, unsigned long len,
				unsigned long pgoff, unsigned long flags);
/* Takes all views of a pin away.  It is not LIVE any more; no lock held. */
void peerdma_view_zap(struct peerdma_pin *pin);
/* Before the pages go back: no views are left. */
void peerdma_view_release(struct peerdma_pin *pin);

/* export.c */
int peerdma_export(struct peerdma_pin *pin, struct peerdma_export_args *args, struct file **file);
/*
 * Tells importers to let go, and waits for them.  The pin is not LIVE any more; no
 * lock held.  taken: the memory is somebody else's when this returns.
 */
void peerdma_export_revoke(struct peerdma_pin *pin, bool taken);

/* importers.c: until they have let go; or are late, and named, and the memory is safe from them or (not taken) theirs. */
void peerdma_importers_wait(struct peerdma_pin *pin, bool taken);
/* One has let go: map->lent was set.  pin->lock held. */
void peerdma_importer_returns(struct peerdma_map *map);

/* slots.c: a pin with a name (handle), on its file's list; and the name free again. */
struct peerdma_pin *peerdma_slot_take(struct peerdma_file *file);
void peerdma_slot_leave(struct peerdma_pin *pin);
/* Off its file's list, and not to be found by handle.  Before the file goes. */
void peerdma_slot_unlist(struct peerdma_pin *pin);
/* The slot says that a pin is valid (its generation and cookie are new), and is not. */
void peerdma_generation_begin(struct peerdma_pin *pin);
void peerdma_generation_end(struct peerdma_pin *pin);
int peerdma_generation_mmap(struct vm_area_struct *vma);
int peerdma_slots_init(void);
void peerdma_slots_exit(void);

/*
 * Pins, each with a reference: the one that user space knows by this handle in
 * this open file; the one that a provider knows by this cookie; the first one
 * from a handle on; any one of a file.
 */
struct peerdma_pin *peerdma_pin_find(const struct peerdma_file *file, u32 handle);
struct peerdma_pin *peerdma_pin_by_cookie(u64 cookie);
struct peerdma_pin *peerdma_pin_from(u32 handle);
struct peerdma_pin *peerdma_pin_of_file(struct peerdma_file *file);

/* file.c: the pin leaves its file; no events from then on. */
void peerdma_file_forget(struct peerdma_pin *pin);
/* A pin of this file was revoked. */
void peerdma_file_event(struct peerdma_pin *pin);
void peerdma_file_forget_map(struct peerdma_map *map);
int peerdma_uapi_init(void);
void peerdma_uapi_exit(void);

extern struct peerdma_provider peerdma_host_provider, peerdma_dmabuf_provider;

void peerdma_debugfs_init(void);
void peerdma_debugfs_exit(void);

#endif
