// SPDX-License-Identifier: MIT
/* io.c - cuFileRead() and cuFileWrite(). */
#include "cufile_int.h"

/* What libpeerdma says, as cuFile says it: errno for the file's errors, a status for the memory's. */
ssize_t transfer_failed(ssize_t error)
{
	switch (error) {
	case -ESTALE:
	case -ENXIO:
		return -CU_FILE_CUDA_POINTER_INVALID;
	case -EOPNOTSUPP:
		return -CU_FILE_IO_NOT_SUPPORTED;
	case -EDQUOT:
	case -ENOBUFS:
		return -CU_FILE_GPU_MEMORY_PINNING_FAILED;
	default:
		errno = (int)-error;
		return -1;
	}
}

ssize_t transfer_refused(const struct transfer *t)
{
	uint64_t registered = t->size ? buffer_length(t->base) : 0;

	if (registered && ((uint64_t)t->memory_offset >= registered ||
			   t->size > registered - (uint64_t)t->memory_offset))
		return -CU_FILE_INVALID_VALUE;
	return 0;
}

ssize_t transfer_prepare(const struct transfer *t, struct handle **h)
{
	ssize_t n = 0;

	*h = handle_get(t->fh);
	if (*h && t->base && t->file_offset >= 0 && t->memory_offset >= 0) {
		n = transfer_refused(t);
		if (t->size && !n)
			return 0;
	} else {
		stats_count(t->write ? COUNT_WRITE : COUNT_READ, false);
		n = *h ? -CU_FILE_INVALID_VALUE : transfer_failed(-EINVAL);
	}
	if (*h)
		handle_put(*h);
	*h = NULL;
	return n;
}

void transfer_io(const struct transfer *t, const struct handle *h, struct peerdma_file_io *io)
{
	*io = (struct peerdma_file_io){
		.size = sizeof(*io),
		.flags = t->write ? PEERDMA_FILE_WRITE : 0,
		.file = h->file,
		.ptr = (char *)t->base + t->memory_offset,
		.length = t->size,
		.offset = (uint64_t)t->file_offset,
	};
}

static ssize_t make(const struct transfer *t)
{
	struct handle *h;
	ssize_t n = transfer_prepare(t, &h);
	uint64_t began, offset = (uint64_t)t->file_offset;
	char *memory;

	if (!h)
		return n;
	memory = (char *)t->base + t->memory_offset;
	began = stats_begin();
	n = t->write ? peerdma_file_write(h->file, memory, t->size, offset)
		     : peerdma_file_read(h->file, memory, t->size, offset);
	if (n == -ENXIO)
		n = managed_make(h, memory, t);
	stats_transfer(t->write, n, began);
	handle_put(h);
	return n < 0 ? transfer_failed(n) : n;
}

EXPORT ssize_t cuFileRead(CUfileHandle_t fh, void *base, size_t size, off_t file_offset,
			  off_t memory_offset)
{
	return make(&(struct transfer){ fh, base, size, file_offset, memory_offset, false });
}

EXPORT ssize_t cuFileWrite(CUfileHandle_t fh, const void *base, size_t size, off_t file_offset,
			   off_t memory_offset)
{
	return make(&(struct transfer){ fh, (void *)(uintptr_t)base, size, file_offset,
					memory_offset, true });
}
