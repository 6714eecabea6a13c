/* SPDX-License-Identifier: MIT */
/*
 * peerdma_copy.h - libpeerdma: bytes through a CPU view, and in which order they
 * arrive.
 *
 * A view of GPU memory (peerdma_cpu_view() of peerdma.h) is write-combined:
 * the CPU gathers stores in a few line-sized buffers and sends each as one
 * transaction if it is full; loads are not cached, and each is a round trip over
 * the bus.  memcpy() is correct there, and slow both ways.  These calls use whole
 * lines and the CPU's streaming instructions.
 *
 *	peerdma_cpu_view(region, &view);
 *	peerdma_copy_to_view(view, data, n);
 *	peerdma_view_fence();
 *	... ring the device's bell, or launch a kernel ...
 *
 * No call here takes a lock, allocates, or keeps anything; all may be made from
 * any thread, and from signal handlers.  When the memory behind a view is
 * revoked in mid-copy the thread gets SIGBUS, as from any other touch.
 */
#ifndef PEERDMA_COPY_H
#define PEERDMA_COPY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Copies n bytes into a view.  Neither pointer need be aligned; they must not
 * overlap.  No byte outside [view, view + n) is written, and none is read: it is
 * as correct on uncached and on ordinary memory.  Other devices, and later
 * stores of this thread through other mappings, may see the bytes in any order
 * and late: until peerdma_view_fence().
 */
void peerdma_copy_to_view(void *view, const void *from, size_t n);

/*
 * Copies n bytes out of a view.  What devices or other CPUs wrote before the call
 * is what is read.  On ordinary memory this is an ordinary copy.
 */
void peerdma_copy_from_view(void *to, const void *view, size_t n);

/*
 * The instructions in use: "avx512", "avx2", "sse2", "movdir64b", "neon" or
 * "plain".  The best that the CPU has, unless PEERDMA_COPY in the environment
 * names another (one that the CPU lacks is ignored).  Never NULL.
 */
const char *peerdma_copy_method(void);

/*
 * All that this thread stored through views has left the CPU, in an order that
 * later stores of the thread keep: a doorbell that is rung after it, and work that
 * a CUDA call submits after it, find the data.  Costs what is still in the
 * CPU's buffers.  It says nothing of stores by other threads.
 *
 * "An implementation should ensure that all writes to the GPU BAR happen before
 * control is returned to the CPU thread which will invoke the dependent CUDA API"
 * (GPUDirect RDMA, Synchronization and Memory Ordering).
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

#define PEERDMA_FLUSH_TO_OWNER	100	/* for the GPU whose memory it is: numbers of CUDA's driver API */
#define PEERDMA_FLUSH_TO_ALL	200	/* for every device that reaches that memory */

/*
 * Writes by other devices into the memory of the current context's GPU, whose
 * completion this thread has seen, are visible to what the GPU runs now.
 *
 * Needed only for a kernel that is running already and waits for the data:
 * "despite a third party device having issued all PCIe transactions, a running
 * GPU kernel or copy operation may observe stale data or data that arrives
 * out-of-order until a subsequent CPU initiated CUDA work submission or
 * synchronization API".  Work that this thread submits later sees the data
 * without it.  A GPU that keeps the order by itself for that scope is not asked:
 * the call then returns 0 at once.
 *
 * scope: PEERDMA_FLUSH_TO_OWNER or PEERDMA_FLUSH_TO_ALL.
 *
 *   -EINVAL      scope
 *   -ENODEV      no CUDA in this process, it was not initialised, or no current context
 *   -EOPNOTSUPP  this driver or GPU cannot flush: synchronize or submit work instead
 *   -EIO         CUDA failed; peerdma_last_error() has its error number
 */
int peerdma_flush_inbound(int scope);

#ifdef __cplusplus
}
#endif

#endif
