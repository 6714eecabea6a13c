// SPDX-License-Identifier: MIT
/*
 * managed.c - transfers of CUDA's managed memory.  It moves between host and GPU, so nothing pins it: the kernel copies between it and
 * the page cache, and each access brings the memory to the CPU.
 */
#include <fcntl.h>
#include <stdio.h>

#include "cufile_int.h"

static bool is_managed(const void *memory)
{
	struct peerdma_memory m = { .size = sizeof(m) };

	return !peerdma_query(state.ctx, memory, &m) && m.kind == PEERDMA_KIND_MANAGED;
}

/* Without O_DIRECT, which needs pages that stay.  Opened at the first such transfer, for it is rare. */
static int descriptor(struct handle *h)
{
	int fd, other, mode = fcntl(h->fd, F_GETFL);
	char path[64];

	lock();
	fd = h->cached;
	unlock();
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", h->fd);
	fd = mode < 0 ? -1 : open(path, (mode & (O_ACCMODE | O_SYNC | O_DSYNC)) | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Another thread may have opened it meanwhile: then that one is used. */
	lock();
	other = h->cached;
	if (other < 0)
		h->cached = fd;
	unlock();
	if (other < 0)
		return fd;
	close(fd);
	return other;
}

ssize_t managed_make(struct handle *h, char *memory, const struct transfer *t)
{
	size_t done = 0;
	ssize_t n = 1;
	int fd;

	if (!is_managed(memory))
		return -ENXIO;
	if (!parameter_bool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE))
		return -EOPNOTSUPP;
	fd = descriptor(h);
	if (fd < 0)
		return fd;
	while (n && done < t->size) {
		off_t at = t->file_offset + (off_t)done;

		n = t->write ? pwrite(fd, memory + done, t->size - done, at)
			     : pread(fd, memory + done, t->size - done, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return done ? (ssize_t)done : -errno;
		done += (size_t)n;
	}
	return (ssize_t)done;
}
