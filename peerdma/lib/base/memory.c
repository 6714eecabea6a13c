// SPDX-License-Identifier: MIT
/* memory.c - large arrays whose unused pages cost no memory. */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "memory.h"

#define HUGE (2UL << 20)

/*
 * Maps memory at a multiple of the huge page size, and asks for huge pages after the first 2 MiB.
 * So a small cache stays small, and in a large one most hits need no walk of page tables.
 */
static void *map(size_t size, int prot)
{
	size_t whole, before, after;
	char *p;

	size = memory_rounded(size);
	whole = size >= HUGE ? size + HUGE : size;
	p = mmap(NULL, whole, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (whole != size) {
		before = -(uintptr_t)p % HUGE;
		after = HUGE - before;
		if (before)
			munmap(p, before);
		p += before;
		munmap(p + size, after);
		if (size >= 2 * HUGE)
			madvise(p + HUGE, size - HUGE, MADV_HUGEPAGE);
	}
	return p;
}

void *memory_get(size_t size, bool wiped)
{
	void *p = map(size, PROT_READ | PROT_WRITE);

	if (p && wiped && madvise(p, memory_rounded(size), MADV_WIPEONFORK)) {
		memory_put(p, size);
		return NULL;
	}
	return p;
}

void *memory_reserve(size_t size)
{
	return map(size, PROT_NONE);
}

bool memory_use(void *memory, size_t size, size_t length)
{
	size_t whole = memory_rounded(length), most = memory_rounded(size);

	return !mprotect(memory, whole < most ? whole : most, PROT_READ | PROT_WRITE);
}

void memory_ahead(void *memory, size_t size, size_t offset, size_t length)
{
#ifdef MADV_POPULATE_WRITE
	size_t page = (size_t)getpagesize(), from = offset / page * page;
	size_t to = memory_rounded(offset + length), most = memory_rounded(size);

	/* If this fails, each page is allocated by a fault at its first access. */
	if (from < most)
		madvise((char *)memory + from, (to < most ? to : most) - from, MADV_POPULATE_WRITE);
#else
	(void)memory;
	(void)size;
	(void)offset;
	(void)length;
#endif
}

void memory_put(void *memory, size_t size)
{
	if (memory)
		munmap(memory, memory_rounded(size));
}

int file_may_have(size_t size)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	       size > limit.rlim_cur ? -EFBIG : 0;
}
