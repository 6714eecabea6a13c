/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * dmabuf.h - between the two exporters of device memory: the static one (dmabuf.c),
 * as NVIDIA's driver is, and the dynamic one (dmabuf_dynamic.c), as AMD's.
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
#include "softgpu_kapi.h"

/* One piece: what one mapping, or one allocation, gives to an export. */
struct piece {
	struct sg_pin pin;		/* while the export has a place */
	struct sg_keep keep;		/* of a static export */
	struct export *export;
};

struct export {
	struct mutex lock;
	struct list_head mappings;	/* under lock */
	bool gone;			/* under lock: the GPU was removed, nothing is mapped any more */
	bool on_pci;			/* it has no struct pages; while it has a place */
	bool leaving;			/* under lock: of a static one, its pins are ended by us */
	struct mutex place;		/* a static one's */
	u32 users;			/* under place: mappings and views, which need its pins */
	/* fixed once it is exported */
	u64 offset;			/* of the first byte in pages[0] */
	u64 length;
	u64 *pages;			/* physical, 64 KiB each */
	struct inode *inode;		/* the dma-buf's, with a reference: CPU mappings are found by it */
	struct moving *moving;		/* dmabuf_move.h; NULL: static */
	u32 npieces;
	struct piece pieces[];
};

/* What map_dma_buf gave: the importer's table, and the stretches behind it. */
struct mapping {
	struct sg_table table;
	struct list_head node;		/* export->mappings */
	struct device *dev;
	enum dma_data_direction dir;
	bool resource;			/* mapped as a resource, not as pages */
	/* of a dynamic export, under its reservation lock */
	bool due;			/* the importer was told to let go, at `told' */
	bool late;			/* and was named, for it has not */
	unsigned long told;
	u32 nruns;			/* that are mapped */
	struct {
		dma_addr_t addr;
		size_t length;
	} runs[];
};

/* No core pin of it may end, and the caller sees to it that nothing is unmapped twice. */
int softgpu_export_map(struct export *x, struct device *dev, enum dma_data_direction dir, struct sg_table **out);
void softgpu_export_unmap(struct export *x, struct sg_table *table);
/* Takes down what importers and programs have. */
void softgpu_export_gone(struct export *x);
/* A page for a fault, with x->lock and not gone; and the attributes of a program's view. */
vm_fault_t softgpu_export_insert(struct export *x, struct vm_fault *vmf);
int softgpu_export_view(struct export *x, struct vm_area_struct *vma, const struct vm_operations_struct *ops);
/* x and its pages are filled in; on success it is the dma-buf's. */
struct dma_buf *softgpu_export_publish(struct export *x, const char *name, const struct dma_buf_ops *ops);
/* The memory that holds [va, va + length), as whole pages: x without pieces, but with room for n. */
struct export *softgpu_export_alloc(u64 va, u64 length, u32 n);
void softgpu_export_free(struct export *x);

/* dmabuf_dynamic.c */
struct dma_buf *softgpu_dynamic_export(struct sg_client *client, u64 va, u64 length);

/* dmabuf_move.c.  Moves the memory of the dma-buf with this number, telling importers; see debugfs.c. */
int softgpu_dynamic_move(u64 number, enum sg_place to);
struct seq_file;
void softgpu_dynamic_show(struct seq_file *m);

#endif
