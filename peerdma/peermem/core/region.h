/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * region.h - one registration of a client's memory, from acquire to release.
 *
 *	NEW --get_pages--> HELD --claimed by one thread--> ENDING --dma_unmap, put_pages--> ENDED
 *
 * The thread that moves it to ENDING undoes it. That is a thread that deregisters, or one
 * that invalidates, which stops the device first. Other threads wait as the contract in
 * rdma/peer_mem.h says.
 */
#ifndef PEER_CORE_REGION_H
#define PEER_CORE_REGION_H

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_umem_peer.h>

/*
 * Asks the clients. flags: IB_PEER_MEM_INVAL_SUPP or 0. size is not 0, and the range does
 * not wrap. Returns the umem, NULL if no client owns the range, or ERR_PTR. A region holds
 * this module until its umem is released.
 */
struct ib_umem *peer_region_get(struct ib_device *ibdev, struct device *dev, unsigned long addr,
				size_t size, int access, unsigned long flags);
void peer_region_release(struct ib_umem *umem);

bool peer_region_is(const struct ib_umem *umem);
int peer_region_activate(struct ib_umem *umem, umem_invalidate_func_t func, void *cookie);
void peer_region_stop(struct ib_umem *umem);

/* The invalidate_peer_memory function that clients call. */
int peer_region_invalidate(void *reg_handle, u64 core_context);

#endif
