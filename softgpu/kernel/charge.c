// SPDX-License-Identifier: MIT OR GPL-2.0
/* charge.c - charged memory without waiting for the cgroup; charge.h says why. */
#include <linux/hashtable.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include "charge.h"

#define TRIES_MAX	4
/* Room for one call: more than the core allocates in any but the largest. */
#define ROOM_FIRST	SZ_64K

/* Of calls that are under way, by caller. */
static DEFINE_HASHTABLE(rooms, 6);
static DEFINE_SPINLOCK(rooms_lock);	/* innermost */

/* Notes in the caller's room that an allocation failed at the limit of its cgroup. */
static void refuse(void)
{
	struct softgpu_room *room;

	spin_lock(&rooms_lock);
	hash_for_each_possible(rooms, room, node, (unsigned long)current)
		if (room->caller == current)
			room->refused = true;
	spin_unlock(&rooms_lock);
}

/*
 * Larger memory need not be contiguous, and the kernel gives that out only where it may wait:
 * for free memory, and at the cgroup's limit for one attempt to reclaim.
 */
#define CONTIGUOUS_MAX	(PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER)

void *softgpu_charged_now(size_t size)
{
	void *p, *uncharged;

	/* Engines and the watcher belong to no cgroup, and no call of theirs is repeated. */
	if (current->flags & PF_KTHREAD)
		return kvzalloc(size, GFP_KERNEL | __GFP_NOWARN);
	p = kvzalloc(size, SOFTGPU_CHARGED_AT_ONCE);
	if (likely(p))
		return p;
	uncharged = kvzalloc(size, GFP_KERNEL | __GFP_NOWARN);
	if (!uncharged)
		return NULL;
	kvfree(uncharged);
	p = kvzalloc(size, size > CONTIGUOUS_MAX ? SOFTGPU_CHARGED : SOFTGPU_CHARGED_AT_ONCE);
	if (!p)
		refuse();
	return p;
}

void softgpu_room_begin(struct softgpu_room *room)
{
	room->caller = current;
	room->refused = false;
	room->tries = 0;
	spin_lock(&rooms_lock);
	hash_add(rooms, &room->node, (unsigned long)current);
	spin_unlock(&rooms_lock);
}

/*
 * Memory that is charged and freed again leaves the cgroup so far below its limit.  Another
 * process of the cgroup may take it, so there are several tries.
 */
bool softgpu_room_make(struct softgpu_room *room)
{
	void *p;

	if (!room->refused || room->tries == TRIES_MAX)
		return false;
	room->refused = false;
	p = kvmalloc(ROOM_FIRST << 2 * room->tries++, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	kvfree(p);
	return p;
}

void softgpu_room_end(struct softgpu_room *room)
{
	spin_lock(&rooms_lock);
	hash_del(&room->node);
	spin_unlock(&rooms_lock);
}
