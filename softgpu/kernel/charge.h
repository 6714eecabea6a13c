/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * charge.h - memory that is charged to the cgroup of the calling process.
 *
 * Programs decide how many objects there are, so these are charged.  A charge that may sleep
 * is slowed down where the cgroup is above its memory.high, for seconds.  Here it must not
 * be.  The core allocates with its lock held, and clients call get_pages with locks held for
 * which other users wait; a vendor's driver does not wait there either.  So the first try
 * does not sleep: memory.high does not concern it.  Where it fails, at the cgroup's
 * memory.max or where free memory is short, the second one reclaims memory as usual.
 */
#ifndef SOFTGPU_CHARGE_H
#define SOFTGPU_CHARGE_H

#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#define SOFTGPU_CHARGED_AT_ONCE	(GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN)

static inline void *softgpu_kvzalloc(size_t size)
{
	return kvzalloc(size, SOFTGPU_CHARGED_AT_ONCE) ?: kvzalloc(size, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
}

static inline int softgpu_sg_alloc(struct sg_table *table, unsigned int n)
{
	int err = sg_alloc_table(table, n, SOFTGPU_CHARGED_AT_ONCE);

	return err == -ENOMEM ? sg_alloc_table(table, n, GFP_KERNEL_ACCOUNT | __GFP_NOWARN) : err;
}

#endif
