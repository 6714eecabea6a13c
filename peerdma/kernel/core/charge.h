/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * charge.h - allocates memory that is charged to the calling process's cgroup.
 *
 * A charge may wait for as long as the user likes: a process whose cgroup is above its
 * memory.high sleeps for seconds, and reclaim waits for file systems of the user.  So
 * memory is allocated before a lock of ours is taken (pin.h has the rule).  On
 * kernels with lockdep, each of these calls reports a lock of ours that is held around it,
 * also through another lock: to lockdep, the wait is a lock that comes before all of ours.
 *
 * No other file of this module uses GFP_KERNEL_ACCOUNT; tests/style checks that.
 */
#ifndef PEERDMA_CHARGE_H
#define PEERDMA_CHARGE_H

#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#ifdef CONFIG_LOCKDEP
void peerdma_charge_waits(void);
/*
 * Once for each lock: lockdep learns that the wait comes before it.  The lock is not held.
 * subclass: as for mutex_lock_nested(), or 0.
 */
void peerdma_charge_before(struct lockdep_map *lock, unsigned int subclass);
#define PEERDMA_CHARGE_BEFORE(lock, subclass)	peerdma_charge_before(&(lock)->dep_map, subclass)
#else
static inline void peerdma_charge_waits(void)
{
	might_sleep();
}
#define PEERDMA_CHARGE_BEFORE(lock, subclass)	do { } while (0)
#endif

/*
 * now: for a caller that holds a lock and can do nothing else.  Such an allocation waits for
 * nothing: it fails where the cgroup is at its limit, or free memory is short.
 */
static inline gfp_t peerdma_charge_gfp(bool now)
{
	if (now)
		return GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN;
	peerdma_charge_waits();
	return GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
}

/* Each returns zeroed memory (kfree(), kvfree()), or NULL. */
static inline void *peerdma_zalloc_gfp(size_t size, bool now)
{
	return kzalloc(size, peerdma_charge_gfp(now));
}

static inline void *peerdma_zalloc(size_t size)
{
	return peerdma_zalloc_gfp(size, false);
}

static inline void *peerdma_kvarray(size_t n, size_t size, bool now)
{
	return kvcalloc(n, size, peerdma_charge_gfp(now));
}

static inline struct page *peerdma_alloc_page(void)
{
	peerdma_charge_waits();
	return alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
}

static inline int peerdma_sg_alloc(struct sg_table *table, unsigned int n, bool now)
{
	return sg_alloc_table(table, n, peerdma_charge_gfp(now));
}

static inline void *peerdma_xa_cmpxchg(struct xarray *xa, unsigned long i, void *old, void *entry)
{
	peerdma_charge_waits();
	return xa_cmpxchg(xa, i, old, entry, GFP_KERNEL_ACCOUNT);
}

/*
 * Reserve an index for an entry that is stored later, without an allocation.  0, -ENOMEM or
 * -EBUSY: all are in use.
 */
static inline int peerdma_xa_reserve(struct xarray *xa, u32 *i, struct xa_limit limit)
{
	peerdma_charge_waits();
	return xa_alloc(xa, i, NULL, limit, GFP_KERNEL_ACCOUNT);
}

static inline int peerdma_xa_reserve_cyclic(struct xarray *xa, u32 *i, u32 *next)
{
	int err;

	peerdma_charge_waits();
	err = xa_alloc_cyclic(xa, i, NULL, xa_limit_32b, next, GFP_KERNEL_ACCOUNT);
	return err < 0 ? err : 0;
}

#endif
