/* SPDX-License-Identifier: MIT */
/*
 * peerdma_file.h - libpeerdma: read files into GPU memory and write them from it.
 *
 *	struct peerdma_cache *cache;		a cache of pins: peerdma_cache_open()
 *	struct peerdma_file *file;
 *
 *	peerdma_file_open(cache, fd, 0, &file);
 *	peerdma_file_read(file, gpu_pointer, length, offset);	as pread(2)
 *	peerdma_file_close(file);
 *
 * Where it can, the disk's controller transfers to GPU memory itself (O_DIRECT into a page view,
 * docs/storage.md); the host's memory has no copy of the data, and the CPU touches none of it.
 * Everything else is copied through host memory: parts that are not aligned as the disk demands,
 * files that cannot be read so, memory without struct pages.  The counters say how many
 * bytes went which way, and why.
 *
 * peerdma_file_submit() and peerdma_file_wait() are for many transfers at a time: see below.
 *
 * The conventions of peerdma.h hold here, too.  Calls on the same file may be made by several
 * threads at once.  No lock is held while the disk works.
 */
#ifndef PEERDMA_FILE_H
#define PEERDMA_FILE_H

#include <sys/types.h>

#include "peerdma.h"
#include "peerdma_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The view lasts until it is closed and its pages are idle: PEERDMA_PAGES of peerdma_ioctl.h. */
#define PEERDMA_PAGE_VIEW_PERSISTENT	(1U << 0)

/*
 * Makes a page view of [offset, offset + length) of a region's pinned bytes: a descriptor to be
 * mapped (MAP_SHARED), whose memory has struct pages, for a program that makes its own transfers:
 * O_DIRECT, io_uring, sockets, V4L2, ibv_reg_mr().  Multiples of the CPU's page; offset 0 is
 * peerdma_status's pinned_addr; both 0: all.  *fd is the caller's; it is close-on-exec.
 *
 * pci: NULL, or a PCI device ("0000:01:00.0") that must reach the memory, or the call fails.
 *
 *   -EINVAL      flags; the range is not in the pinned bytes; pci is not an address
 *   -EOPNOTSUPP  the memory has no struct pages that may be used so; the provider has no
 *		  persistent pins; the device does not reach the memory; a region of several
 *		  segments (make one of each); a back-end other than kernel
 *   -ENXIO       the memory is another process's
 *   -ENODEV      there is no such PCI device, or no driver is bound to it
 *   -ESTALE      the memory was freed
 *   -EDQUOT, -ENOBUFS, -ENFILE  a limit: the view has a pin of its own (docs/limits.md)
 *   -ENOMEM, -EMFILE, -EPERM (a forked child)
 */
int peerdma_page_view(struct peerdma_region *region, uint64_t offset, uint64_t length,
		      unsigned int flags, const char *pci, int *fd);

struct peerdma_file;

/* A transfer that would have to be copied through host memory fails with -EOPNOTSUPP. */
#define PEERDMA_FILE_DIRECT_ONLY	(1U << 0)

/*
 * Prepares a file for transfers.  fd stays the caller's and may be closed after the call; it needs
 * no O_DIRECT, and its position is neither used nor changed.  GPU memory is pinned by `cache', a
 * cache of pins that must stay open until the file is closed.
 *
 * Locks of fcntl(2) that this process has on the file end when the file is closed here, as with
 * every close of a file; O_SYNC and O_DSYNC of fd are kept.
 *
 *   -EINVAL      flags; fd is not open for reading or writing, or is open with O_APPEND
 *   -EBADF       fd
 *   -ENOTSUP     not a regular file or a block device
 *   -ENOMEM, -EMFILE, -EPERM
 */
int peerdma_file_open(struct peerdma_cache *cache, int fd, unsigned int flags,
		      struct peerdma_file **file);

/*
 * No other thread may be in a call with this file.  NULL is ignored.  Operations of queues that are
 * under way go on; the file is closed when the last of them has ended, and the cache must stay open
 * until then.
 */
void peerdma_file_close(struct peerdma_file *file);

