/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * hca.h - peerdma_hca.ko: an RDMA adapter in software that is a PCI function.  The protocol is that of the
 * distribution's rxe, with the edits of edit-rxe; this is what those edits call.
 *
 * Host memory is registered and reached as in rxe.  Memory of other devices (a PeerDirect client's, or a dma-buf) has
 * no pages: a struct hca_memory has its DMA addresses for the function, and each access translates them through the
 * IOMMU domain of the function, as the IOMMU would for a real adapter.
 *
 * One gate (memory->gate) is around each access: the responder's and the requester's, in packets and completions.
 * Before memory is taken away, hca_close() is called: when it returns, no access is under way, and later ones fail.
 *
 * Lock order: a dma-buf's reservation lock, then memory->gate.  The gate is taken in any context; nothing sleeps inside.
 */
#ifndef PEERDMA_HCA_H
#define PEERDMA_HCA_H

#include <linux/spinlock.h>
#include <linux/types.h>

struct device;
struct hca_memory;
struct hca_run;
struct ib_device;
struct ib_umem;
struct iommu_domain;
struct net_device;
struct rxe_dma_info;
struct rxe_mr;
struct rxe_mw;
struct rxe_qp;
struct rxe_send_wqe;
struct sg_table;

/* ---- memory.c: memory of other devices ---- */

enum hca_state {
	HCA_MOVED,	/* it is elsewhere, or not mapped yet: an access asks for the mapping, and is made again */
	HCA_OPEN,
	HCA_GONE,	/* for good: an access is an error */
};

struct hca_memory {
	struct ib_device *ibdev;	/* for messages; its parent is the PCI function */
	struct device *dev;		/* the PCI function; a reference */
	struct iommu_domain *domain;	/* of dev, NULL: none, and DMA addresses are physical ones */
	u64 offset;			/* where the region begins in what is mapped */
	void (*want)(struct hca_memory *memory);	/* an access met HCA_MOVED; any context */
	void (*release)(struct hca_memory *memory);	/* frees it, and what it is part of; may sleep */

	rwlock_t gate;			/* of what follows */
	enum hca_state state;
	struct hca_run *runs;
	u32 nruns;
};

/* The function of ibdev, and no mapping yet. -EOPNOTSUPP: ibdev is no PCI function; a line in the log says so. */
int hca_memory_init(struct hca_memory *memory, struct ib_device *ibdev);
/* Closes the gate, and frees what hca_open() has made. May sleep. */
void hca_memory_end(struct hca_memory *memory);

/*
 * The DMA addresses from now on: those of sgt, which must have length bytes from memory->offset on.  May sleep; not
 * twice at once.  Memory that is HCA_GONE stays so.
 * -EFAULT: an address has no translation; -EINVAL: sgt is too short; -ENOMEM.
 */
int hca_open(struct hca_memory *memory, const struct sg_table *sgt, u64 length);

/* No access is inside when this returns. state: HCA_MOVED or HCA_GONE, which stays. Does not sleep. */
void hca_close(struct hca_memory *memory, enum hca_state state);

/* ---- mr.c: what rxe asks for of an MR that has mr->hca ---- */

/* As rxe_mr_copy() with RXE_TO_MR_OBJ or not. -EFAULT: no access; -EAGAIN: moved, later. Any context. */
int hca_mr_copy(struct rxe_mr *mr, u64 iova, void *addr, size_t length, bool to_memory);

/* One of IB's atomic operations; -EINVAL: not aligned; else as above. */
int hca_mr_atomic(struct rxe_mr *mr, u64 iova, bool swap, u64 compare, u64 swap_add, u64 *original);
int hca_mr_write64(struct rxe_mr *mr, u64 iova, u64 value);

/* A random number: the search for a new MR's or window's index begins there, so that keys cannot be predicted. */
u32 hca_any_index(u32 min, u32 max);

/* rxe's own, which is static in older ones. */
void rxe_mr_init(int access, struct rxe_mr *mr);

/* The MR is of this memory now, and releases it. */
void hca_mr_set(struct rxe_mr *mr, struct hca_memory *memory, int access);
/* The last reference to the MR is gone. */
void hca_mr_release(struct rxe_mr *mr);

/* ---- peer.c: memory of PeerDirect's clients ---- */

/* ib_umem_get(), or that of the peer-memory core if it is loaded. */
struct ib_umem *hca_umem_get(struct ib_device *ibdev, unsigned long start, size_t length, int access);
bool hca_umem_is_peer(const struct ib_umem *umem);
/* 0, or -EOPNOTSUPP and a line in the log: what begins there is no memory of the host's, and cannot be paged. */
int hca_on_demand(struct ib_device *ibdev, u64 start, u64 length);
/* Takes the umem over, also where it fails. */
int hca_mr_init_peer(struct rxe_mr *mr, struct ib_device *ibdev, struct ib_umem *umem, u64 length, int access);

/* ---- dmabuf.c ---- */

int hca_mr_init_dmabuf(struct rxe_mr *mr, struct ib_device *ibdev, u64 offset, u64 length, u64 iova, int fd, int access);

/* ---- queue.c: work requests of programs ---- */

/*
 * The send queue is the program's from now on, which has mapped it (sq.hca_shared), and sq.queue another one, of the same
 * size.  -ENOMEM: the queue is gone.
 */
int hca_sq_share(struct rxe_qp *qp);
/* What the program has posted is in sq.queue now. Any context. Nothing to do where the kernel posts. */
void hca_sq_take(struct rxe_qp *qp);
/* The oldest request is done, and its place free. */
void hca_sq_done(struct rxe_qp *qp);
void hca_sq_cleanup(struct rxe_qp *qp);

/* Nothing of the request's bytes is done yet. */
void hca_rewind(struct rxe_dma_info *dma, u32 num_sge);

/* The task of a queue pair's send side before Linux 6.9: requester and completer, never at the same time. As rxe's tasks return. */
int hca_sender(void *qp);

/* ---- window.c: memory windows ---- */

/*
 * The region of the window that has this key, with a reference; NULL: it is not bound, or by another key, or does not have all
 * of these bytes.  *offset: what is to be added to va for the region's own addresses.  Any context.
 * The second is for what is left of a read: the window may have been bound elsewhere since, with its key.
 */
struct rxe_mr *hca_window_open(struct rxe_mw *mw, u32 rkey, u64 va, u64 length, u64 *offset);
struct rxe_mr *hca_window_region(struct rxe_mw *mw, u32 rkey, u64 addr, u64 length);
/* May it be bound so?  Then it is counted as one of the region's, if there is one. 0, or -EINVAL. With mw->lock. */
int hca_window_count(struct rxe_qp *qp, struct rxe_send_wqe *wqe, struct rxe_mw *mw, struct rxe_mr *mr, int access);
/* 0, or -EINVAL: the queue pair may not invalidate it, or nothing is to be invalidated. With mw->lock. */
int hca_window_may_end(const struct rxe_qp *qp, const struct rxe_mw *mw);
/* None is bound to the queue pair, which binds none any more. */
void hca_windows_end(struct rxe_qp *qp);
/* No window is bound to the region, and from now on none will be; false: there is one. */
bool hca_windows_close(struct rxe_mr *mr);
/* Windows may be bound again. */
void hca_windows_reopen(struct rxe_mr *mr);
/* rxe's own, which are static there. */
int rxe_check_bind_mw(struct rxe_qp *qp, struct rxe_send_wqe *wqe, struct rxe_mw *mw, struct rxe_mr *mr, int access);
void rxe_do_invalidate_mw(struct rxe_mw *mw);

/* ---- device.c: the PCI function, and rdma_rxe beside ---- */

/* The adapter is the PCI function below the net device, if there is one. Before it is registered. */
void hca_set_parent(struct ib_device *ibdev, struct net_device *ndev);
int hca_start(void);
void hca_stop(void);

#endif
