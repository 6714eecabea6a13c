/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * softgpu.h - declarations shared by the files of softgpu.ko.
 *
 * Locks: files_lock (file.c) or an export's (dmabuf.c), then the core's. devices_lock
 * (gpus.c) is held to change the table of devices; no other lock is taken inside it.
 *
 * Waits on behalf of a process: those of the core are listed in core/memory/memory.h.  Those here are,
 * killable: for importers of a dma-buf that is moved (dmabuf_move.c, wait_told()).  And
 * bounded: for their fences (10 s), for a command under way when a dma-buf ends
 * (dmabuf_timeout_ms), for a page fault of an engine (hostcopy.c, 30 s), for a client's
 * callback (the personalities' puts), for a get_pages that still fills in a pin (`filled'),
 * and for delays that root has set by knobs.
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <linux/types.h>
#include "softgpu_kapi.h"

struct dentry;
struct dev_pagemap;
struct device;
struct mm_struct;
struct pid;

/* ---- device.c: a GPU, wherever its VRAM is ---- */

struct softgpu_device {
	struct softgpu_backing backing;
	void *vram;			/* the kernel's mapping of VRAM */
	u64 (*phys)(void *device, u64 offset);
	struct device *parent;		/* NULL: none */
	u8 uuid[16];
	struct dev_pagemap *pagemap;	/* pages.c; NULL: no generic pages */
	void *p2pmem;			/* p2pdma.c; NULL: no pages of p2pdma */
	/* device.c sets the fields from here on */
	u32 index;
	struct dentry *debugfs;
};

/* Checks the module parameters; nothing to undo. */
int softgpu_device_init(void);
/* The caller has filled in the first part, and keeps the struct until it has removed the device. */
int softgpu_device_add(struct softgpu_device *device);
/* When it returns, nothing touches VRAM. */
void softgpu_device_remove(struct softgpu_device *device);

/* ---- pages.c: struct pages for VRAM in a BAR ---- */

/* Checks the module parameter; nothing to undo. */
int softgpu_pages_init(void);
/*
 * add: after the BAR was mapped, and before the GPU is published.  0: also if the parameter
 * is off. remove: waits for everything that has a reference to the page map.
 */
int softgpu_pages_add(struct softgpu_device *device, int bar);
void softgpu_pages_remove(struct softgpu_device *device);

/*
 * p2pdma.c: pages of p2pdma for the BAR that is the device's memory.  add: 0, or -errno: there
 * are none. remove: after such an add; waits as softgpu_pages_remove() does.
 */
int softgpu_p2pdma_add(struct softgpu_device *device, int bar);
void softgpu_p2pdma_remove(struct softgpu_device *device);

/* ---- gpus.c: the table of GPUs ---- */

/* Checks its module parameters; nothing to undo. */
int softgpu_gpus_init(void);
extern char *softgpu_name;		/* that all GPUs report */
extern unsigned int softgpu_driver;	/* the release of NVIDIA's driver */

extern struct sg *softgpu_sg;

/* The index is set.  remove: it may belong to another GPU already. */
void softgpu_table_add(struct softgpu_device *device);
void softgpu_table_remove(struct softgpu_device *device);
/* Returns whether the device with this index was added completely. */
bool softgpu_device_ready(u32 index);
/*
 * Returns whether the VRAM of the GPU with this index is in a BAR; also false if the GPU is
 * gone.
 */
bool softgpu_gpu_has_bar(u32 index);

/* ---- file.c: /dev/softgpuN ---- */

int softgpu_file_init(void);
void softgpu_file_uninit(void);
int softgpu_file_add(const struct softgpu_device *device);
void softgpu_file_remove(const struct softgpu_device *device);

/* The hide of struct sg_gpu_desc. */
void softgpu_file_hide(void *priv, const void *proc_key, u64 va, u64 length);

/* ---- view.c: memory that the CPU sees at its own address ---- */

int softgpu_view_mmap(struct sg_client *client, struct vm_area_struct *vma);

/* ---- hostmem.c: write-combined host memory ---- */

int softgpu_hostmem_mmap(struct vm_area_struct *vma);
int softgpu_managed_mmap(struct vm_area_struct *vma);

/* ---- hostcopy.c: engines reach a program's memory ---- */

/* The cookie is the program's mm, on which a reference (mmgrab) is held. */
extern const struct sg_host_ops softgpu_host_ops;
/* A client was closed while its fetch was under way.  May wait for other such fetches. */

/* A program's memory, as the core's cookie; its user, whose fetches are counted. */
struct softgpu_user;
struct softgpu_host {
	struct mm_struct *mm;
	struct softgpu_user *user;
};

/* The current process's; -ENOMEM.  A fetch that is left behind has references of its own. */
int softgpu_host_init(struct softgpu_host *host);
void softgpu_host_uninit(struct softgpu_host *host);

/* ---- dmabuf.c: device memory as a dma-buf ---- */

struct softgpu_dmabuf;
/* SOFTGPU_DMABUF on behalf of a client; the new descriptor goes to *ufd. */
int softgpu_dmabuf_call(struct sg_client *client, const struct softgpu_dmabuf *a, s32 __user *ufd);

/* export.c: faults of a driver's exports. */
struct softgpu_fault;
extern struct softgpu_fault softgpu_dmabuf_raw, softgpu_dmabuf_whole;

/* ---- debugfs.c: /sys/kernel/debug/softgpu/N ---- */

void softgpu_debugfs_init(void);
void softgpu_debugfs_uninit(void);
void softgpu_debugfs_add(struct softgpu_device *device);
void softgpu_debugfs_remove(struct softgpu_device *device);

/* ---- chaos.c: /sys/kernel/debug/softgpu/chaos; removed with its parent ---- */

void softgpu_chaos_init(struct dentry *root);

/* ---- where VRAM comes from ---- */

int softgpu_pci_init(void);
void softgpu_pci_uninit(void);
/*
 * blocks.c: allocates zeroed memory, a multiple of 64 KiB; returns its kernel address, or NULL.
 * charged: to the cgroup of the calling process.
 */
void *softgpu_blocks_alloc(u64 length, bool charged);
void softgpu_blocks_free(void *memory);
u64 softgpu_blocks_phys(const void *memory, u64 offset);
int softgpu_sysmem_init(void);
void softgpu_sysmem_uninit(void);

#endif
