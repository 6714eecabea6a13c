/* SPDX-License-Identifier: MIT */
/* memory.h - big arrays of which only the pages that are used cost memory. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* Zeroed pages, allocated when they are touched; NULL: no address space.  wiped: a forked child gets zeros, too. */
void *memory_get(size_t size, bool wiped);
/* The same, but only address space: mlockall() and strict overcommit count what memory_use() has made usable. */
void *memory_reserve(size_t size);
/* The first so many bytes of it are usable from here on; false: out of memory. */
bool memory_use(void *memory, size_t size, size_t length);
void memory_put(void *memory, size_t size);
/* The size in whole pages: where a second part may begin that is given back for itself. */
static inline size_t memory_rounded(size_t size)
{
	size_t page = (size_t)getpagesize();	/* arm64 has kernels of 16 and 64 KiB */

	return (size + page - 1) / page * page;
}
/*
 * Before ftruncate() of a file in memory: beyond the process's limit the kernel would send SIGXFSZ, which kills the program.
 * 0 or -EFBIG.
 */
int file_may_have(size_t size);
/* Allocates the pages of [offset, offset + length), as far as they are there, in one call. */
void memory_ahead(void *memory, size_t size, size_t offset, size_t length);

#endif
