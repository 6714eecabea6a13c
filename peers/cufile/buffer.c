// SPDX-License-Identifier: MIT
/*
 * buffer.c - registered buffers.  Registration is a promise of the program: it makes the pin now, and the
 * cache keeps it.  Transfers with buffers that are not registered find or make their pin in the same cache.
 */
#include "cufile_int.h"

/* Lock. */
static struct buffer **find(uint64_t addr)
{
	struct buffer **b = &state.buffers;

	while (*b && (*b)->addr != addr)
		b = &(*b)->next;
	return b;
}

uint64_t buffer_length(const void *base)
{
	const struct buffer *b;
	uint64_t length;

	lock();
	b = *find((uintptr_t)base);
	length = b ? b->length : 0;
	unlock();
	return length;
}

static CUfileOpError error_of_pin(int error)
{
	switch (error) {
	case -EINVAL:
	case -ENXIO:
		return CU_FILE_CUDA_POINTER_RANGE_ERROR;
	case -ESTALE:
		return CU_FILE_CUDA_POINTER_INVALID;
	case -ENOMEM:
		return CU_FILE_NOMEM_ERROR;
	default:
		return CU_FILE_GPU_MEMORY_PINNING_FAILED;
	}
}

/* Pins it once: the cache keeps the pin until the memory is freed. */
static CUfileOpError pin(const void *base, size_t length)
{
	struct peerdma_memory memory = { .size = sizeof(memory) };
	struct peerdma_cached *hold;
	int ret;

	if (peerdma_query(state.ctx, base, &memory))
		return CU_FILE_CUDA_DRIVER_ERROR;
	/* Host memory needs no pin; and the first use of memory that only CUDA can reach makes its own. */
	if (memory.kind == PEERDMA_KIND_HOST)
		return CU_FILE_SUCCESS;
	if (memory.kind == PEERDMA_KIND_UNKNOWN)
		return CU_FILE_CUDA_POINTER_INVALID;
	if (memory.kind == PEERDMA_KIND_MANAGED)
		return CU_FILE_CUDA_MEMORY_TYPE_INVALID;
	ret = peerdma_cache_get(state.cache, base, length, &hold);
	if (ret)
		return error_of_pin(ret);
	peerdma_cache_put(state.cache, hold);
	return CU_FILE_SUCCESS;
}

static CUfileOpError reg(const void *base, size_t length)
{
	struct buffer *b, **at;
	CUfileOpError error;

	if (!base || !length)
		return CU_FILE_INVALID_VALUE;
	error = driver_use();
	error = error ? error : pin(base, length);
	if (error)
		return error;
	b = malloc(sizeof(*b));
	if (!b)
		return CU_FILE_NOMEM_ERROR;
	*b = (struct buffer){ .addr = (uintptr_t)base, .length = length };
	lock();
	at = find(b->addr);
	if (*at) {
		error = CU_FILE_MEMORY_ALREADY_REGISTERED;
	} else {
		*at = b;
		b = NULL;
	}
	unlock();
	free(b);
	return error;
}

EXPORT CUfileError_t cuFileBufRegister(const void *base, size_t length, int flags)
{
	CUfileOpError error = reg(base, length);

	(void)flags;
	stats_count(COUNT_BUFFER, !error);
	return status(error);
}

EXPORT CUfileError_t cuFileBufDeregister(const void *base)
{
	struct buffer **at, *b;

	lock();
	at = find((uintptr_t)base);
	b = *at;
	if (b)
		*at = b->next;
	unlock();
	free(b);
	stats_count(COUNT_BUFFER_END, b);
	return status(b ? CU_FILE_SUCCESS : CU_FILE_MEMORY_NOT_REGISTERED);
}
