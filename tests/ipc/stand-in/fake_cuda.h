/* SPDX-License-Identifier: MIT */
/*
 * fake_cuda.h - a stand-in for libcuda.so.1 with the calls that peerdma_ipc.h makes.  Its memory
 * is files in memory, so that other processes can open it; a thread runs what is on streams.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fake_ipc_cuda {
	void *context;			/* the current one, of all threads; NULL: none */
	int device;			/* its */
	int destroyed;			/* it was destroyed, and is still current */
	int shareable;			/* memory is made as by cuMemCreate(), and of no context */
	/* What calls fail with. */
	int get_error, open_error, close_error, copy_error, sync_error, stream_error, wait_error, write_error, module_error, kernel_error, batch_error, rows_error, query_error, register_error;
	/* Counted, in any thread. */
	_Atomic unsigned int opens, closes, registered, unregistered, launched, modules, kernels, copies, batches, rows, streams, looks, polls;
	_Atomic unsigned int polled;	/* commands done by it */
	/* The kernel that polls ends after that many looks, a random number below this, or at once. */
	_Atomic unsigned int poll_looks, poll_ends;
	_Atomic unsigned int poll_held;	/* it does not begin */
	/* A thread records a graph: calls that are unsafe there fail in threads that do not bear it, and are counted. */
	_Atomic unsigned int capturing, unsafe;
	_Atomic unsigned int wrong;	/* launches with dimensions that CUDA refuses */
	_Atomic unsigned int crossing;	/* copies that pass the end of a memory's, into another's or none */
	_Atomic unsigned int in_callback;	/* calls in a callback, where CUDA allows none */
	/* Called by each open, which fails with what it returns.  NULL: none. */
	int (*opening)(void);
	/* Called by each question what a pointer is.  NULL: none. */
	void (*looking)(void);
	size_t less;			/* an open maps that many bytes less than there are */
	/* Called by each call that changes a thread's mode of capture, as the library does when it opens or closes memory.  NULL: none. */
	void (*exchanging)(void);
	/* Called by each call that makes a stream.  NULL: none. */
	void (*creating)(void);
};

extern struct fake_ipc_cuda fake_ipc_cuda;

/* An error if a graph is recorded, and this thread does not bear what is unsafe then. */
int fake_unsafe(void);

int cuMemAlloc_v2(unsigned long long *ptr, size_t size);
int cuMemFree_v2(unsigned long long ptr);
int cuStreamCreate(void **stream, unsigned int flags);
int cuStreamSynchronize(void *stream);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t length, void *stream);