/*
 * As pread(2) and pwrite(2): transfer up to `length' bytes at `offset' of the file.  ptr is GPU
 * memory, or host memory.  They return the number of bytes, which is less than `length' at the end
 * of the file, on a full disk, or if an error occurs after some bytes; 0 at the end of the file.
 * Data that was read is in the memory when the call returns; work that the caller submits to the
 * GPU afterwards sees it.  Work that was submitted before must have ended: the calls do not wait
 * for streams.  A read may change memory behind the bytes that it returns, up to `length'.
 *
 *   -EINVAL      length is 0, or more than SSIZE_MAX, or wraps
 *   -ESTALE      the memory was freed during the call; then the bytes of a read are lost
 *   -EFAULT      there is no memory at ptr
 *   -EOPNOTSUPP  with PEERDMA_FILE_DIRECT_ONLY: something would have to be copied; the text
 *		  says why
 *   -EBADF       the file is not open for reading, or for writing
 *   -EIO, -ENOSPC, -EFBIG and others  as pread() and pwrite()
 *   others       as peerdma_cache_get(), if there is no way to reach the memory
 */
ssize_t peerdma_file_read(struct peerdma_file *file, void *ptr, size_t length, uint64_t offset);
ssize_t peerdma_file_write(struct peerdma_file *file, const void *ptr, size_t length,
			   uint64_t offset);

struct peerdma_file_counters {
	uint32_t size;		/* in: sizeof(struct peerdma_file_counters) */
	uint32_t reserved;	/* 0 */
	/* bytes that the disk moved to or from GPU memory; holes, which the kernel fills, included */
	uint64_t direct;
	uint64_t copied;	/* bytes of GPU memory that went through host memory */
	uint64_t host;		/* bytes to and from host memory that the caller gave */
	char disk[64];		/* PCI address of the file's (first) controller; "": not known */
	char why[160];		/* why bytes were copied last; "": none were */
};

/*
 * What the file's transfers have been so far, those of queues included.
 *
 *   -EINVAL, -E2BIG  out->size
 */
int peerdma_file_counters(struct peerdma_file *file, struct peerdma_file_counters *out);

/* ---- Many transfers at a time, without waiting for each ---- */

/*
 *	struct peerdma_file_io io = { .size = sizeof(io), .file = file, .ptr = gpu_pointer, ... };
 *	struct peerdma_file_io *ios[] = { &io }, *done[1];
 *
 *	peerdma_file_queue_open(128, 0, &queue);
 *	peerdma_file_submit(queue, ios, 1);
 *	...				the disk works; queue->fd becomes readable when it has ended
 *	peerdma_file_wait(queue, done, 1, 1, -1);	done[0] == &io; io.result is as of a read
 *
 * What the disk transfers itself is given to the kernel by io_uring; the CPU waits for nothing.
 * What has to be copied, threads of the queue copy.  Where the kernel or a filter of system calls
 * (seccomp) does not allow io_uring, as in most containers, the threads make all transfers, with
 * pread() and pwrite(): queue->why says so.
 *
 * Operations run at the same time and end in any order.  One that must not begin before another has
 * ended is submitted after it was returned.
 */

#define PEERDMA_FILE_WRITE	(1U << 0)	/* memory to file; without it: file to memory */

/* An operation.  It belongs to the queue from peerdma_file_submit() until it is returned. */
struct peerdma_file_io {
	uint32_t size;		/* sizeof(struct peerdma_file_io) */
	uint32_t flags;		/* PEERDMA_FILE_WRITE */
	struct peerdma_file *file;
	void *ptr;		/* GPU memory, or host memory */
	uint64_t length;
	uint64_t offset;	/* in the file */
	void *cookie;		/* the caller's; the library does not look at it */
	/*
	 * Set by the queue: what peerdma_file_read() or _write() returns for such a transfer, and
	 *
	 *   -ECANCELED  peerdma_file_cancel(), before any byte was transferred
	 */
	int64_t result;
};

