/* SPDX-License-Identifier: MIT */
/* copy.h - the interface to the copy engines, for copy.c, copy2d.c and fill.c. */
#pragma once

#include "internal.h"

/* When the function of the API promises to return. */
enum sgu_when {
	SGU_NOW,	/* cuMemcpyX(): when done; earlier if both sides are device memory */
	SGU_QUEUED,	/* cuMemcpyXAsync(): when queued, if the memory permits */
	SGU_DONE,	/* always when done */
};

/* Source or target of a copy. */
struct sgu_end {
	uint64_t va;
	uint64_t pitch;
	bool device;		/* must be memory that the GPUs know */
};

/* Copies `height` rows of `width` bytes. */
CUresult sgu_copy(const struct sgu_end *dst, const struct sgu_end *src, uint64_t width,
		  uint64_t height, enum sgu_when when, CUstream stream);

/*
 * Checks that the range is within the memory at its address, and that the access
 * (CU_MEM_ACCESS_FLAGS_PROT_*) is allowed. *q describes the memory.
 */
CUresult sgu_check_end(const struct sgu_end *end, uint64_t width, uint64_t height,
		       unsigned int access, struct softgpu_query *q);
