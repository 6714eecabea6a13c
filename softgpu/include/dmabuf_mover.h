/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * dmabuf_mover.h - /dev/dmabuf_mover makes dma-bufs that move, are revoked, delay
 * and refuse on command: docs/mover.md says how.
 */
#ifndef DMABUF_MOVER_H
#define DMABUF_MOVER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* A new buffer of zeroes.  Its control file is /sys/kernel/debug/dmabuf_mover/NUMBER. */
struct mover_create {
	__u32 size;		/* of this struct */
	__u32 flags;		/* 0 */
	__u64 length;		/* > 0; rounded up to pages, at most 64 MiB */
	__s32 fd;		/* out: the dma-buf, close-on-exec */
	__u32 number;		/* out: never used again while the module is loaded */
};

#define MOVER_CREATE	_IOWR(0xb9, 0, struct mover_create)

#endif
