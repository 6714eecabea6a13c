/* SPDX-License-Identifier: MIT */
/*
 * backend.h - back-ends: the ways to pin memory, one file each.
 *
 *	kernel.c	peerdma.ko: pins, revokes, maps for devices
 *	soft.c		the software GPU that softgpu's libcuda has inside this process
 *	dmabuf.c	CUDA's export of its memory
 *	staging.c	a copy of GPU memory, for PEERDMA_STAGING
 *	locked.c	host memory, kept resident by mlock(2)
 *	segments.c	several pins of one of these, for a range that spans allocations
 *
 * select.c tries one after the other; from then on the calls of peerdma.h use the
 * one that pinned.  A function that is NULL is one that the back-end does not support:
 * -EOPNOTSUPP.
 */
#pragma once

#include "internal.h"

struct backend {
	const char *name;	/* in PEERDMA_PROVIDER and peerdma_status */
	bool direct;		/* devices, or what stands for them, reach the memory itself */
	bool host;		/* pins host memory only */
	enum ends ends;		/* how the library learns that a pin's memory goes away */
	bool view_is_memory;	/* a view is the process's memory: ibv_reg_mr() takes it */
	/* -ENXIO may be because the range spans allocations: segments.c tries each by itself */
	bool one_allocation;

	/* Once for each context.  0, or -errno with text: this context does without.  NULL: always there. */
	int (*open)(struct peerdma *ctx);
	/*
	 * NULL, or: whether the process has what pin() needs besides suitable memory.  0, or -errno with text.  It may
	 * change, so pin() asks too.
	 */
	int (*ready)(void);
	/* Of a context that has it, and if it is ready: what decides, or what it does, for peerdma_components(). */
	void (*describe)(struct peerdma *ctx, struct peerdma_component *c);
	/* owner: not in a forked child, which gives back its copies only. */
	void (*close)(struct peerdma *ctx, bool owner);

	/*
	 * What was asked for is set in the region.  Fills in validity, offset, pinned_length,
	 * page_size, provider and its own part.  0, or -errno with the reason: after -ENXIO,
	 * -EOPNOTSUPP and -ENODEV (it does not support this memory) the next back-end is tried;
	 * any other errno is final.  region_revoked() may be called from now on.
	 */
	int (*pin)(struct peerdma_region *region);
	/* Only the pin: this process's views and mappings have been ended, or will be.  No region_revoked() after it. */
	int (*unpin)(struct peerdma_region *region);
	/* NULL: what the library itself knows is all.  Overwrites what it knows better. */
	int (*status)(struct peerdma_region *region, struct peerdma_status *status);

	/* *out: malloc()ed, with handle, count and ranges. */
	int (*map)(struct peerdma_region *region, const char *pci, struct peerdma_map_args *args,
		   struct peerdma_mapping **out);
	int (*unmap)(struct peerdma_mapping *mapping);

	/* pinned_length bytes, in one piece, which no child gets. */
	int (*view)(struct peerdma_region *region, bool writable, void **base);
	void (*view_end)(struct peerdma_region *region, void *base);
	/* NULL, or: the same at base, instead of what is mapped there; if it fails, something without access is. */
	int (*view_at)(struct peerdma_region *region, bool writable, void *base);

	/*
	 * NULL, or: a descriptor of [offset, offset + length) of the pinned bytes (both 0: all) whose mapping has struct
	 * pages; flags: PEERDMA_PAGE_VIEW_*.  device: NULL, or domain, bus and devfn of one that must reach them.
	 */
	int (*pages)(struct peerdma_region *region, unsigned int flags, uint64_t offset,
		     uint64_t length, const struct peerdma_map_args *device, int *fd);

	/* NULL, or: the region is a copy, and this moves bytes to it, or back. */
	int (*move)(struct peerdma_region *region, uint64_t offset, uint64_t length, bool back);
	/* NULL, or: instead of unpin(), in a forked child: gives back its copies. */
	void (*forget)(struct peerdma_region *region);

	int (*export)(struct peerdma_region *region, uint64_t offset, uint64_t length, int *fd);

	/*
	 * NULL, or, of a back-end with events of its own: list() adds the region to those that
	 * event() finds, unlist() removes it.  Lock.  list: false: out of memory.
	 */
	bool (*list)(struct peerdma_region *region);
	void (*unlist)(struct peerdma_region *region);
	/* The next event that is about a region in the list: 0; -EAGAIN: there is none; or -errno. */
	int (*event)(struct peerdma *ctx, struct peerdma_notice *notice);

	/* NULL, or: when the library is loaded, if the environment names the back-end. */
	void (*early)(void);
};

extern const struct backend backend_kernel, backend_soft, backend_dmabuf, backend_locked,
	backend_staging;
extern const struct backend backend_segments;	/* in no list of choices */

static inline void region_set_backend(struct peerdma_region *region, const struct backend *backend)
{
	region->backend = backend;
	region->ends = backend->ends;
}

/* segments.c: pins by this back-end, in one or, where it pins only one allocation at a time, in several. */
int segments_or_one(struct peerdma_region *region, const struct backend *backend);
/* dmabuf.c: what CUDA's refusal to export means. */
int cuda_dmabuf_error(int error);
/* The back-end that pins the memory itself. */
static inline const struct backend *pinned_by(const struct peerdma_region *region)
{
	return region->segments ? region->segments[0]->backend : region->backend;
}

/* select.c: opens what the environment and the flags name; 0 if there is any. */
int backends_open(struct peerdma *ctx);
/* The same, but that there may be none; then, or after an error, peerdma_components() has the reasons. */
int backends_try(struct peerdma *ctx);
void backends_close(struct peerdma *ctx, bool owner);
/* Pins by the first that can; the region says which and why not one before.  Back-ends call ctx->pin(). */
int backends_pin(struct peerdma_region *region);
/* NULL: the context has it; or why not. */
const char *backend_refused(const struct peerdma *ctx, const struct backend *backend);
/* A text that lives as long as the context.  NULL: there is nothing in it, or no memory. */
const char *reason_keep(struct peerdma *ctx, const char *text);
/* backend.c: the part of a region that a dma-buf is asked for.  0 or -EINVAL. */
int check_export(const struct peerdma_region *region, uint64_t offset, uint64_t length);
/* The error of a part for which check_export() is not 0.  -EINVAL. */
int refuse_export(const struct peerdma_region *region, uint64_t offset, uint64_t length);
/* backend.c: for a call that the region's back-end does not have. */
int backend_cannot(const struct peerdma_region *region, const char *call, const char *what);

/* backend.c: for memory that the GPU's driver does not pin, though CUDA exports it.  -ENXIO. */
int fail_not_capable(struct peerdma_region *region);

/*
 * event_queue.c: a back-end's word that the region's memory goes away: from here on it is
 * not valid, and its notice waits.  Once.
 */
void region_revoked(struct peerdma_region *region);
