/* SPDX-License-Identifier: MIT */
/* copy.h - one way into the copy engines, for copy.c, copy2d.c and fill.c. */
#ifndef SGU_COPY_H
#define SGU_COPY_H

#include "internal.h"

/* Which function of the API is at work: its promise of when it returns. */
enum sgu_when {
	SGU_NOW,	/* cuMemcpyX: done, unless it is between device memory only */
	SGU_QUEUED,	/* cuMemcpyXAsync: queued, if the memory allows it */
	SGU_DONE,	/* done, whatever the memory */
};

/* One end of a copy. */
struct sgu_end {
	uint64_t va;
	uint64_t pitch;
	bool device;		/* must be memory that the GPUs know */
};

/* width bytes in each of height rows. */
CUresult sgu_copy(const struct sgu_end *dst, const struct sgu_end *src, uint64_t width, uint64_t height,
		  enum sgu_when when, CUstream stream);

/*
 * Checks that an end lies in what stands at its address, and may be accessed so
 * (CU_MEM_ACCESS_FLAGS_PROT_*); *q tells what stands there.
 */
CUresult sgu_check_end(const struct sgu_end *end, uint64_t width, uint64_t height, unsigned int access,
		       struct softgpu_query *q);

#endif
