/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * charge.h - memory that is charged to the cgroup of the calling process, without a wait.
 *
 * Programs decide how many objects there are, so these are charged.  A charge usually
 * waits: where the cgroup is above its memory.high, for seconds.  Here it must not.  The
 * core allocates with its lock held, and clients call get_pages with locks held for which
 * other users wait; a vendor's driver does not wait there either.  So the charge is made by
 * force, as in reclaim: it may exceed the limit, and the process's next charge pays for
 * that.  The kernel's reserves are not touched: the allocation fails if free memory is
 * short.
 */
#ifndef SOFTGPU_CHARGE_H
#define SOFTGPU_CHARGE_H

#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#define SOFTGPU_CHARGED (GFP_KERNEL_ACCOUNT | __GFP_NOMEMALLOC | __GFP_NOWARN)

static inline void *softgpu_kvzalloc(size_t size)
{
	unsigned int before = memalloc_noreclaim_save();
	void *p = kvzalloc(size, SOFTGPU_CHARGED);

	memalloc_noreclaim_restore(before);
	return p;
}

static inline int softgpu_sg_alloc(struct sg_table *table, unsigned int n)
{
	unsigned int before = memalloc_noreclaim_save();
	int err = sg_alloc_table(table, n, SOFTGPU_CHARGED);

	memalloc_noreclaim_restore(before);
	return err;
}

#endif
