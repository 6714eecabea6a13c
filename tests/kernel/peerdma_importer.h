/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * peerdma_importer.h - a test module that imports dma-bufs for the DMA card in
 * each way that there is: /dev/peerdma_importer.  One attachment per open file.
 */
#ifndef PEERDMA_IMPORTER_H
#define PEERDMA_IMPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

enum importer_kind {
	IMPORTER_STATIC,	/* dma_buf_attach: cannot let go */
	IMPORTER_DYNAMIC,	/* lets go when it is told: unmaps at once */
	IMPORTER_LAZY,		/* dynamic, but keeps its mapping for the exporter to take down */
	IMPORTER_PINNING,	/* dynamic, and calls dma_buf_pin before it maps */
	IMPORTER_NO_PEER,	/* lets go, but needs struct pages */
	IMPORTER_DEAF,		/* dynamic, and cannot be told: where IMPORTER_PROMISES is 1 */
};

struct importer_attach {
	__s32 fd;
	__u32 kind;
};

struct importer_map {
	__u32 direction;	/* enum dma_data_direction */
	__u32 segments;		/* out */
	__u64 dma_addr;		/* out: of the byte at `offset' */
	__u64 length;		/* out: of all */
	__u32 pages;		/* out: it has struct pages */
	__u32 first;		/* out: the first byte of those */
	__u64 offset;		/* into the range; the bytes after it lie together up to the end of a segment */
};

/* A view of the kernel's: one per open file, attached or not. */
struct importer_view {
	__s32 fd;
	__u32 iomem;		/* out */
};

/* A byte of it. */
struct importer_peek {
	__u64 offset;
	__u32 value;		/* in or out */
	__u32 write;
};

struct importer_state {
	__u32 notified;		/* out: how often it was told to let go */
	__u32 mapped;		/* out */
};

/* How often it was told; while it is being told, too. */
struct importer_progress {
	__u32 begun, done;
};

#define IMPORTER_ATTACH	_IOW(0xb7, 0, struct importer_attach)
#define IMPORTER_MAP	_IOWR(0xb7, 1, struct importer_map)
#define IMPORTER_UNMAP	_IO(0xb7, 2)
#define IMPORTER_DETACH	_IO(0xb7, 3)
#define IMPORTER_STATE	_IOR(0xb7, 4, struct importer_state)
/* From now on, and now, to be told takes so many milliseconds. */
#define IMPORTER_SLOW	_IOW(0xb7, 5, __u32)
#define IMPORTER_PROGRESS	_IOR(0xb7, 6, struct importer_progress)
#define IMPORTER_VMAP	_IOWR(0xb7, 7, struct importer_view)
#define IMPORTER_PEEK	_IOWR(0xb7, 8, struct importer_peek)
#define IMPORTER_VUNMAP	_IO(0xb7, 9)
/* 1: who can be told promises to unmap soon after, even if he has pinned (Linux 7.1 and later); 0: he who pins keeps. */
#define IMPORTER_PROMISES	_IO(0xb7, 10)
/* Sets the width of the DMA addresses that the card can use, in bits; 0: as it was when the module was loaded. */
#define IMPORTER_BITS	_IOW(0xb7, 11, __u32)

#endif
