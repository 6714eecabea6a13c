/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * nv-p2p.h - NVIDIA's interface for third-party devices as Tegra has it, as softgpu's
 * nvidia_p2p.ko offers it.  Names and layouts are NVIDIA's; drivers for Tegra find it
 * as <linux/nv-p2p.h>.
 *
 * What is other than on the desktop:
 *
 * - There are no tokens, and pages are 4 KiB.
 * - The memory is the host's, in GPU programs that of cudaHostAlloc(), whole or in part.
 * - The free callback runs once for each pin, also when that is put, and the client
 *   frees the page table, there or after it.
 * - Mapping is for any device and for one direction.
 *
 * The free callback comes from an MMU notifier.  The thread that calls it holds locks of
 * the process's memory: mmap_lock, those of page tables and of reclaim.  So the callback
 * must not allocate memory, and must not take mmap_lock or a lock that is held around an
 * allocation or around one of these calls.  It must not wait for a thread that does so.
 * Where the OOM killer takes a process's memory, it must not sleep at all.  All of the
 * calls below may sleep.  So a client notes in the callback that the pin has ended, and
 * queues the rest: it stops its device, unmaps, and frees the table.  Until it has freed
 * the table, the pages are used for nothing else.
 *
 * A client may hold its own locks across any call, except for get_pages, which takes
 * mmap_lock, those that its mmap takes, and for put_pages those that its callback takes.
 */
#ifndef __NVIDIA_P2P_H__
#define __NVIDIA_P2P_H__

#include <linux/dma-mapping.h>
#include <linux/mmu_notifier.h>

#define NVIDIA_P2P_UNINITIALIZED	0x0
#define NVIDIA_P2P_PINNED		0x1
#define NVIDIA_P2P_MAPPED		0x2

#define NVIDIA_P2P_MAJOR_VERSION_MASK	0xffff0000
#define NVIDIA_P2P_MINOR_VERSION_MASK	0x0000ffff

#define NVIDIA_P2P_MAJOR_VERSION(v)	(((v) & NVIDIA_P2P_MAJOR_VERSION_MASK) >> 16)
#define NVIDIA_P2P_MINOR_VERSION(v)	((v) & NVIDIA_P2P_MINOR_VERSION_MASK)

#define NVIDIA_P2P_MAJOR_VERSION_MATCHES(p, v) \
	(NVIDIA_P2P_MAJOR_VERSION((p)->version) == NVIDIA_P2P_MAJOR_VERSION(v))
#define NVIDIA_P2P_VERSION_COMPATIBLE(p, v) \
	(NVIDIA_P2P_MAJOR_VERSION_MATCHES(p, v) && \
	 NVIDIA_P2P_MINOR_VERSION((p)->version) >= NVIDIA_P2P_MINOR_VERSION(v))

enum nvidia_p2p_page_size_type {
	NVIDIA_P2P_PAGE_SIZE_4KB = 0,
	NVIDIA_P2P_PAGE_SIZE_64KB,
	NVIDIA_P2P_PAGE_SIZE_128KB,
	NVIDIA_P2P_PAGE_SIZE_COUNT
};

#define NVIDIA_P2P_PAGE_TABLE_VERSION	0x00010000
#define NVIDIA_P2P_PAGE_TABLE_VERSION_COMPATIBLE(p) \
	NVIDIA_P2P_VERSION_COMPATIBLE(p, NVIDIA_P2P_PAGE_TABLE_VERSION)

/* Clients read the fields as far as pages. */
typedef struct nvidia_p2p_page_table {
	u32 version;
	u32 page_size;			/* enum nvidia_p2p_page_size_type */
	u64 size;			/* bytes */
	u32 entries;			/* pages */
	struct page **pages;

	u64 vaddr;
	u32 mapped;			/* NVIDIA_P2P_PINNED */

	struct mm_struct *mm;
	struct mmu_notifier mn;
	struct mutex lock;
	void (*free_callback)(void *data);
	void *data;
} nvidia_p2p_page_table_t;

#define NVIDIA_P2P_DMA_MAPPING_VERSION	0x00010000
#define NVIDIA_P2P_DMA_MAPPING_VERSION_COMPATIBLE(p) \
	NVIDIA_P2P_VERSION_COMPATIBLE(p, NVIDIA_P2P_DMA_MAPPING_VERSION)

/* The device's addresses: `entries' runs, in order, which cover the table's pages. */
typedef struct nvidia_p2p_dma_mapping {
	u32 version;
	dma_addr_t *hw_address;
	u32 *hw_len;			/* bytes */
	u32 entries;

	struct sg_table *sgt;
	struct device *dev;
	struct nvidia_p2p_page_table *page_table;
	enum dma_data_direction direction;
} nvidia_p2p_dma_mapping_t;

/*
 * Pins [vaddr, vaddr + size), multiples of 4 KiB, of the calling process: any memory that
 * it can write, by its host address; memory of cudaHostAlloc() also by its device pointer.
 * Takes mmap_lock, and waits with it for pages that are not there.
 *
 * free_callback must not be NULL.  It runs when the kernel changes the process's mapping of
 * the pin's first page: when the memory is freed, its context destroyed or the process has
 * ended, and also where the page stays (mprotect(), reclaim).  A change of other pages is
 * not noticed.  It runs in put_pages, too, and may run before get_pages returns.  The
 * pages, the table and what was mapped stay good until the client frees the table.
 *
 * -EINVAL  misaligned.  -EFAULT: not all of it is memory that the process can write; the
 *          kernel's log says if it is cudaMalloc()'s.  -ENOMEM.  *page_table is NULL then.
 */
int nvidia_p2p_get_pages(u64 vaddr, u64 size, struct nvidia_p2p_page_table **page_table,
			 void (*free_callback)(void *data), void *data);

/*
 * Ends the pin by way of its callback, and waits for one that runs already, and for MMU
 * notifiers of other processes that run at this time.  Not from a callback, nor after the
 * pin's.  -EINVAL: no table that is pinned.
 */
int nvidia_p2p_put_pages(struct nvidia_p2p_page_table *page_table);

/*
 * In the free callback where that may sleep, or after it.  Unmaps what is left, and lets
 * the pages go.  -EINVAL: no such table, or it is still pinned.
 */
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *page_table);

/*
 * -EINVAL: no such table, its callback has begun, no direction; or the process has the
 * pages in its page tables with another protection than they were allocated with (the
 * kernel's log says where; nothing is checked while its mmap_lock is taken).
 * -ENOMEM, -EIO: the device cannot reach them.
 */
int nvidia_p2p_dma_map_pages(struct device *dev, struct nvidia_p2p_page_table *page_table,
			     struct nvidia_p2p_dma_mapping **map,
			     enum dma_data_direction direction);

/* Ends and frees a mapping.  -EINVAL: no such mapping. */
int nvidia_p2p_dma_unmap_pages(struct nvidia_p2p_dma_mapping *map);

/* The same, from the free callback where that may sleep, or after it. */
int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping *dma_mapping);

#endif
