/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * rdma/ib_umem_peer.h - peer memory as the driver of an RDMA device uses it.  The names are
 * OFED's, which declares them in rdma/ib_umem.h. peerdma_peer_core.ko exports them, also
 * for symbol_get().
 *
 *	umem = ib_umem_get_peer(ibdev, start, length, access,
 *				IB_PEER_MEM_ALLOW | IB_PEER_MEM_INVAL_SUPP);
 *	... build the device's tables, which no packet can reach yet ...
 *	if (ib_umem_is_peer(umem))
 *		err = ib_umem_activate_invalidation_notifier(umem, stop_the_device, mr);
 *	... if !err, publish the region ...
 *
 *	... withdraw it, wait for packets in flight ...
 *	if (ib_umem_is_peer(umem))
 *		ib_umem_stop_invalidation_notifier(umem);
 *	ib_umem_release(umem);		this too if activating failed
 *
 * The umem of peer memory is an ordinary struct ib_umem.  Its sgt_append.sgt holds DMA addresses
 * and lengths for the device's bus device (for_each_sgtable_dma_sg) and no struct page.  The first
 * entry begins at the page of umem->address.  The table can be read until ib_umem_release(), but
 * after an invalidation other memory may be at its addresses.
 *
 * Locks.  Do not hold a lock that your invalidation function takes across any call but
 * ib_umem_is_peer().  All but that one may sleep.
 */
#ifndef PEERDMA_RDMA_IB_UMEM_PEER_H
#define PEERDMA_RDMA_IB_UMEM_PEER_H

#include <linux/bits.h>
#include <linux/types.h>

struct ib_device;
struct ib_umem;

/* This registration may be of peer memory: the driver needs no struct page. */
#define IB_PEER_MEM_ALLOW	BIT(0)
/* The driver can stop its device at any time: revocable memory may be offered too. */
#define IB_PEER_MEM_INVAL_SUPP	BIT(1)

/*
 * ib_umem_get_peer() - ib_umem_get() (ib_umem_get_va() since Linux 7.2), for peer memory too
 * @peer_mem_flags: of the above; 0 asks no client
 *
 * Clients are asked if nothing, device memory, or memory without access rights is mapped at
 * addr.  They are asked before RLIMIT_MEMLOCK, and such regions are not counted in
 * pinned_vm.  The bus device is dma_device, else dev.parent, and no client is asked unless
 * it is a PCI function.  The kernel's own function answers for memory that no client owns,
 * for IB_ACCESS_ON_DEMAND and for size 0.
 *
 * Call it in the process whose memory it is.  ib_umem_release() undoes it.
 *
 * ERR_PTR:
 *	-EFAULT		the memory was freed meanwhile
 *	-EINVAL		the client's table is not aligned or does not cover the range; the log
 *			names the client
 *	-ENOMEM		no memory
 *	the client's -errno of get_pages or dma_map; the log names the client
 *	if no client owns the range, what ib_umem_get() returns, such as -EFAULT for no pages
 */
struct ib_umem *ib_umem_get_peer(struct ib_device *device, unsigned long addr, size_t size,
				 int access, unsigned long peer_mem_flags);

/*
 * The memory of umem is being freed: stop the device.  When this returns, no packet reaches
 * the memory any more, also none that was in flight.  Called at most once, for the whole
 * region, in the thread that frees the memory.  May sleep; the core holds no lock.  It must
 * not release the umem, call a function of this header for it (ib_umem_is_peer() is fine),
 * or wait for a thread that does.
 */
typedef void (*umem_invalidate_func_t)(void *invalidation_cookie, struct ib_umem *umem,
				       unsigned long addr, size_t size);

/*
 * ib_umem_activate_invalidation_notifier() - set the function that stops the device
 *
 * Call it once for a umem, before the device can reach its memory.  From here on func may
 * run, also before this returns.
 *
 * 0: also for memory that is never revoked; then func is never called.
 * -EFAULT: the memory was freed already. func is not called. Fail the registration, release umem.
 * -EINVAL: the umem is not of peer memory, func is NULL, or this is the second call.
 */
int ib_umem_activate_invalidation_notifier(struct ib_umem *umem, umem_invalidate_func_t func,
					   void *cookie);

/*
 * ib_umem_stop_invalidation_notifier() - the device is stopped: do not call func any more
 *
 * The caller has made sure that no DMA is under way or will start.  Waits for a func that
 * is running; func does not run afterwards.  The memory is unmapped and its pages are put,
 * unless an invalidation has done so. ib_umem_release() does all this if the caller has
 * not.  Two calls, or one without having activated, are fine.
 */
void ib_umem_stop_invalidation_notifier(struct ib_umem *umem);

/* Is this a umem of peer memory?  NULL and ERR_PTR are not.  Any context. */
bool ib_umem_is_peer(const struct ib_umem *umem);

#endif
