// SPDX-License-Identifier: MIT
/* bounce.c - copies between a file and a region: through a buffer in host memory, or by the CPU. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../backend.h"
#include "file.h"
#include "ipc/ipc.h"
#include "peerdma_copy.h"

#define BUFFER (1UL << 20)

ssize_t file_io(int fd, void *memory, uint64_t length, uint64_t offset, bool write)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		char *at = (char *)memory + done;
		off_t from = (off_t)(offset + done);

		n = write ? pwrite(fd, at, length - done, from) :
			    pread(fd, at, length - done, from);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return done ? (ssize_t)done : -errno;
		if (!n)
			break;
		done += (uint64_t)n;
	}
	return (ssize_t)done;
}

/* ---- between the buffer and the region ---- */

/*
 * By the GPU, and not in the program's streams: a stream may be waiting for this transfer.  The GPU takes an address, which
 * may be other memory's by now: so the region is looked at just before, and what was copied out is used only if the region is
 * still there afterwards.
 */
static int copy(struct peerdma_region *region, uint64_t at, void *buffer, uint64_t length,
		bool back)
{
	void *gpu = (void *)(uintptr_t)(region->addr - region->offset + at);
	int ret = region_usable(region) ? ipc_gpu_copy(gpu, buffer, length, back) : -ESTALE;

	return !ret && back && !region_usable(region) ? -ESTALE : ret;
}

/* ---- the file ---- */

/*
 * If the file can only be had with O_DIRECT: reads more on both sides, and refuses writes that
 * it would have to complete.
 */
static ssize_t io_aligned(const struct part *part, char *buffer, uint64_t length, uint64_t offset,
			  uint64_t *skip)
{
	uint64_t align = part->file->offset_align, before = offset % align;
	uint64_t all = (before + length + align - 1) / align * align;
	ssize_t n;

	*skip = before;
	if (!part->write) {
		n = file_io(part->file->fd, buffer, all, offset - before, false);
		if (n < 0)
			return n;
		if ((uint64_t)n <= before)
			return 0;
		return (uint64_t)n - before < length ? n - (ssize_t)before : (ssize_t)length;
	}
	return all == length ? file_io(part->file->fd, buffer, length, offset, true) : -EINVAL;
}

static ssize_t io(const struct part *part, char *buffer, uint64_t length, uint64_t offset,
		  uint64_t *skip)
{
	*skip = 0;
	return part->file->buffered ? file_io(part->file->fd, buffer, length, offset, part->write) :
				      io_aligned(part, buffer, length, offset, skip);
}

static ssize_t failed(const struct part *part, ssize_t error)
{
	return fail((int)error, "%s%s", error_words((int)error),
		    error == -EINVAL && !part->file->buffered ?
		    ": the file is open with O_DIRECT and cannot be opened without it; align offset and length as it demands" : "");
}

/* *copy_failed: the file was not written, or only read. */
static ssize_t by_buffer(const struct part *part, char *buffer, uint64_t done, uint64_t length,
			 bool *copy_failed)
{
	uint64_t skip;
	ssize_t n;
	int ret = 0;

	*copy_failed = false;
	if (part->write)
		ret = copy(part->region, part->at + done, buffer, length, true);
	if (!ret) {
		n = io(part, buffer, length, part->offset + done, &skip);
		if (n < 0)
			return failed(part, n);
		if (n && !part->write)
			ret = copy(part->region, part->at + done, buffer + skip, (uint64_t)n,
				   false);
	}
	*copy_failed = ret && ret != -ESTALE;
	return ret ? ret : n;
}

/*
 * The kernel copies between the file and the CPU's view.  If the memory is freed meanwhile, the kernel gets an error, where
 * this thread would get a signal, and nothing is written to what is there afterwards.  So reads go this way where there is a
 * view.  Writes do so only if the GPU does not copy, as for a thread without a context: the CPU reads a GPU's memory slowly.
 */
static ssize_t by_view(const struct part *part, uint64_t done, uint64_t length)
{
	char *view = cpu_base(part->region);
	ssize_t n;

	if (!view)
		return -ENXIO;
	n = file_io(part->file->fd, view + part->at + done, length, part->offset + done,
		    part->write);
	if (!part->write)
		peerdma_view_fence();
	return n < 0 ? failed(part, n) : n;
}

/* A region that is a copy of the memory does not show it. */
static bool has_view(const struct part *part)
{
	const struct backend *backend = part->region->backend;

	return backend->view && !backend->move && part->file->buffered;
}

static ssize_t piece(const struct part *part, char *buffer, uint64_t done, uint64_t length)
{
	bool copy_failed;
	ssize_t n = by_buffer(part, buffer, done, length, &copy_failed);

	if (copy_failed && has_view(part))
		n = by_view(part, done, length);
	return n;
}

static ssize_t by_pieces(const struct part *part)
{
	ssize_t done = 0;
	uint64_t length;
	void *buffer;

	/* Room for what io_aligned() reads on both sides. */
	if (posix_memalign(&buffer, page_size(), BUFFER + 2 * (size_t)part->file->offset_align))
		return fail(-ENOMEM, "no memory for a copy");
	do {
		length = part->length - (uint64_t)done;
		length = length < BUFFER ? length : BUFFER;
	} while (file_step(piece(part, buffer, (uint64_t)done, length), length, &done) &&
		 (uint64_t)done < part->length);
	free(buffer);
	return done;
}

ssize_t bounce(const struct part *part)
{
	ssize_t n = !part->write && has_view(part) ? by_view(part, 0, part->length) : -ENXIO;

	/* No view of it, or none to write to. */
	if (n == -ENXIO || n == -EFAULT)
		n = by_pieces(part);
	if (!region_usable(part->region))
		return fail(-ESTALE, "the memory was freed meanwhile");
	if (n > 0)
		__atomic_fetch_add(&part->file->copied_bytes, (uint64_t)n, __ATOMIC_RELAXED);
	return n;
}
