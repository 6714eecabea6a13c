/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * hca.h - peerdma_hca.ko: an RDMA adapter in software that is a PCI function. The protocol
 * code is the distribution's rxe, changed by edit-rxe; this header has the functions that
 * those changes call.
 *
 * Host memory is registered and accessed as in rxe. Memory of other devices (of a
 * PeerDirect client, or in a dma-buf) has no struct pages. A struct hca_memory has its DMA
 * addresses for the PCI function, and each access translates them through the function's
 * IOMMU domain, as the IOMMU would for a real adapter.
 *
 * A lock, memory->gate, is held around each access: by the responder and the requester, for
 * packets and completions. Before memory is taken away, hca_close() is called: when it
 * returns, no access is under way, and later ones fail.
 *
 * Lock order: a dma-buf's reservation lock, then the mutex of bar.c. Or the reservation
 * lock, or the mutex of memory.c, then memory->gate, or the lock of a mapper (dmabuf.c). These
 * two are taken in any context; no code sleeps while one is held. An adapter is registered and
 * unregistered with its function's device lock held; who registers one gives up after half a
 * second without it (device.c).
 */
#ifndef PEERDMA_HCA_H
#define PEERDMA_HCA_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct device;
struct hca_memory;
struct hca_run;
struct ib_device;
struct ib_umem;
struct iommu_domain;
struct net_device;
struct pci_dev;
struct rxe_dma_info;
struct rxe_mr;
struct rxe_mw;
struct rxe_qp;
struct rxe_send_wqe;
struct sg_table;

/* ---- memory.c: memory of other devices ---- */

enum hca_state {
	HCA_MOVED,	/* moved, or not mapped yet: an access requests a mapping, and is retried */
	HCA_OPEN,
	HCA_GONE,	/* revoked for good: an access is an error */
};

struct hca_memory {
	struct list_head node;		/* memory.c's */
	struct ib_device *ibdev;	/* for messages; its parent is the PCI function */
	struct device *dev;		/* the PCI function; a reference */
	struct iommu_domain *domain;	/* of dev; NULL: DMA addresses are physical ones */
	u64 offset;			/* offset of the region in the mapped memory */
	void (*want)(struct hca_memory *memory);	/* an access found HCA_MOVED; any context */
	void (*release)(struct hca_memory *memory);	/* frees it and its container; may sleep */

	rwlock_t gate;			/* guards the fields below */
	enum hca_state state;
	struct hca_run *runs;
	u32 nruns;
	unsigned long first_access;	/* jiffies, since hca_open(); 0: none yet. May be read without the gate */
};

/*
 * Initializes memory for the PCI function of ibdev, without a mapping. -EOPNOTSUPP: ibdev
 * is no PCI function, which is logged.
 */
int hca_memory_init(struct hca_memory *memory, struct ib_device *ibdev);
/* Closes the memory for accesses, and frees what hca_open() has made. May sleep. */
void hca_memory_end(struct hca_memory *memory);

/* A number that changes whenever a PCI device loses its driver. To be called before memory is mapped, for hca_open(). */
int hca_removals(void);
/*
 * Sets the DMA addresses to those of sgt, which must have length bytes from memory->offset
 * on; seen: hca_removals() before sgt was mapped. May sleep; calls must not overlap. HCA_GONE
 * does not change.
 * -EFAULT: an address has no translation; -EINVAL: sgt is too short; -EBUSY: the kernel
 * cannot map it; -ENOMEM, also if a device has lost its driver since: map it again.
 */
int hca_open(struct hca_memory *memory, const struct sg_table *sgt, u64 length, int seen);
/* Sets all memory in this device's BARs, and all memory of this function, to HCA_GONE. May sleep. */
void hca_device_gone(struct pci_dev *pdev);

/*
 * Sets the state to HCA_MOVED or HCA_GONE, unless it is HCA_GONE. When this returns, no
 * access is under way. Does not sleep.
 */
void hca_close(struct hca_memory *memory, enum hca_state state);

/* ---- mr.c: rxe's operations on an MR that has mr->hca ---- */

/*
 * As rxe_mr_copy(); to_memory as RXE_TO_MR_OBJ. -EFAULT: no access; -EAGAIN: moved, retry
 * later. Any context.
 */
int hca_mr_copy(struct rxe_mr *mr, u64 iova, void *addr, size_t length, bool to_memory);

/* An atomic operation of InfiniBand; -EINVAL: not aligned; else as above. */
int hca_mr_atomic(struct rxe_mr *mr, u64 iova, bool swap, u64 compare, u64 swap_add, u64 *original);
int hca_mr_write64(struct rxe_mr *mr, u64 iova, u64 value);

/*
 * Returns a random number at which the search for the index of a new MR or window begins,
 * so that keys cannot be predicted.
 */
u32 hca_any_index(u32 min, u32 max);

/* rxe's own function, which older versions declare static. */
void rxe_mr_init(int access, struct rxe_mr *mr);

