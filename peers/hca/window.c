// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * window.c - memory windows: which accesses a window's key allows, and when windows end.
 *
 * rxe checks the bounds of a window's region, not those of the window. It reads the region
 * without the window's lock. And a window of type 2 holds the queue pair that it is bound
 * to, which waits for it when it is destroyed, and finally gives up. Here windows hold no
 * queue pair: a queue pair that is destroyed first ends its windows (edit-rxe removes the
 * references).
 *
 * A flush of a whole region (IB_FLUSH_MR, since 6.4), which may name no bytes, is refused
 * for a window's key unless the range that it names lies in the window.
 *
 * mw->lock guards what a window is bound to; innermost.
 */
#include "rxe.h"
#include "rxe_loc.h"

#include "compat.h"
#include "hca.h"

/* Value of mr->num_mw that prevents windows from being bound to the region. */
#define CLOSED -1

bool hca_windows_close(struct rxe_mr *mr)
{
	return !atomic_cmpxchg(&mr->num_mw, 0, CLOSED);
}

void hca_windows_reopen(struct rxe_mr *mr)
{
	atomic_set_release(&mr->num_mw, 0);
}

int hca_window_count(struct rxe_qp *qp, struct rxe_send_wqe *wqe, struct rxe_mw *mw, struct rxe_mr *mr, int access)
{
	/* Checked first, so that an attempt without the right to bind does not hold the region. */
	int err = rxe_check_bind_mw(qp, wqe, mw, mr, access);

	if (err || !mr)
		return err;
	if (!atomic_inc_unless_negative(&mr->num_mw))
		return -EINVAL;
	/* Checked again: the region may have been registered anew before it was counted. */
	err = rxe_check_bind_mw(qp, wqe, mw, mr, access);
	if (err)
		atomic_dec(&mr->num_mw);
	return err;
}

/* start: the window's start, in the same address space as va. */
static bool in_window(const struct rxe_mw *mw, u64 start, u64 va, u64 length)
{
	return va >= start && length <= mw->length && va - start <= mw->length - length;
}

/* Returns the window's region with a reference, if the key matches, and the queue pair may access it like this. */
static struct rxe_mr *region_of(const struct rxe_qp *qp, struct rxe_mw *mw, int access, u32 rkey)
{
	struct rxe_mr *mr = mw->mr;

	lockdep_assert_held(&mw->lock);
	if (mw->rkey != rkey || mw->state != RXE_MW_STATE_VALID || !mr || mr->state != RXE_MR_STATE_VALID)
		return NULL;
	if (rxe_mw_pd(mw) != qp->pd || (mw->ibmw.type == IB_MW_TYPE_2 && mw->qp != qp) || access & ~mw->access)
		return NULL;
	rxe_get(mr);
	return mr;
}

struct rxe_mr *hca_window_region(const struct rxe_qp *qp, struct rxe_mw *mw, u32 rkey, u64 addr, u64 length)
{
	struct rxe_mr *mr = NULL;

	spin_lock_bh(&mw->lock);
	if (in_window(mw, mw->addr, addr, length))
		mr = region_of(qp, mw, IB_ACCESS_REMOTE_READ, rkey);
	spin_unlock_bh(&mw->lock);
	return mr;
}

struct rxe_mr *hca_window_open(const struct rxe_qp *qp, struct rxe_mw *mw, int access, u32 rkey, u64 va, u64 length, u64 *offset)
{
	struct rxe_mr *mr = NULL;

	spin_lock_bh(&mw->lock);
	if (in_window(mw, mw->access & IB_ZERO_BASED ? 0 : mw->addr, va, length))
		mr = region_of(qp, mw, access, rkey);
	if (mr && mw->access & IB_ZERO_BASED)
		*offset = mw->addr;
	spin_unlock_bh(&mw->lock);
	return mr;
}

int hca_window_may_end(const struct rxe_qp *qp, const struct rxe_mw *mw)
{
	lockdep_assert_held(&mw->lock);
	return mw->ibmw.type == IB_MW_TYPE_2 && mw->state == RXE_MW_STATE_VALID && mw->qp == qp ? 0 : -EINVAL;
}

void hca_windows_end(struct rxe_qp *qp)
{
	struct rxe_pool *pool = &to_rdev(qp->ibqp.device)->mw_pool;
	unsigned long index;
	void *entry;

	xa_for_each(&pool->xa, index, entry) {
		/* Another program's window may be freed meanwhile. */
		struct rxe_mw *mw = rxe_pool_get_index(pool, index);

		if (!mw)
			continue;
		spin_lock_bh(&mw->lock);
		if (mw->qp == qp)
			rxe_do_invalidate_mw(mw);
		spin_unlock_bh(&mw->lock);
		rxe_put(mw);
	}
}
