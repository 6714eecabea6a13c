/* SPDX-License-Identifier: MIT */
/* advice.h - what a program has said about its managed memory, page by page. */
#ifndef SGU_ADVICE_H
#define SGU_ADVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda.h"

/* Of one page of 64 KiB; all zero: nothing was said. */
struct sgu_advice {
	CUmemLocation preferred, prefetched;
	unsigned int accessed_by;	/* a bit for each GPU, then one for the CPU */
	bool read_mostly;
};

/*
 * host.c: calls fn with the pages that [va, va + length) touches, under the lock that
 * guards them.  CUDA_ERROR_INVALID_VALUE when the range is not in one piece of managed
 * memory.
 */
CUresult sgu_managed_pages(uint64_t va, size_t length,
			   CUresult (*fn)(struct sgu_advice *pages, size_t count, void *arg), void *arg);

#endif
