/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * amd_rdma.h - what a third-party kernel driver may ask of AMD's GPU driver in
 * order to let its device read and write GPU memory: the interface's version 2.0,
 * of ROCm 4.2 and later.  Version 1.0 is in include-1.0.
 *
 * The names, values, layouts and rules are those of AMD's interface; the text is
 * this project's.  A client written for one compiles against the other and sees
 * the same structs: every size and offset is asserted at the end.
 *
 * Common to all calls: they may sleep.  `pid' says whose address it is, by any thread of
 * that process; NULL is the calling process.  GPU memory is reported in CPU pages
 * (get_page_size), whatever the GPU's page size.
 */
#ifndef AMD_RDMA_H_
#define AMD_RDMA_H_

#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>

struct device;
struct pid;
struct sg_table;

/* Version 1.0 has neither of these, takes no dma_dev, and gives addresses on the bus. */
#define AMD_RDMA_MAJOR 2
#define AMD_RDMA_MINOR 0

/* Pages that are held.  The provider owns the struct: clients only read it. */
struct amd_p2p_info {
	uint64_t	va;	/* as given to get_pages */
	uint64_t	size;
	struct pid	*pid;	/* whose */
	struct sg_table	*pages;	/* DMA addresses and lengths for dma_dev; no struct pages */
	void		*priv;	/* the provider's */
};

struct amd_rdma_interface {
	/*
	 * Holds the memory behind [address, address + length), widened to whole
	 * pages, and maps it for dma_dev.  All of it must be one allocation's.
	 *
	 * free_callback(client_priv) runs, once, in the thread that takes the memory
	 * away (it was freed, its process ended, the GPU goes), with *info and its
	 * table still valid.  The client stops its device and returns soon: then all
	 * of it is released by the provider.  It must not call put_pages of that info,
	 * in the callback or after it.  Newer drivers never call it: there the memory
	 * stays until put_pages, whatever becomes of the allocation.
	 *
	 *  0        and *info is set
	 *  0        and *info is as it was: the process has no such range.  So a client
	 *           sets it to NULL before, and looks at it after
	 *  -ESRCH   no such process, or not one that uses the GPU
	 *  -EINVAL  a malformed argument
	 *  -ENOMEM  no memory, or no room in the BAR
	 *  -EIO     dma_dev cannot reach the memory
	 */
	int (*get_pages)(uint64_t address, uint64_t length, struct pid *pid,
			 struct device *dma_dev, struct amd_p2p_info **info,
			 void (*free_callback)(void *client_priv), void *client_priv);
	/* Releases what get_pages held, from any process, and sets *info to NULL.  -EINVAL: there is none. */
	int (*put_pages)(struct amd_p2p_info **info);
	/* 1: it is GPU memory of that process; 0: it is not. */
	int (*is_gpu_address)(uint64_t address, struct pid *pid);
	/* 0; *page_size is the size in bytes of the pages in which the range is reported. */
	int (*get_page_size)(uint64_t address, uint64_t length, struct pid *pid,
			     unsigned long *page_size);
};

/* Gets the interface, which is valid while the module that exports it is loaded.  Returns 0. */
int amdkfd_query_rdma_interface(const struct amd_rdma_interface **rdma);

static_assert(sizeof(struct amd_p2p_info) == 40, "size of struct amd_p2p_info");
static_assert(offsetof(struct amd_p2p_info, va) == 0, "offset of va");
static_assert(offsetof(struct amd_p2p_info, size) == 8, "offset of size");
static_assert(offsetof(struct amd_p2p_info, pid) == 16, "offset of pid");
static_assert(offsetof(struct amd_p2p_info, pages) == 24, "offset of pages");
static_assert(offsetof(struct amd_p2p_info, priv) == 32, "offset of priv");
static_assert(sizeof(struct amd_rdma_interface) == 32, "size of struct amd_rdma_interface");
static_assert(offsetof(struct amd_rdma_interface, get_pages) == 0, "offset of get_pages");
static_assert(offsetof(struct amd_rdma_interface, put_pages) == 8, "offset of put_pages");
static_assert(offsetof(struct amd_rdma_interface, is_gpu_address) == 16,
	      "offset of is_gpu_address");
static_assert(offsetof(struct amd_rdma_interface, get_page_size) == 24, "offset of get_page_size");

#endif
