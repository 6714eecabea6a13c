/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * charge.h - memory that is charged to the cgroup of the calling process.
 *
 * Programs decide how many objects there are, so these are charged.  A charge that may sleep
 * is slowed down where the cgroup is above its memory.high, for seconds, and at its
 * memory.max it reclaims memory, perhaps from a file system of the user, or kills a process.
 * All users share the core's lock, so nothing waits for a cgroup while it is held:
 *
 * - softgpu_charged_now(), for the core, does not wait for the cgroup.  If free memory is
 *   short, memory that is not charged is allocated and freed again, which reclaims as usual.
 *   At the cgroup's limit the allocation fails, and with it the call.  (More than 32 KiB, for
 *   which there was no contiguous memory, reclaims as the functions below do: large tables.)
 * - The system call then makes room with no lock held, and is repeated: struct softgpu_room.
 *
 * Clients call get_pages and import dma-bufs with locks of their own held, and there no call
 * can be repeated.  So softgpu_kvzalloc() and softgpu_sg_alloc() reclaim at the cgroup's
 * limit, but only once, and kill no process.  They are not called with the core's lock held.
 */
#ifndef SOFTGPU_CHARGE_H
#define SOFTGPU_CHARGE_H

#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/types.h>

#define SOFTGPU_CHARGED_AT_ONCE	(GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN)
#define SOFTGPU_CHARGED		(GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN)

static inline void *softgpu_kvzalloc(size_t size)
{
	return kvzalloc(size, SOFTGPU_CHARGED_AT_ONCE) ?: kvzalloc(size, SOFTGPU_CHARGED);
}

static inline int softgpu_sg_alloc(struct sg_table *table, unsigned int n)
{
	int err = sg_alloc_table(table, n, SOFTGPU_CHARGED_AT_ONCE);

	return err == -ENOMEM ? sg_alloc_table(table, n, SOFTGPU_CHARGED) : err;
}

void *softgpu_charged_now(size_t size);

/*
 * For a call that changes nothing if it fails with -ENOMEM.  All in one thread:
 *
 *	softgpu_room_begin(&room);
 *	do {
 *		err = ...;
 *	} while (err == -ENOMEM && softgpu_room_make(&room));
 *	softgpu_room_end(&room);
 */
struct softgpu_room {
	struct hlist_node node;
	struct task_struct *caller;
	bool refused;			/* the caller was, at its cgroup's limit */
	int tries;
};
void softgpu_room_begin(struct softgpu_room *room);
/* True: the call failed at the cgroup's limit, and there is room now.  No lock held. */
bool softgpu_room_make(struct softgpu_room *room);
void softgpu_room_end(struct softgpu_room *room);

#endif
