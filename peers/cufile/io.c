// SPDX-License-Identifier: MIT
/* io.c - cuFileRead() and cuFileWrite(). */
#include "cufile_int.h"

/* What libpeerdma says, as cuFile says it: errno for the file's errors, a status for the memory's. */
static ssize_t failed(ssize_t error)
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

static ssize_t with_handle(struct handle *h, const struct transfer *t)
{
	uint64_t began = now_ns(), registered = buffer_length(t->base);
	char *memory = (char *)t->base + t->memory_offset;
	ssize_t n;

	if (registered && ((uint64_t)t->memory_offset >= registered ||
			   t->size > registered - (uint64_t)t->memory_offset))
		return -CU_FILE_INVALID_VALUE;
	n = t->write ? peerdma_file_write(h->file, memory, t->size, (uint64_t)t->file_offset)
		     : peerdma_file_read(h->file, memory, t->size, (uint64_t)t->file_offset);
	if (n == -ENXIO)
		n = managed_make(h, memory, t);
	stats_transfer(t->write, n, began);
	return n < 0 ? failed(n) : n;
}

ssize_t transfer_make(const struct transfer *t)
{
	struct handle *h = handle_get(t->fh);
	ssize_t n;

	if (!h) {
		stats_count(t->write ? COUNT_WRITE : COUNT_READ, false);
		errno = EINVAL;
		return -1;
	}
	if (!t->base || t->file_offset < 0 || t->memory_offset < 0) {
		stats_count(t->write ? COUNT_WRITE : COUNT_READ, false);
		n = -CU_FILE_INVALID_VALUE;
	} else {
		n = t->size ? with_handle(h, t) : 0;
	}
	handle_put(h);
	return n;
}

EXPORT ssize_t cuFileRead(CUfileHandle_t fh, void *base, size_t size, off_t file_offset,
			  off_t memory_offset)
{
	return transfer_make(
		&(struct transfer){ fh, base, size, file_offset, memory_offset, false });
}

EXPORT ssize_t cuFileWrite(CUfileHandle_t fh, const void *base, size_t size, off_t file_offset,
			   off_t memory_offset)
{
	return transfer_make(&(struct transfer){ fh, (void *)(uintptr_t)base, size, file_offset,
						 memory_offset, true });
}