/* Made by the library, which alone writes to it.  Later releases may add fields. */
struct peerdma_file_queue {
	/*
	 * For poll(2): readable while an ended operation waits to be returned.  It may be readable
	 * although none does: then peerdma_file_wait() with a timeout of 0 returns 0.
	 */
	int fd;
	uint32_t depth;
	/* NULL: the disk's transfers go by io_uring; or why threads make them: a text that stays */
	const char *why;
	uint64_t by_ring;	/* transfers that were given to io_uring */
	uint64_t by_threads;	/* operations that threads made, or made the rest of */
};

#define PEERDMA_FILE_QUEUE_THREADS	(1U << 0)	/* do not use io_uring */

/*
 * Opens a queue for up to `depth' operations (1 to 4096) that are submitted and not yet returned.
 * Each queue has one thread, and up to four as there is work for them; signals are blocked in them,
 * but for those of faults (SIGSEGV, SIGBUS, SIGSYS...).  A GPU's copies are made in the CUDA context
 * that was current in the thread that submitted the operation; it must exist until the operation
 * has ended.
 *
 * A thread that has submitted operations may get EINTR from system calls that the kernel does not
 * restart, such as epoll_wait(2), although no signal was delivered: io_uring wakes it.  A filter of
 * system calls that forbids io_uring must not be installed while a thread is in
 * peerdma_file_wait().  A program that closes all descriptors, as a daemon does, closes the queue's,
 * too: close the queue before.
 *
 *   -EINVAL  flags, depth
 *   -ENOMEM, -EMFILE, -ENFILE
 *   -ENOSPC  the user watches as many descriptors as one may (fs.epoll.max_user_watches)
 *   -EAGAIN  no thread: a limit of the process or of the machine
 */
int peerdma_file_queue_open(uint32_t depth, uint32_t flags, struct peerdma_file_queue **queue);

/*
 * Cancels what has not begun, waits for all else, and closes the queue; then all operations are the
 * caller's again, with their results.  No other thread may be in a call with the queue.  NULL is
 * ignored.  In a forked child it only frees the child's copy.
 */
void peerdma_file_queue_close(struct peerdma_file_queue *queue);

/*
 * Submits n operations, all or none.  Memory that is not in the file's cache is pinned in this
 * call; else it does not wait for disk or GPU.  A transfer that fails is submitted all the same and
 * has its error as result.  Any thread may submit.
 *
 *   -EINVAL  a struct's size or flags; else as peerdma_file_read(); n is larger than the depth
 *   -E2BIG   a struct's size
 *   -EAGAIN  fewer than n of the depth's places are free: return some operations first
 *   -EPERM   the queue or a file belongs to a parent process
 */
int peerdma_file_submit(struct peerdma_file_queue *queue, struct peerdma_file_io *const *ios,
			size_t n);

/*
 * Returns operations that have ended, up to `max' of them, in the order in which they ended.  Waits
 * until there are `min', but not for more than were submitted, and not longer than timeout_ms (-1:
 * without limit; 0: not at all).  Returns their number, which may be less than min, and 0.  Data that
 * was read is in the memory, and work that is submitted to the GPU from now on sees it.
 *
 * One thread waits at a time; others wait for it to return first, as long as their timeout.
 *
 *   -EINVAL  min is larger than max; max is 0 or larger than INT_MAX; timeout_ms is below -1
 *   -EINTR   a signal was handled, and no operation is returned
 *   -EBADF   the program has closed the queue's descriptors
 *   -EPERM   the queue belongs to a parent process
 */
int peerdma_file_wait(struct peerdma_file_queue *queue, struct peerdma_file_io **done, size_t min,
		      size_t max, int timeout_ms);

/*
 * Cancels operations that nothing has begun: they end, canceled, and are returned by
 * peerdma_file_wait().  What the kernel has been given is not cancelled, nor what is submitted
 * afterwards.  An operation of which the disk has transferred a part ends with the number of these
 * bytes.  Returns how many operations it has ended.
 *
 *   -EPERM  the queue belongs to a parent process
 */
int peerdma_file_cancel(struct peerdma_file_queue *queue);

#ifdef __cplusplus
}
#endif

#endif
