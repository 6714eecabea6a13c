/* SPDX-License-Identifier: MIT */
/* memory.h - large arrays whose unused pages cost no memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/*
 * Returns zeroed pages, which are allocated at their first access. NULL: no address space. wiped: a
 * forked child gets zeros.
 */
void *memory_get(size_t size, bool wiped);
/*
 * The same, but inaccessible. mlockall() and strict overcommit count only the part that
 * memory_use() has made accessible.
 */
void *memory_reserve(size_t size);
/* Makes the first `length` bytes accessible. False: out of memory. */
bool memory_use(void *memory, size_t size, size_t length);
void memory_put(void *memory, size_t size);
/* The size, rounded up to whole pages. A part that begins there can be unmapped on its own. */
static inline size_t memory_rounded(size_t size)
{
	size_t page = (size_t)getpagesize();	/* arm64 kernels may have pages of 16 or 64 KiB */

	return (size + page - 1) / page * page;
}
/*
 * Call before ftruncate() of a memfd. Above RLIMIT_FSIZE the kernel would send SIGXFSZ, which ends
 * the program. 0 or -EFBIG.
 */
int file_may_have(size_t size);
/*
 * Allocates the pages of [offset, offset + length) in one call. Ignores the part beyond the array.
 */
void memory_ahead(void *memory, size_t size, size_t offset, size_t length);
