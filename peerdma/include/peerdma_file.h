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
 * Everything else goes through a buffer in host memory: parts that are not aligned as the disk
 * demands, files that cannot be read so, memory without struct pages.  The counters say how many
 * bytes went which way, and why.
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

/* No other thread may be in a call with this file.  NULL is ignored. */
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
	/* bytes that the disk moved to or from GPU memory; and holes of the file, which the kernel fills with zeros */
	uint64_t direct;
	uint64_t copied;	/* bytes of GPU memory that went through host memory */
	uint64_t host;		/* bytes to and from host memory that the caller gave */
	char disk[64];		/* PCI address of the file's (first) controller; "": not known */
	char why[160];		/* why bytes were copied last; "": none were */
};

/*
 * What the file's transfers have been so far.
 *
 *   -EINVAL, -E2BIG  out->size
 */
int peerdma_file_counters(struct peerdma_file *file, struct peerdma_file_counters *out);

#ifdef __cplusplus
}
#endif

#endif
