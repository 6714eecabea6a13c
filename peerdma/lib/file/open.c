// SPDX-License-Identifier: MIT
/* open.c - peerdma_file_open(), _close() and _counters(). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/cache.h"
#include "file.h"

/* The same file once more; -1: the process may not. */
static int open_again(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

/* Alignments that fit every disk, where the kernel does not tell. */
#define ALIGN_ANY	4096U

static void find_alignment(struct peerdma_file *file)
{
	file->memory_align = ALIGN_ANY;
	file->offset_align = ALIGN_ANY;
#ifdef STATX_DIOALIGN
	struct statx x;

	if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) ||
	    !(x.stx_mask & STATX_DIOALIGN))
		return;
	if (file->direct >= 0 && !x.stx_dio_offset_align) {
		file->not_direct = "the file system has no O_DIRECT for this file";
		close(file->direct);
		file->direct = -1;
	}
	if (x.stx_dio_offset_align) {
		file->memory_align = x.stx_dio_mem_align ? x.stx_dio_mem_align : 1;
		file->offset_align = x.stx_dio_offset_align;
	}
#endif
}

static int check_fd(int fd, struct stat *s, int *mode)
{
	*mode = fcntl(fd, F_GETFL);
	if (*mode < 0 || fstat(fd, s))
		return fail(-EBADF, "peerdma_file_open: %d is no descriptor", fd);
	/* pwrite() would append, whatever the offset. */
	if (*mode & O_APPEND)
		return fail(-EINVAL, "peerdma_file_open: descriptor %d is open with O_APPEND", fd);
	if (*mode & O_PATH)
		return fail(-EINVAL, "peerdma_file_open: descriptor %d is open neither for reading nor for writing (O_PATH)", fd);
	if (!S_ISREG(s->st_mode) && !S_ISBLK(s->st_mode))
		return fail(-ENOTSUP, "peerdma_file_open: descriptor %d is neither a regular file nor a block device", fd);
	return 0;
}

/* One descriptor with O_DIRECT and one without; where only the caller's can be had, it is both. */
static int open_both(struct peerdma_file *file, int fd, int mode)
{
	int kept = mode & (O_ACCMODE | O_SYNC | O_DSYNC);

	file->direct = open_again(fd, kept | O_DIRECT);
	file->fd = open_again(fd, kept);
	file->buffered = file->fd >= 0;
	if (file->direct < 0 && mode & O_DIRECT)
		file->direct = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (file->direct < 0)
		file->not_direct = "the file cannot be opened with O_DIRECT";
	if (file->fd < 0) {
		file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		file->buffered = !(mode & O_DIRECT);
	}
	if (file->fd >= 0)
		return 0;
	if (file->direct >= 0)
		close(file->direct);
	return fail(-EMFILE, "peerdma_file_open: no descriptor: %s", error_words(-EMFILE));
}

EXPORT int peerdma_file_open(struct peerdma_cache *cache, int fd, unsigned int flags,
			     struct peerdma_file **out)
{
	struct peerdma_file *file;
	struct stat s;
	int mode, ret = check_given("peerdma_file_open", "cache", cache, "file", out, NULL);
	struct peerdma *ctx;

	if (ret)
		return ret;
	ctx = cache_pins_context(cache);
	if (!ctx)
		return fail(-EINVAL, "peerdma_file_open: the cache is no cache of pins: make it with peerdma_cache_open()");
	ret = check_owner(ctx, "peerdma_file_open");
	if (ret)
		return ret;
	if (flags & ~PEERDMA_FILE_DIRECT_ONLY)
		return fail(-EINVAL, "peerdma_file_open: unknown flags 0x%x", flags);
	ret = check_fd(fd, &s, &mode);
	if (ret)
		return ret;
	file = calloc(1, sizeof(*file));
	if (!file)
		return fail(-ENOMEM, "peerdma_file_open: out of memory");
	file->cache = cache;
	file->ctx = ctx;
	file->flags = flags;
	file->id = S_ISBLK(s.st_mode) ? s.st_rdev : s.st_dev;
	ret = open_both(file, fd, mode);
	if (ret) {
		free(file);
		return ret;
	}
	find_alignment(file);
	disks_find(file->fd, &file->disks);
	file->users = 1;
	*out = file;
	return 0;
}

void file_get(struct peerdma_file *file)
{
	__atomic_fetch_add(&file->users, 1, __ATOMIC_RELAXED);
}

void file_put(struct peerdma_file *file)
{
	if (__atomic_sub_fetch(&file->users, 1, __ATOMIC_ACQ_REL))
		return;
	if (file->direct >= 0)
		close(file->direct);
	close(file->fd);
	free(file);
}

EXPORT void peerdma_file_close(struct peerdma_file *file)
{
	if (file)
		file_put(file);
}

#define COUNTERS_FIRST END_OF(struct peerdma_file_counters, why)

EXPORT int peerdma_file_counters(struct peerdma_file *file, struct peerdma_file_counters *out)
{
	struct peerdma_file_counters c = { 0 };
	int ret = check_given("peerdma_file_counters", "file", file, "out", out, NULL);
	const char *why;

	if (!ret)
		ret = check_size("peerdma_file_counters", out->size, COUNTERS_FIRST);
	if (ret)
		return ret;
	c.size = out->size;
	c.direct = __atomic_load_n(&file->direct_bytes, __ATOMIC_RELAXED);
	c.copied = __atomic_load_n(&file->copied_bytes, __ATOMIC_RELAXED);
	c.host = __atomic_load_n(&file->host_bytes, __ATOMIC_RELAXED);
	if (file->disks.count)
		snprintf(c.disk, sizeof(c.disk), "%s", file->disks.pci[0]);
	why = atomic_load_explicit(&file->why, memory_order_relaxed);
	if (why)
		snprintf(c.why, sizeof(c.why), "%s", why);
	put_out(out, &c, sizeof(c));
	return 0;
}
