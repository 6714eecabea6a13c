/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * amd_rdma_test.h - between amd_rdma_test.ko, a client of amd_rdma_interface that does
 * what it is told, and the programs that tell it.
 *
 * The module has slots; each holds what one get_pages gave.  The interface's own
 * return value comes back in `ret'; the ioctl itself fails only when the operation
 * makes no sense.
 */
#ifndef AMD_RDMA_TEST_H
#define AMD_RDMA_TEST_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define AMD_RDMA_TEST_DEVICE	"amd_rdma_test"
#define AMD_RDMA_TEST_SLOTS	16

enum amd_rdma_test_op {
	A_VERSION = 1,		/* out: value, 1 or 2: of the interface that the module was built for */
	A_GET,			/* va, length, pid, bdf; flags */
	A_PUT,			/* flags: which pointer */
	A_IS_GPU,		/* va, pid */
	A_PAGE_SIZE,		/* va, length, pid; out: value */
	A_STATE,		/* the slot's */
	A_SEGMENTS,		/* data: u64 pairs of address and length, `length' of them */
	A_PEEK,			/* data: `length' bytes from va, an offset in the slot's memory */
	A_POKE,
	A_ON_CALLBACK,		/* value: C_* */
	A_RELEASE,		/* lets a callback go that waits by C_WAIT */
	A_RESET,		/* puts and forgets all that is left */
};

/* flags */
#define W_NULL_INFO	0x1	/* nowhere for the info to go; of put: NULL */
#define W_NULL_DEVICE	0x2	/* 2.0: no dma_dev */
#define W_STALE		0x4	/* put: the info that the slot had last */
#define W_EMPTY		0x8	/* put: a pointer to NULL */

/* What a callback does besides looking at its info. */
#define C_PUT		0x1	/* puts it: forbidden */
#define C_WAIT		0x2	/* until A_RELEASE, or ten seconds */

struct amd_rdma_test_call {
	__u32 op;
	__u32 slot;
	__u64 va;
	__u64 length;
	__u64 data;
	__u64 value;
	__u32 flags;
	__s32 pid;		/* 0: NULL; else a thread's, of the caller's namespace */
	__u32 bdf;		/* 2.0: domain << 16 | bus << 8 | devfn; 0: a device without an IOMMU */
	__s32 ret;
	/* out: the slot after the operation */
	__u32 has_info;		/* *info is set */
	__u32 untouched;	/* GET: *info is what the client had put there */
	__u64 info_va, info_size;
	__u32 info_pid;		/* of its thread group, or the thread's; 0: none */
	__u32 segments;
	__u64 bytes;		/* of all segments */
	__u32 callbacks;	/* begun */
	__u32 callbacks_done;
	__u32 callback_tid;
	__u32 callback_valid;	/* info and table were as before, the memory readable */
	__u32 callback_word;	/* what stood there */
	__s32 callback_ret;	/* of C_PUT */
	__u32 translated;	/* the addresses are not the bus's */
};

#define AMD_RDMA_TEST_CALL	_IOWR(0xb7, 0x10, struct amd_rdma_test_call)

#endif
