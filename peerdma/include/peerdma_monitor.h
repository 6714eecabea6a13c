/* SPDX-License-Identifier: MIT */
/*
 * peerdma_monitor.h - monitors notify a process's registration caches before and after memory is freed or unmapped.
 *
 * A registration cache must forget a buffer before its address can mean other memory. Each
 * kind of memory has one monitor in a process:
 *
 *   host    peerdma.ko, where it is loaded: the kernel itself notifies, and nothing of
 *           this header is needed. Otherwise the library redirects the system calls of the
 *           C library: munmap, mremap, mmap with MAP_FIXED, madvise (DONTNEED, FREE,
 *           REMOVE, GUARD_INSTALL), brk, shmdt and shmat. free(), malloc_trim(), the end of a
 *           thread and dlclose() come through these. It begins with the first call
 *           that needs it: a get that pins host memory for a cache of pins, a cache of the
 *           caller's own with PEERDMA_MONITOR_HOST, or peerdma_monitor_subscribe().
 *   device  libpeerdma-hooks (peerdma_hooks.h), where it is in front of CUDA or HSA
 *
 * Either can be replaced by another library's: UCX's ucm, libfabric's monitor, or a
 * program's own allocator:
 *
 *	peerdma_monitor_start(PEERDMA_MEMORY_HOST, "my allocator");	once, first of all
 *	...
 *	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, length, 0);
 *	munmap(p, length);
 *	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, length, 1);
 *
 * Any thread may call any function. A forked child inherits monitors and subscriptions.
 * A signal handler may call munmap() and the other functions above at any point, as far as caches are concerned;
 * other subscribers must allow it too. While a thread is in one of these functions, a handler must not leave it by
 * siglongjmp(), and a child of vfork() must not be killed: a cache's lock would stay locked.
 *
 * The monitor of system calls does not see:
 *   - system calls that a program makes without the C library (Go), or by the C library of another
 *     dlmopen() namespace
 *   - pages that leave a file or a shared segment by ftruncate() or fallocate()
 *   - process_madvise() by this process or another, io_uring's madvise, and userfaultfd's UFFDIO_MOVE
 *
 * It needs glibc on x86-64, a processor with cmpxchg16b, and a process that may change its code: SELinux and systemd's
 * MemoryDenyWriteExecute can forbid that.
 *
 * UCX's ucm sees less, where it is the monitor. It also misses syscall(SYS_munmap) and the like, MADV_GUARD_INSTALL,
 * remap_file_pages() and, with UCX_MEM_MMAP_HOOK_MODE=reloc, the stack of a thread that has ended.
 */
#ifndef PEERDMA_MONITOR_H
#define PEERDMA_MONITOR_H

#include <stddef.h>
#include <stdint.h>

#include "peerdma_hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PEERDMA_MEMORY_HOST	(1U << 0)
#define PEERDMA_MEMORY_DEVICE	(1U << 1)

/*
 * Replaces the library's own monitor of one kind of memory: from now on the caller calls peerdma_monitor_notify()
 * whenever such memory is freed or unmapped, and caches rely on that. This cannot be undone: the caller's library must
 * stay loaded. Call it before contexts and caches are opened. name: shown to people; it is not copied.
 *
 *   -EBUSY   another monitor of this kind was started
 *   -EINVAL  memory is not exactly one kind, or name is NULL
 */
int peerdma_monitor_start(uint32_t memory, const char *name);

/*
 * The same for host memory, with the events of UCX's libucm.so.0, which the process must have loaded.
 * Without this call ucm is used only where the library's own monitor cannot be.
 *
 *   -ENODEV      libucm.so.0 is not loaded
 *   -EOPNOTSUPP  it installs no handler, or does not report munmap(), mremap() and madvise(), which are tried
 *   -EBUSY       another monitor of host memory was started, or another thread is starting this one
 */
int peerdma_monitor_start_ucm(void);

/*
 * The memory in [ptr, ptr + length) goes away. Call it twice: before, with after 0, while the memory is
 * still there; and when it is gone, with after 1, because another thread may have
 * registered it in between. All caches of the process end what they have there; a get that begins after the
 * second call does not find it. Needs no peerdma_monitor_start().
 *
 * memory: one kind or both. It may be called inside malloc() and free(), for memory that no cache knows,
 * and in forked children. It allocates nothing; it waits only for short stretches of other threads' calls.
 * For device memory it takes the locks of contexts too, which are held across malloc(): call that
 * outside the allocator.
 */
void peerdma_monitor_notify(uint32_t memory, const void *ptr, size_t length, int after);

/*
 * Calls fn(arg, event) for each event of one kind of memory, and starts the monitor if need be.
 * event->call names the function that frees; its range is what goes, in whole pages, or more.
 * fn runs in the thread that frees, inside malloc() or free():
 * it must not allocate, free, map or unmap memory, nor wait for a thread that may. It may
 * call peerdma_cache_invalidate(). In a forked child fn is called as well. The C library's headers declare munmap() and
 * similar functions as leaf functions, so the compiler assumes that they change none of the program's variables: make
 * what fn writes atomic or volatile.
 *
 *   -EOPNOTSUPP, -EACCES  there is no monitor of this kind in this process; the text says why
 *   -ENOMEM  out of memory
 *   -EINVAL  memory is not exactly one kind, or fn is NULL
 */
int peerdma_monitor_subscribe(uint32_t memory, peerdma_hook_fn fn, void *arg);

/* The same three again. When it returns, fn is not running with arg and is not called again. Do not call it from fn. */
void peerdma_monitor_unsubscribe(uint32_t memory, peerdma_hook_fn fn, void *arg);

/* The monitor at work, for people: "libpeerdma-hooks", "system calls of the C library", "ucm"; NULL: none yet. */
const char *peerdma_monitor_name(uint32_t memory);

#ifdef __cplusplus
}
#endif

#endif