/* Makes this memory that of the MR, which will release it. */
void hca_mr_set(struct rxe_mr *mr, struct hca_memory *memory, int access);
/* To be called when the last reference to the MR is dropped. */
void hca_mr_release(struct rxe_mr *mr);

/* ---- peer.c: memory of PeerDirect clients ---- */

/* ib_umem_get(), or ib_umem_get_peer() if a peer-memory core is loaded. *removals: hca_removals() before that. */
struct ib_umem *hca_umem_get(struct ib_device *ibdev, unsigned long start, size_t length, int access, int *removals);
bool hca_umem_is_peer(const struct ib_umem *umem);
/* Takes over the umem, also if it fails. */
int hca_mr_init_peer(struct rxe_mr *mr, struct ib_device *ibdev, struct ib_umem *umem, u64 length, int access, int removals);

/* ---- dmabuf.c ---- */

/* Before the first, and after the last, call of the other functions here. */
int hca_dmabuf_start(void);
void hca_dmabuf_stop(void);
int hca_mr_init_dmabuf(struct rxe_mr *mr, struct ib_device *ibdev, u64 offset, u64 length, u64 iova, int fd, int access);

/* ---- queue.c: work requests of programs ---- */

/*
 * Makes the current send queue, which the program has mapped, sq.hca_shared, and makes
 * sq.queue a new one of the same size. -ENOMEM: the send queue was freed.
 */
int hca_sq_share(struct rxe_qp *qp);
/*
 * Copies requests that the program has posted to sq.queue. Any context. Does nothing if the
 * kernel posts.
 */
void hca_sq_take(struct rxe_qp *qp);
/* Removes the oldest request, which is done. */
void hca_sq_done(struct rxe_qp *qp);
void hca_sq_cleanup(struct rxe_qp *qp);

/* Memory for a queue, which a program may map: vmalloc_user(), charged to the caller's memory cgroup. vfree() frees it. */
void *hca_queue_alloc(size_t size);
/* remap_vmalloc_range(vma, queue, 0), for such memory.  The caller has checked that the vma is not longer. */
int hca_queue_map(struct vm_area_struct *vma, void *queue);

/* Resets a request's progress to its first byte. */
void hca_rewind(struct rxe_dma_info *dma, u32 num_sge);

/*
 * Before Linux 6.9: the task of a queue pair's send side, which runs requester and
 * completer, never both at the same time. Returns as rxe's tasks do.
 */
int hca_sender(void *qp);

/* ---- window.c: memory windows ---- */

/*
 * hca_window_open: returns the region of the window with this key, with a reference, or
 * NULL: it is not bound, or not for this queue pair and access, or with another key, or does
 * not contain all of these bytes. rxe checks most of this, too, but without the window's lock.
 * *offset: add it to va to get an address of the region. Any context.
 * hca_window_region: the same for the rest of a read; in the meantime the window may have
 * been bound anew with the same key, also to another queue pair.
 */
struct rxe_mr *hca_window_open(const struct rxe_qp *qp, struct rxe_mw *mw, int access, u32 rkey, u64 va, u64 length, u64 *offset);
struct rxe_mr *hca_window_region(const struct rxe_qp *qp, struct rxe_mw *mw, u32 rkey, u64 addr, u64 length);
/*
 * Checks whether the window may be bound like this. If so, and if there is a region, counts
 * the window as bound to it. 0, or -EINVAL. mw->lock held.
 */
int hca_window_count(struct rxe_qp *qp, struct rxe_send_wqe *wqe, struct rxe_mw *mw, struct rxe_mr *mr, int access);
/*
 * 0: the queue pair may invalidate the window; -EINVAL: it may not, or there is nothing to
 * invalidate. mw->lock held.
 */
int hca_window_may_end(const struct rxe_qp *qp, const struct rxe_mw *mw);
/* Invalidates all windows that are bound to the queue pair; it must not bind any more. */
void hca_windows_end(struct rxe_qp *qp);
/* Prevents that windows are bound to the region. False: one is bound. */
bool hca_windows_close(struct rxe_mr *mr);
/* Allows that windows are bound again. */
void hca_windows_reopen(struct rxe_mr *mr);
/* rxe's own functions, which rxe declares static. */
int rxe_check_bind_mw(struct rxe_qp *qp, struct rxe_send_wqe *wqe, struct rxe_mw *mw, struct rxe_mr *mr, int access);
void rxe_do_invalidate_mw(struct rxe_mw *mw);

/* ---- device.c: the PCI function, and conflicts with rdma_rxe ---- */

/*
 * Returns the PCI function below the net device, with a reference and its device lock held:
 * its driver stays bound, and so the adapter can be registered.  NULL: there is none. -EBUSY:
 * its driver is being bound or unbound; -EINTR. May sleep.
 */
struct device *hca_lock_function(struct net_device *ndev);
/* NULL and errors are permitted. */
void hca_unlock_function(struct device *dev);
/* Makes the function the adapter's parent, unless it is NULL. To be called before it is registered. */
void hca_set_parent(struct ib_device *ibdev, struct net_device *ndev, struct device *dev);
int hca_start(void);
void hca_stop(void);

#endif
