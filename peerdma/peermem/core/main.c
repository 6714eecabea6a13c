// SPDX-License-Identifier: MIT OR GPL-2.0
/* main.c - loads and unloads peerdma_peer_core.ko; the functions that clients call. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "client.h"
#include "hooks.h"
#include "region.h"

void *ib_register_peer_memory_client(const struct peer_memory_client *peer_client,
				     invalidate_peer_memory *invalidate_callback)
{
	/* Set first: the client may be called before this returns. */
	if (invalidate_callback)
		*invalidate_callback = peer_region_invalidate;
	return peer_client_add(peer_client, invalidate_callback);
}
EXPORT_SYMBOL_GPL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *reg_handle)
{
	peer_client_remove(reg_handle);
}
EXPORT_SYMBOL_GPL(ib_unregister_peer_memory_client);

/*
 * With a vendor's RDMA core loaded this never runs: the kernel refuses a module that
 * exports a symbol that exists already.
 */
static int __init peer_core_init(void)
{
	int err = peer_clients_init();

	if (err)
		return err;
	err = peer_hooks_init();
	if (err) {
		peer_clients_exit();
		return err;
	}
	pr_info("adds peer memory to the kernel's RDMA core, for development: hooks ib_umem_*()\n");
	return 0;
}

static void __exit peer_core_exit(void)
{
	peer_hooks_exit();
	peer_clients_exit();
}

module_init(peer_core_init);
module_exit(peer_core_exit);

MODULE_DESCRIPTION("Peer memory (PeerDirect) for distribution kernels");
MODULE_AUTHOR("peerdma developers");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
