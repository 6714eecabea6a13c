/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * dmabuf.h - declarations shared by the two exporters of device memory: the static one
 * (dmabuf.c), as in NVIDIA's driver, and the dynamic one (dmabuf_dynamic.c), as in AMD's.
 *
 * Locks: mmap_lock, then a dynamic dma-buf's reservation lock, then a static one's
 * export->place, then export->lock, then the core's.
 */
#ifndef SOFTGPU_DMABUF_H
#define SOFTGPU_DMABUF_H

#include <linux/dma-buf.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include "fault.h"
#include "softgpu_kapi.h"

/* The part of an export that lies in one mapping of the process. */
struct piece {
	struct sg_pin pin;		/* valid while the export has a place */
	struct sg_movable vram;		/* of a static export */
	struct export *export;
};

struct export {
	struct mutex lock;
	struct list_head mappings;	/* under lock */
	bool gone;			/* under lock: the GPU was removed; nothing is mapped */
	bool on_pci;			/* in a BAR (no struct pages); valid while it has a place */
	bool leaving;			/* under lock; static: we are putting its pins */
	struct mutex place;		/* static: guards taking and putting its pins */
	u32 users;			/* under place: mappings and views that need its pins */
	/* fixed once it is exported */
	u64 offset;			/* of the first byte in pages[0] */
	u64 length;
	u64 *pages;			/* physical, 64 KiB each */
	struct inode *inode;		/* the dma-buf's, with a reference: to find CPU mappings */
	struct moving *moving;		/* dmabuf_move.h; NULL: static */
	u32 npieces;
	struct piece pieces[];
};

/* A mapping made by map_dma_buf: the importer's table, and the contiguous runs behind it. */
struct mapping {
	struct sg_table table;
	struct list_head node;		/* export->mappings */
	struct device *dev;
	enum dma_data_direction dir;
	bool resource;			/* mapped as a resource, not as pages */
	bool raw;			/* not mapped at all: dmabuf_raw */
	/* dynamic exports only; under the reservation lock */
	bool due;			/* the importer was asked to unmap, at `told' */
	bool late;			/* it did not in time, and the log named it */
	unsigned long told;
	u32 nruns;			/* number of runs mapped */
	struct {
		dma_addr_t addr;
		size_t length;
	} runs[];
};

/*
 * The caller ensures that the export's pins do not end meanwhile, and that nothing is
 * unmapped twice.
 */
int softgpu_export_map(struct export *x, struct device *dev, enum dma_data_direction dir,
		       struct sg_table **out);
void softgpu_export_unmap(struct export *x, struct sg_table *table);
/* Unmaps all importers' and programs' mappings. */
void softgpu_export_gone(struct export *x);
/*
 * insert: maps a page in a fault; takes x->lock, and fails if the export is gone. view:
 * sets up the VMA of a program's mapping.
 */
vm_fault_t softgpu_export_insert(struct export *x, struct vm_fault *vmf);
int softgpu_export_view(struct export *x, struct vm_area_struct *vma,
			const struct vm_operations_struct *ops);
/* Makes the dma-buf of x, whose pages are allocated.  On success the dma-buf owns x. */
struct dma_buf *softgpu_export_publish(struct export *x, const char *name,
				       const struct dma_buf_ops *ops);
/* Allocates an export for [va, va + length), widened to whole pages, with room for n pieces. */
struct export *softgpu_export_alloc(u64 va, u64 length, u32 n);
void softgpu_export_free(struct export *x);

/* dmabuf_dynamic.c */
struct dma_buf *softgpu_dynamic_export(struct sg_client *client, u64 va, u64 length);

/*
 * dmabuf_move.c.  Moves the memory of the dma-buf with this number, notifying importers;
 * see debugfs.c.
 */
int softgpu_dynamic_move(u64 number, enum sg_place to);
struct seq_file;
void softgpu_dynamic_show(struct seq_file *m);

#endif
