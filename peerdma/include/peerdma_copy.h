/* SPDX-License-Identifier: MIT */
/*
 * peerdma_copy.h - libpeerdma: copy through a CPU view, and order the bytes.
 *
 * A view of GPU memory (peerdma_cpu_view() of peerdma.h) is write-combined: the CPU collects
 * stores in a few line-sized buffers and sends a full one as one transaction.  Loads are not
 * cached; each is a round trip over the bus.  memcpy() is correct there, and slow in both
 * directions.  These calls use whole lines and the CPU's streaming instructions.
 *
 *	peerdma_cpu_view(region, &view);
 *	peerdma_copy_to_view(view, data, n);
 *	peerdma_view_fence();
 *	... ring the device's doorbell, or launch a kernel ...
 *
 * The calls take no lock, allocate nothing and keep no state.  Any thread and any signal
 * handler may call them, except peerdma_flush_inbound(), which calls CUDA.  If the memory is
 * revoked during a copy the thread gets SIGBUS, as from any access.
 */
#ifndef PEERDMA_COPY_H
#define PEERDMA_COPY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Copies n bytes into a view.  The pointers need no alignment; the ranges must not overlap.
 * Writes no byte outside [view, view + n) and reads none, so it is correct on uncached and on
 * ordinary memory, too.  Until peerdma_view_fence(), other devices may see the bytes late and
 * in any order, also relative to this thread's stores through other mappings.
 */
void peerdma_copy_to_view(void *view, const void *from, size_t n);

/*
 * Copies n bytes out of a view.  Reads what devices and other CPUs wrote before the call.  On
 * ordinary memory it is an ordinary copy.
 */
void peerdma_copy_from_view(void *to, const void *view, size_t n);

/*
 * The instruction set in use: "avx512", "avx2", "sse2", "movdir64b", "neon" or "plain": the
 * best of the CPU, or the one that PEERDMA_COPY in the environment names, if the CPU has it.
 * A constant; never NULL.
 */
const char *peerdma_copy_method(void);

/*
 * Sends what this thread stored through views, before any later store of the thread: a doorbell
 * that it rings afterwards, and work that a CUDA call submits afterwards, find the data.  The
 * cost is that of emptying the CPU's buffers.  Stores of other threads are not covered.
 *
 * "An implementation should ensure that all writes to the GPU BAR happen before control is
 * returned to the CPU thread which will invoke the dependent CUDA API" (GPUDirect RDMA,
 * Synchronization and Memory Ordering).
 */
static inline void peerdma_view_fence(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dsb st" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#define PEERDMA_FLUSH_TO_OWNER	100	/* for the GPU that owns the memory; values of CUDA's driver API */
#define PEERDMA_FLUSH_TO_ALL	200	/* for every device that reaches that memory */

/*
 * Makes other devices' writes into the memory of the current context's GPU visible to what the
 * GPU runs now, if this thread has seen the writes complete.  Calls CUDA and may block.
 *
 * Only a kernel that is already running and waits for the data needs it: "despite a third
 * party device having issued all PCIe transactions, a running GPU kernel or copy operation
 * may observe stale data or data that arrives out-of-order until a subsequent CPU initiated
 * CUDA work submission or synchronization API".  Work that this thread submits later sees the
 * data without it.  For a GPU that keeps the order by itself for that scope the call returns
 * 0 without asking it.
 *
 * scope: PEERDMA_FLUSH_TO_OWNER or PEERDMA_FLUSH_TO_ALL.
 *
 *   -EINVAL      scope
 *   -ENODEV      no CUDA in this process, no cuInit(), or no current context
 *   -EOPNOTSUPP  this driver or GPU cannot flush: synchronize or submit work instead
 *   -EIO         CUDA failed; the text has CUDA's error number
 */
int peerdma_flush_inbound(int scope);

#ifdef __cplusplus
}
#endif

#endif
