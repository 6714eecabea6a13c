// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * queue.c - a queue pair's send side: a program's requests, and the task that executes them.
 *
 * The program writes its requests into memory that it shares with the kernel, and can change them
 * at any time. rxe reads them there repeatedly, and keeps its own state in them.  So each
 * request is copied, once, into a queue that only the kernel has (sq.queue), and is checked
 * and used only there.  Only this file reads the shared queue (sq.hca_shared).
 *
 * Requests have the same index in both. sq.sq_lock guards the producer index of sq.queue.
 * The program's producer index is trusted only as far as there are free entries.
 */
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "rxe.h"
#include "rxe_loc.h"
#include "rxe_queue.h"

#include "compat.h"

/* Since 6.3; older versions have no such request. */
#define ATOMIC_WRITE 0xf
/* rxe fails a request with an unknown opcode. */
#define NO_OPCODE U32_MAX

void *hca_queue_alloc(size_t size)
{
	return __vmalloc(PAGE_ALIGN(size), GFP_KERNEL_ACCOUNT | __GFP_ZERO);
}

int hca_queue_map(struct vm_area_struct *vma, void *queue)
{
	unsigned long at;
	int err = 0;

	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (at = vma->vm_start; !err && at < vma->vm_end; at += PAGE_SIZE)
		err = vm_insert_page(vma, at, vmalloc_to_page(queue + (at - vma->vm_start)));
	return err;
}

int hca_sq_share(struct rxe_qp *qp)
{
	struct rxe_queue *shared = qp->sq.queue;
	int slots = qp->sq.max_wr;

	qp->sq.queue = rxe_queue_init(shared->rxe, &slots, shared->elem_size, shared->type);
	if (!qp->sq.queue) {
		rxe_queue_cleanup(shared);
		return -ENOMEM;
	}
	qp->sq.hca_shared = shared;
	return 0;
}

void hca_sq_cleanup(struct rxe_qp *qp)
{
	rxe_queue_cleanup(qp->sq.queue);
	if (qp->sq.hca_shared)
		rxe_queue_cleanup(qp->sq.hca_shared);
	qp->sq.hca_shared = NULL;
}

void hca_rewind(struct rxe_dma_info *dma, u32 num_sge)
{
	dma->num_sge = num_sge;
	dma->cur_sge = 0;
	dma->sge_offset = 0;
	dma->resid = dma->length;
}

/*
 * Do the request's lengths fit into the entry?  Keys and addresses are checked when they
 * are used.
 */
static bool is_sound(const struct rxe_qp *qp, const struct rxe_send_wqe *wqe)
{
	if (wqe->dma.num_sge > qp->sq.max_sge)
		return false;
	if (wqe->wr.opcode == ATOMIC_WRITE)
		return wqe->dma.length == sizeof(u64) && qp->sq.max_inline >= sizeof(u64);
	return !(wqe->wr.send_flags & IB_SEND_INLINE) || wqe->dma.length <= qp->sq.max_inline;
}

static void take(const struct rxe_qp *qp, struct rxe_send_wqe *wqe, const struct rxe_send_wqe *shared)
{
	memcpy(wqe, shared, qp->sq.queue->elem_size);
	wqe->status = IB_WC_SUCCESS;
	wqe->state = wqe_state_posted;
	wqe->mask = 0;
	wqe->first_psn = 0;
	wqe->last_psn = 0;
	wqe->has_rd_atomic = 0;
	if (!is_sound(qp, wqe)) {
		wqe->wr.opcode = NO_OPCODE;
		wqe->wr.send_flags = 0;
		wqe->dma.num_sge = 0;
		wqe->dma.length = 0;
	}
	hca_rewind(&wqe->dma, wqe->dma.num_sge);
}

void hca_sq_take(struct rxe_qp *qp)
{
	struct rxe_queue *shared = qp->sq.hca_shared, *q = qp->sq.queue;
	unsigned long flags;
	u32 at, end;

	if (!shared)
		return;
	spin_lock_irqsave(&qp->sq.sq_lock, flags);
	end = queue_get_producer(shared, QUEUE_TYPE_FROM_CLIENT) & q->index_mask;
	at = q->buf->producer_index;
	/* Acquire, pairs with hca_sq_done(): the completer does not read the entry any more. */
	while (at != end && !queue_full(q, QUEUE_TYPE_FROM_ULP)) {
		take(qp, queue_addr_from_index(q, at), queue_addr_from_index(shared, at));
		at = queue_next_index(q, at);
		/* After the request itself. */
		smp_store_release(&q->buf->producer_index, at);
	}
	spin_unlock_irqrestore(&qp->sq.sq_lock, flags);
}

void hca_sq_done(struct rxe_qp *qp)
{
	struct rxe_queue *shared = qp->sq.hca_shared, *q = qp->sq.queue;

	queue_advance_consumer(q, QUEUE_TYPE_FROM_CLIENT);
	if (shared)
		/* The program may use the entry again. */
		smp_store_release(&shared->buf->consumer_index, q->index);
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0)
/*
 * Both always run: an answer may let the requester continue, and a retried request may
 * complete what the completer waits for.
 */
int hca_sender(void *qp)
{
	int sent = rxe_requester(qp);
	int completed = rxe_completer(qp);

	return sent && completed ? -EAGAIN : 0;
}
#endif
