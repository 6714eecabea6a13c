/* SPDX-License-Identifier: MIT */
/*
 * fake_cuda.h - a stand-in for libcuda.so.1 with those functions that
 * libpeerdma calls.  It manages no memory: the test says what is where.
 */
#pragma once

#include <stddef.h>

struct fake_memory {
	unsigned long long base;	/* CUDA's range */
	size_t size;
	unsigned long long mapping_base;	/* of cuMemMap; 0: as the range */
	size_t mapping_size;
	unsigned int type;	/* CUmemorytype: 1 host, 2 device */
	unsigned int managed;
	void *context;		/* NULL: cuMemMap's or a pool's */
	unsigned long long id;
	int device;
	void *pool;
	int no_sync_memops;	/* as cuMemCreate's */
	int sync_memops;	/* out: was set */
	unsigned int rdma_capable;	/* of what cuMemAlloc() did not make */
};

struct fake_cuda {
	int state;		/* what each call returns: 3 before cuInit(), 0 after, else an error */
	int old;		/* a driver that does not know the newer attributes */
	int calls;		/* of cuPointer* */
	int from_start;		/* dma-bufs only from the start of an allocation on */
	int export_error;	/* what an export as dma-buf fails with; 0: it works */
	int one_by_one;		/* no export over several allocations */
	int copy_error;		/* of cuMemcpy, likewise */
	int capturing;		/* a thread records a graph: what is unsafe there fails in threads that do not bear it */
	int capture_mode;	/* of all threads: 0 "global", the default; 2 "relaxed" */
	int pci_error, device_error;	/* of cuDeviceGetPCIBusId() and cuDeviceGet(), likewise */
	/* What each call of a flush returns, what the device says of itself, and what it was asked for. */
	int context_error, ordering_error, ordering, options_error, options, flush_error;
	int flushes, flush_target, flush_scope, device_asked;
	int no_views;		/* its dma-bufs cannot be mapped */
	int reallocate;		/* the next one is of memory that changes hands meanwhile */
	int exports;		/* counted */
	/* The base of an allocation that another thread is unmapping: NVIDIA's libcuda may crash when it is asked about it. */
	unsigned long long leaving;
	int asked_leaving;	/* counted */
	/* Called by cuPointerGetAttributes, before and after it has looked. */
	void (*asked)(void *arg, int after);
	void *arg;
	struct fake_memory memory[64];
};

/* While other threads ask. */
void fake_cuda_put(unsigned int slot, const struct fake_memory *memory);

struct fake_cuda *fake_cuda(void);
