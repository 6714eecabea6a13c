/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * pinbench.h - /dev/pinbench: times pins of the caller's GPU memory inside the
 * kernel, by the provider's calls alone and by peerdma's.
 */
#ifndef PINBENCH_H
#define PINBENCH_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define PINBENCH_MAX_PINS	256

#define PINBENCH_PROVIDER	0	/* nvidia_p2p_get_pages, nvidia_p2p_put_pages */
#define PINBENCH_BRIDGE		1	/* peerdma_pin_user, peerdma_unpin */

/* Pins `count' ranges of `length' bytes one after the other, then unpins them all. */
struct pinbench_run {
	__u64 va;		/* the first range; the others follow it */
	__u64 length;		/* of each, a multiple of 64 KiB */
	__u32 count;
	__u32 path;		/* PINBENCH_* */
	__u64 pin_ticks;	/* out: of the time stamp counter, for all pins together */
	__u64 unpin_ticks;	/* out */
};

#define PINBENCH_RUN	_IOWR(0xb8, 0, struct pinbench_run)

#endif
