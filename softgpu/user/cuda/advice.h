/* SPDX-License-Identifier: MIT */
/* advice.h - a program's advice about its managed memory, page by page. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda.h"

/* For one page of 64 KiB. All zero: no advice was given. */
struct sgu_advice {
	CUmemLocation preferred, prefetched;
	unsigned int accessed_by;	/* a bit for each GPU, then one for the CPU */
	bool read_mostly;
};

/*
 * host.c: calls fn with the pages of [va, va + length), under the lock that protects them.
 * CUDA_ERROR_INVALID_VALUE: the range is not within one allocation of managed memory.
 */
CUresult sgu_managed_pages(uint64_t va, size_t length,
			   CUresult (*fn)(struct sgu_advice *pages, size_t count, void *arg),
			   void *arg);
