/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * rdma/peer_mem.h - peer memory: how a driver that owns device memory (the client, such as a
 * GPU's) lets RDMA adapters reach it.  Names, layouts and contract are those of OFED and of
 * Ubuntu's kernels: a client built with this header loads on their cores, and a client built with
 * theirs loads on this one (peerdma_peer_core.ko).
 *
 * The life of a region, in the order of the calls:
 *
 *	acquire(addr, size)	1: the client owns the range; 0 or -errno: the next client is asked
 *	get_pages		the raw range, write 1, the core's context for this region
 *	dma_map			fills the table for one device
 *	  ... RDMA ...
 *	dma_unmap, put_pages	get the table as dma_map left it, byte for byte
 *	release			last, exactly once for each acquire that returned 1
 *
 *	get_pages failed	release only
 *	dma_map failed		put_pages, release; dma_map left the table untouched or valid
 *	invalidated before dma_map began
 *				no dma_map; put_pages (not with INVALIDATE_UNMAPS), release
 *
 * The core asks the clients in the order in which they registered, and skips
 *	- all of them if the device is no PCI function, if its driver needs struct pages, or if
 *	  the range begins in memory that has struct pages;
 *	- revocable ones if the device's driver has not declared IB_PEER_MEM_INVAL_SUPP.
 * A revocable client is one that registered with an invalidate_callback pointer.  Clients without
 * one are offered to every driver.  The core holds no lock while it calls a client.
 *
 * Invalidation.  When its memory is freed, a revocable client calls
 * (*invalidate_callback)(reg_handle, core_context):
 *
 *	- The call may sleep and returns 0 always.  It is allowed from the start of get_pages on.
 *	  For a context that has ended or never existed it does nothing.
 *	- It waits for a get_pages or dma_map of the region that is running, then stops the device.
 *	  When it returns, no DMA to the region is under way and none will start.
 *	- It calls dma_unmap and put_pages before it returns, or waits for the thread that does.
 *	- With PEER_MEM_INVALIDATE_UNMAPS it does neither.  The client unmaps after the call has
 *	  returned.  If the invalidation came first, the core then calls only release for this
 *	  region; if deregistration came first, dma_unmap and put_pages run too, at the same
 *	  time as the invalidation or after it.
 *	- release may run while the client is still in the function that called
 *	  invalidate_callback.
 *	- So get_pages and dma_map must not wait for a thread that is in invalidate_callback.
 *	  Without PEER_MEM_INVALIDATE_UNMAPS, dma_unmap and put_pages must not either.
 *	- A lock may be held around invalidate_callback only if none of the calls that it waits for
 *	  takes that lock.
 *	- If a call of the region (get_pages, for one) itself calls invalidate_callback, that does
 *	  not wait for itself.
 *
 * All calls may sleep, run in process context, and run in parallel for different regions.  The
 * registering process makes acquire, get_pages and dma_map, so current says whose addresses are
 * meant; a client does not own addresses of another process.  Other calls come from any thread.
 */
#ifndef PEERDMA_RDMA_PEER_MEM_H
#define PEERDMA_RDMA_PEER_MEM_H

#include <linux/build_bug.h>
#include <linux/scatterlist.h>
#include <linux/stddef.h>
#include <linux/types.h>

struct device;

#define IB_PEER_MEMORY_NAME_MAX	64
#define IB_PEER_MEMORY_VER_MAX	16
/* core_context is a u64.  Old cores do not define this; their core_context is a void *. */
#define PEER_MEM_U64_CORE_CONTEXT

struct peer_memory_client {
	/* Terminated, and unique: /sys/kernel/mm/memory_peers/NAME. */
	char name[IB_PEER_MEMORY_NAME_MAX];
	/*
	 * Terminated before its last byte.  If that byte is not 0, this struct is the first member
	 * of a struct peer_memory_client_ex.
	 */
	char version[IB_PEER_MEMORY_VER_MAX];

	/*
	 * 1 if the client owns the whole range and it is the current process's; *client_context is
	 * then passed to the other calls, until release.  Else 0 or -errno.  peer_mem_private_data
	 * and peer_mem_name are NULL.
	 */
	int (*acquire)(unsigned long addr, size_t size, void *peer_mem_private_data,
		       char *peer_mem_name, void **client_context);
	/*
	 * Keeps the memory in place until put_pages or invalidation.  addr and size are those of
	 * the registration, not rounded.  write is 1; force is 1 if the region is only read;
	 * sg_head is NULL.  Returns 0 or -errno, which ibv_reg_mr() reports.
	 */
	int (*get_pages)(unsigned long addr, size_t size, int write, int force,
			 struct sg_table *sg_head, void *client_context, u64 core_context);
	/*
	 * Allocates sg_head and fills in DMA addresses and lengths for dma_device, a PCI function,
	 * from the start of the page of addr to the end of the page of the range's last byte, in
	 * the client's page size.  Each is a multiple of PAGE_SIZE.  *nmap is the number of entries
	 * filled in.  dmasync is 0.  Returns 0 or -errno.
	 */
	int (*dma_map)(struct sg_table *sg_head, void *client_context, struct device *dma_device,
		       int dmasync, int *nmap);
	/* Returns 0. */
	int (*dma_unmap)(struct sg_table *sg_head, void *client_context,
			 struct device *dma_device);
	/* The client frees what dma_map allocated here or in release. */
	void (*put_pages)(struct sg_table *sg_head, void *client_context);
	/*
	 * NULL: PAGE_SIZE.  Called after dma_map.  A power of two, at least PAGE_SIZE: the edges of
	 * the table are rounded to it, and the core trims its own copy to the CPU's pages.  A table
	 * that is longer or shorter than the rounded range is refused with -EINVAL: from its length
	 * alone the core cannot tell where addr is.
	 */
	unsigned long (*get_page_size)(void *client_context);
	/* May be NULL. */
	void (*release)(void *client_context);
};

/*
 * AMD's clients bring an older struct: its core_context is a void *, passed in the same register,
 * and two more callbacks follow release.  The core need not tell it apart: it reads nothing behind
 * release unless the last byte of version is set, and AMD's clients leave it 0.
 */

enum {
	/* The client unmaps by itself after invalidate_callback has returned: see above. */
	PEER_MEM_INVALIDATE_UNMAPS = 1 << 0,
};

struct peer_memory_client_ex {
	struct peer_memory_client client;	/* version[IB_PEER_MEMORY_VER_MAX - 1] is 1 */
	size_t ex_size;		/* sizeof this struct; 0: flags is ignored */
	u32 flags;
};

#ifdef CONFIG_64BIT
static_assert(offsetof(struct peer_memory_client, version) == 64);
static_assert(offsetof(struct peer_memory_client, acquire) == 80);
static_assert(offsetof(struct peer_memory_client, release) == 128);
static_assert(sizeof(struct peer_memory_client) == 136);
static_assert(offsetof(struct peer_memory_client_ex, flags) == 144);
static_assert(sizeof(struct peer_memory_client_ex) == 152);
#endif

typedef int (*invalidate_peer_memory)(void *reg_handle, u64 core_context);

/*
 * ib_register_peer_memory_client() - offer a client's memory to adapters
 * @peer_client: owned by the caller; must stay unchanged until unregistered
 * @invalidate_callback: NULL if the memory stays until it is put (a persistent client); else
 *	where to store the function to call when memory goes away.  It is stored before the client
 *	is first asked.
 *
 * Returns the handle for the other calls.  NULL, with a line in the log: acquire, get_pages,
 * put_pages, dma_map or dma_unmap is missing, or the name is empty, not terminated or taken.
 * NULL also if there is no memory.  May sleep.  Any thread.
 */
void *ib_register_peer_memory_client(const struct peer_memory_client *peer_client,
				     invalidate_peer_memory *invalidate_callback);

/*
 * ib_unregister_peer_memory_client() - unregister a client
 *
 * Waits until programs have deregistered all regions of the client and until no call of the client
 * or of its invalidate_callback is running; none follows.  A client that holds its own module from
 * acquire to release has rmmod refused instead.  Do not call it from a call of the client.  May
 * sleep.
 */
void ib_unregister_peer_memory_client(void *reg_handle);

#endif
