// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * main.c - peerdma_peermem.ko: the peer-memory client for all memory that peerdma pins.
 *
 * It registers as a client of revocable memory.  Cores offer such clients only to adapters
 * that can be stopped.  With persistent=1 it registers a second client, for other adapters:
 * then memory stays pinned after it was freed, until the program deregisters it or ends.
 */
#include <linux/module.h>

#include "others.h"
#include "region.h"

#ifndef PEER_MEM_U64_CORE_CONTEXT
#error "This RDMA core's header is older than MLNX_OFED 5.1: its contexts are pointers"
#endif

#define NAME "peerdma_peermem: "

static bool persistent;
module_param(persistent, bool, 0444);
MODULE_PARM_DESC(persistent, "also serve adapters that cannot be stopped; their memory stays pinned after it is freed (default 0)");

/*
 * The name by which programs check whether GPU memory can be registered: UCX and NCCL look
 * for /sys/kernel/mm/memory_peers/nv_mem/version, UCX with AMD's GPUs for amdkfd/version.
 */
static char *name = "nv_mem";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "name of this client in the RDMA core's list (default nv_mem; UCX looks for amdkfd where AMD GPUs are)");

static struct peermem_client revocable;
static struct peermem_client lasting = {
	.persistent = true,
};

static int acquire(unsigned long addr, size_t size, void *data, char *peer_name, void **region)
{
	return peermem_acquire(&revocable, addr, size, region);
}

static int acquire_lasting(unsigned long addr, size_t size, void *data, char *peer_name,
			   void **region)
{
	return peermem_acquire(&lasting, addr, size, region);
}

#define CALLS							\
	.get_pages = peermem_get_pages,				\
	.dma_map = peermem_dma_map,				\
	.dma_unmap = peermem_dma_unmap,				\
	.put_pages = peermem_put_pages,				\
	.get_page_size = peermem_page_size,			\
	.release = peermem_release

/* enter() sets the last byte of version, which marks this as the extended struct. */
static struct peer_memory_client_ex revocable_client = {
	.client = {
		.version = "peerdma",
		.acquire = acquire,
		CALLS,
	},
	.ex_size = sizeof(revocable_client),
	.flags = PEER_MEM_INVALIDATE_UNMAPS,
};

static struct peer_memory_client lasting_client = {
	.version = "peerdma",
	.acquire = acquire_lasting,
	CALLS,
};

/*
 * Weak: without these symbols this module still loads as far as its init function, which
 * reports what is missing.  If they exist, the kernel compares their versions as for any
 * other symbol.  Both are called through pointers in data, which READ_ONCE() reads: in code,
 * gcc for arm64 finds a weak symbol through a global offset table, and the kernel there loads
 * no module that needs one.
 */
#pragma weak ib_register_peer_memory_client
#pragma weak ib_unregister_peer_memory_client
static typeof(ib_register_peer_memory_client) *register_client __ro_after_init =
	ib_register_peer_memory_client;
static typeof(ib_unregister_peer_memory_client) *unregister_client __ro_after_init =
	ib_unregister_peer_memory_client;

static int enter(void)
{
	void *handle;

	revocable_client.client.version[IB_PEER_MEMORY_VER_MAX - 1] = 1;
	strscpy(revocable_client.client.name, name, IB_PEER_MEMORY_NAME_MAX);
	snprintf(lasting_client.name, IB_PEER_MEMORY_NAME_MAX, "%.40s_nc", name);
	handle = READ_ONCE(register_client)(&revocable_client.client, &revocable.invalidate);
	/* Release: a thread that sees the handle also sees `invalidate'. */
	smp_store_release(&revocable.handle, handle);
	if (!handle) {
		pr_err(NAME "the RDMA core refuses the client %s\n", name);
		return -EINVAL;
	}
	if (!persistent)
		return 0;
	lasting.handle = READ_ONCE(register_client)(&lasting_client, NULL);
	if (lasting.handle)
		return 0;
	pr_err(NAME "the RDMA core refuses the client %s\n", lasting_client.name);
	READ_ONCE(unregister_client)(revocable.handle);
	return -EINVAL;
}

static int __init peerdma_peermem_init(void)
{
	int err;

	if (!READ_ONCE(register_client) || !READ_ONCE(unregister_client)) {
		pr_err(NAME "not loaded: no RDMA core here takes peer-memory clients; load peerdma_peer_core, or install DOCA-OFED, then load this again\n");
		return -ENOENT;
	}
	err = peermem_others_init();
	if (err)
		return err;
	err = peermem_regions_init();
	if (err)
		goto others_exit;
	err = enter();
	if (err)
		goto regions_exit;
	return 0;

regions_exit:
	peermem_regions_exit();
others_exit:
	peermem_others_exit();
	return err;
}

static void __exit peerdma_peermem_exit(void)
{
	if (lasting.handle)
		READ_ONCE(unregister_client)(lasting.handle);
	READ_ONCE(unregister_client)(revocable.handle);
	peermem_regions_exit();
	peermem_others_exit();
}

module_init(peerdma_peermem_init);
module_exit(peerdma_peermem_exit);

/*
 * For "modprobe nvidia-peermem" of scripts and of modules-load.d.  A module with that name
 * comes before an alias, so where the GPU's driver brings it, it is loaded, not this one.
 */
MODULE_ALIAS("nvidia_peermem");
MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("peerdma: registers GPU memory with RDMA adapters");
MODULE_LICENSE("Dual MIT/GPL");
