/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * fpga_ioctl.h - an FPGA card with a DMA engine, as user space sees it:
 * /dev/fpgaN.
 *
 * The card has a buffer of its own and an engine that copies bytes between that buffer and
 * any bus address.  COPY copies a range of the caller's memory, on a GPU or in host memory,
 * through the buffer to another range.
 *
 * Every user may open the node: a card reaches only memory that the caller could pin itself
 * (its own GPU allocations, its own host memory within RLIMIT_MEMLOCK), and only for as
 * long as the call lasts.
 *
 * Rules, the same for every call:
 *
 * - The first field is `size`, the struct's size as the caller knows it.  It may
 *   be longer than the kernel's if the surplus is zero (else E2BIG), never
 *   shorter than the first release's (EINVAL).
 * - Unknown flags and non-zero reserved fields are EINVAL.
 * - Sizes and lengths are bytes.  Addresses are u64.
 * - INFO changes nothing.  COPY is the exception to "a call that fails has
 *   changed nothing": after an error, `done` bytes from the start of the range
 *   have arrived, and all out fields are valid.
 *
 * errno, one meaning each:
 *   EINVAL      malformed: size, flags, reserved field, zero or wrapping length, overlapping ranges, no dma-buf
 *   EBADF       no open file has this descriptor
 *   EACCES      dst_fd is open for reading only
 *   E2BIG       the struct's surplus bytes are not zero
 *   ENOTTY      no such call
 *   EFAULT      the argument cannot be read or written, or a host range has no memory behind it
 *   ENODEV      the card was removed
 *   EINTR       a signal came; call again for the rest
 *   ECANCELED   the memory of one end was freed under the copy (`revoked` says which)
 *   ETIMEDOUT   a transfer did not end in time: the card is cut off from the bus
 *   EIO         the card is still busy with a transfer that timed out earlier
 * and what peerdma says to the pin or the mapping of one end: ENXIO, ENOMEM,
 * ENOSPC, EOPNOTSUPP (see peerdma_ioctl.h).
 */
#ifndef FPGA_IOCTL_H
#define FPGA_IOCTL_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/ioctl.h>
#else
#include <linux/types.h>
#include <sys/ioctl.h>
#endif

#define FPGA_ABI		1
#define FPGA_PROVIDER_NAME	16

/* IOMMU between the card and memory (fpga_info.iommu). */
#define FPGA_IOMMU_NONE		0	/* DMA addresses are bus addresses */
#define FPGA_IOMMU_PASSTHROUGH	1	/* the same: an IOMMU passes them through */
#define FPGA_IOMMU_TRANSLATING	2	/* DMA addresses are IOVAs of this card */

#define FPGA_STATE_READY	0
#define FPGA_STATE_BUSY		1	/* a transfer is under way */
#define FPGA_STATE_CUT_OFF	2	/* after a timeout, until the engine is idle */

/* Properties and counters of the card. */
struct fpga_info {
	__u32 size;
	__u32 flags;		/* in: 0 */
	__u32 abi;		/* out: FPGA_ABI */
	__u32 index;		/* out: the N of /dev/fpgaN */
	__u32 pci_domain;
	__u32 pci_bus;
	__u32 pci_devfn;
	__s32 numa_node;	/* out: -1: unknown */
	__u32 iommu;		/* out: FPGA_IOMMU_* */
	__u32 state;		/* out: FPGA_STATE_* */
	__u32 buffer_size;	/* out: the card's own memory */
	__u32 max_transfer;	/* out: most bytes of one transfer */
	__u32 pins;		/* out: held by this card now */
	__u32 mappings;		/* out: held by this card now */
	__u64 transfers;	/* begun; this and below: out, since the card was probed */
	__u64 interrupts;
	__u64 bytes_read;	/* from the bus into the card */
	__u64 bytes_written;	/* from the card to the bus */
	__u64 revocations;	/* pins revoked during a copy */
	__u64 timeouts;
};

/* One end of a copy, as the card saw it. */
struct fpga_end {
	__u64 dma_addr;		/* of the first byte; 0 unless the caller has CAP_SYS_RAWIO */
	__u64 phys_addr;	/* its CPU physical address; 0 likewise, and for a dma-buf */
	__u32 segments;		/* runs of DMA addresses */
	__u32 page_shift;	/* the provider's page */
	char provider[FPGA_PROVIDER_NAME];	/* "nvidia", "host", ... */
};

/* fpga_copy.flags: this end is in a dma-buf; its address is the offset there. */
#define FPGA_SRC_DMABUF		(1U << 0)
#define FPGA_DST_DMABUF		(1U << 1)

/* fpga_copy.revoked */
#define FPGA_REVOKED_SRC	(1U << 0)
#define FPGA_REVOKED_DST	(1U << 1)

/*
 * Copies [src, src + length) of the caller's memory to [dst, dst + length) through the
 * card.  Blocks until done.  The copies of a card take turns, for one piece each (at most
 * `max_transfer' bytes): users one after another, and the copies of a user by turns in that
 * user's.  Cards work in parallel, a thread each.
 */
struct fpga_copy {
	__u32 size;
	__u32 flags;		/* in: FPGA_*_DMABUF */
	__u64 dst;
	__u64 src;
	__u64 length;
	__u64 done;		/* out, this one and below: bytes that have arrived in dst */
	__u64 time_ns;		/* from the first pin to the last unpin */
	__u32 transfers;	/* by the engine, both directions */
	__u32 interrupts;
	__u32 revoked;		/* FPGA_REVOKED_* */
	__u32 reserved;		/* in: 0 */
	struct fpga_end from;
	struct fpga_end to;
	__s32 src_fd;		/* in: the dma-buf; 0 without the flag */
	__s32 dst_fd;
};

#define FPGA_IOC_MAGIC	0xb7
#define FPGA_IOC(nr)	_IOC(_IOC_READ | _IOC_WRITE, FPGA_IOC_MAGIC, nr, 0)

#define FPGA_INFO	FPGA_IOC(0x00)	/* fpga_info */
#define FPGA_COPY	FPGA_IOC(0x01)	/* fpga_copy */

#endif
