/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * peer_client_test.h - /dev/peer_client_test plays the RDMA core for a peer-memory client: a program says which of
 * the client's calls is made, and what the core does when the client invalidates.  One region per open file; closing
 * it deregisters as a core does when the owner dies.
 */
#ifndef PEER_CLIENT_TEST_H
#define PEER_CLIENT_TEST_H

#include <linux/ioctl.h>
#include <linux/types.h>

enum {
	/* The client's calls.  ret: what it returned. */
	P_ACQUIRE,		/* addr, size; arg: 0 the client with invalidation, 1 the one without */
	P_GET_PAGES,		/* addr, size */
	P_DMA_MAP,		/* arg: bus << 8 | devfn, or P_NO_DEVICE, P_NO_BUS.  Out: nmap, bytes, dma, value: is the table right */
	P_DMA_UNMAP,
	P_PUT_PAGES,
	P_RELEASE,
	/* What a core does in one go. */
	P_ACTIVATE,		/* of a core that holds its lock from get_pages to here */
	P_DEREGISTER,		/* whatever is left to be called */
	/* What happens in an invalidation from now on: arg, P_ON_* */
	P_ON_INVALIDATE,
	/* Out: bytes: invalidations begun, dma: that have returned, value: the first word of the memory when they did */
	P_STATE,
	/* Out: value: 8 bytes at offset addr of the region, by the device's addresses.  ret: -EFAULT it has no such */
	P_PEEK,
	/* ret: how many clients are registered.  Out: value: the first one's flags, ~0: it is not extended */
	P_CLIENTS,
};

#define P_NO_DEVICE	0xffffffff	/* NULL */
#define P_NO_BUS	0xfffffffe	/* a device that does no DMA */

#define P_ON_UNMAP	(1 << 0)	/* the core calls dma_unmap and put_pages in it */
#define P_ON_RELEASE	(1 << 1)	/* and release */
#define P_ON_WAIT	(1 << 2)	/* until another thread's P_DEREGISTER has returned */
#define P_ON_SLOW	(1 << 3)	/* the device takes 100 ms to stop */
#define P_CORE_LOCK	(1 << 4)	/* the core has a lock that it holds from get_pages to P_ACTIVATE, around P_DEREGISTER and here */
#define P_LATE		(1 << 5)	/* the context is still known while P_DEREGISTER runs */

struct peer_client_call {
	__u32 op;
	__u32 arg;
	__u64 addr, size;
	__s32 ret;
	__u32 nmap;
	__u64 bytes, dma, value;
};

#define PEER_CLIENT_CALL _IOWR(0xba, 0, struct peer_client_call)

/* For bench/peer.c: one registration and its end, in steps of the time stamp counter for each of the client's calls. */
enum { PB_ACQUIRE, PB_GET_PAGES, PB_DMA_MAP, PB_DMA_UNMAP, PB_PUT_PAGES, PB_RELEASE, PB_STEPS };
struct peer_client_bench {
	__u64 addr, size;
	__u32 card;		/* bus << 8 | devfn */
	__u32 nmap;		/* out */
	__u64 ticks[PB_STEPS];	/* out */
};

#define PEER_CLIENT_BENCH _IOWR(0xba, 1, struct peer_client_bench)

#endif
