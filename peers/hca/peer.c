// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * peer.c - MRs of peer memory: addresses that a PeerDirect client owns, through a
 * peer-memory core.
 *
 * The core is another module, which may not be loaded: its functions are looked up when
 * memory is registered, and held as long as the region exists.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_peer.h>

#include "rxe.h"
#include "rxe_loc.h"

#include "compat.h"
#include "hca.h"

struct peer_memory {
	struct hca_memory memory;	/* first */
	struct ib_umem *umem;
};

/* ---- the core ---- */

static bool has_no_pages(struct ib_umem *umem)
{
	struct sg_table *sgt = &umem->sgt_append.sgt;

	return !umem->is_odp && sgt->sgl && sgt->orig_nents && !sg_page(sgt->sgl);
}

struct ib_umem *hca_umem_get(struct ib_device *ibdev, unsigned long start, size_t length, int access, int *removals)
{
	typeof(ib_umem_get_peer) *get = symbol_get(ib_umem_get_peer);
	struct ib_umem *umem;

	*removals = hca_removals();
	if (get) {
		umem = get(ibdev, start, length, access, IB_PEER_MEM_ALLOW | IB_PEER_MEM_INVAL_SUPP);
		/* A peer's umem keeps the symbol's reference. */
		if (!hca_umem_is_peer(umem))
			symbol_put(ib_umem_get_peer);
		return umem;
	}
	umem = ib_umem_get_va(ibdev, start, length, access);
	/* If a core was loaded meanwhile, its hook is in that call. */
	if (!IS_ERR(umem) && has_no_pages(umem)) {
		ib_umem_release(umem);
		return ERR_PTR(-EAGAIN);
	}
	return umem;
}

bool hca_umem_is_peer(const struct ib_umem *umem)
{
	typeof(ib_umem_is_peer) *is_peer;
	bool result;

	if (IS_ERR_OR_NULL(umem))
		return false;
	is_peer = symbol_get(ib_umem_is_peer);
	if (!is_peer)
		return false;
	result = is_peer(umem);
	symbol_put(ib_umem_is_peer);
	return result;
}

static int activate(struct peer_memory *peer, umem_invalidate_func_t func)
{
	typeof(ib_umem_activate_invalidation_notifier) *call = symbol_get(ib_umem_activate_invalidation_notifier);
	int err;

	if (WARN_ON(!call))
		return -ENOENT;
	err = call(peer->umem, func, peer);
	symbol_put(ib_umem_activate_invalidation_notifier);
	return err;
}

static void put_umem(struct ib_umem *umem)
{
	/* Stops the notifier, too. */
	ib_umem_release(umem);
	symbol_put(ib_umem_get_peer);
}

/* ---- a region ---- */

/* Called when the client takes the memory away. */
static void invalidate(void *cookie, struct ib_umem *umem, unsigned long addr, size_t size)
{
	struct peer_memory *peer = cookie;

	hca_close(&peer->memory, HCA_GONE);
}

/* Peer memory does not move: once open, it stays or is gone, so no access finds HCA_MOVED. */
static void want(struct hca_memory *memory)
{
}

static void release(struct hca_memory *memory)
{
	struct peer_memory *peer = container_of(memory, struct peer_memory, memory);

	hca_close(memory, HCA_GONE);
	put_umem(peer->umem);
	hca_memory_end(memory);
	kfree(peer);
}

int hca_mr_init_peer(struct rxe_mr *mr, struct ib_device *ibdev, struct ib_umem *umem, u64 length, int access, int removals)
{
	struct peer_memory *peer;
	int err;

	/* Nothing says what a client's memory keeps without power. */
	if (access & IB_ACCESS_FLUSH_PERSISTENT) {
		put_umem(umem);
		return -EINVAL;
	}
	peer = kzalloc(sizeof(*peer), GFP_KERNEL_ACCOUNT);
	if (!peer) {
		put_umem(umem);
		return -ENOMEM;
	}
	err = hca_memory_init(&peer->memory, ibdev);
	if (err) {
		put_umem(umem);
		kfree(peer);
		return err;
	}
	peer->umem = umem;
	peer->memory.offset = ib_umem_offset(umem);
	peer->memory.want = want;
	peer->memory.release = release;
	err = hca_open(&peer->memory, &umem->sgt_append.sgt, length, removals) ?: activate(peer, invalidate);
	if (err) {
		release(&peer->memory);
		return err;
	}
	hca_mr_set(mr, &peer->memory, access);
	return 0;
}
