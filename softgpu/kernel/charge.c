// SPDX-License-Identifier: MIT OR GPL-2.0
/* charge.c - charged memory without waiting for the cgroup; charge.h says why. */
#include <linux/atomic.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include "charge.h"

#define TRIES_MAX	4
/* Room for one call: more than the core allocates in any but the largest. */
#define ROOM_FIRST	SZ_64K

/* Allocations that failed at the limit of a cgroup. */
static atomic_t refused;

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
	p = size > CONTIGUOUS_MAX ? kvzalloc(size, SOFTGPU_CHARGED) : kvzalloc(size, SOFTGPU_CHARGED_AT_ONCE);
	if (!p)
		atomic_inc(&refused);
	return p;
}

void softgpu_room_begin(struct softgpu_room *room)
{
	room->refused = atomic_read(&refused);
}

/*
 * Memory that is charged and freed again leaves the cgroup so far below its limit.  Another
 * process of the cgroup may take it, so there are several tries.
 */
bool softgpu_room_make(struct softgpu_room *room)
{
	void *p;

	if (atomic_read(&refused) == room->refused || room->tries == TRIES_MAX)
		return false;
	p = kvmalloc(ROOM_FIRST << 2 * room->tries++, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	kvfree(p);
	return p;
}
