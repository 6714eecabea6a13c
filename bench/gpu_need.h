/* SPDX-License-Identifier: MIT */
/* gpu_need.h - for programs that end without a GPU. */
#ifndef GPU_NEED_H
#define GPU_NEED_H

#include <stdio.h>
#include <stdlib.h>

#include "gpu.h"

/* CUmemorytype and buffer ids by cuPointerGetAttribute(). */
#define ATTRIBUTE_MEMORY_TYPE	2
#define ATTRIBUTE_BUFFER_ID	7

static inline void gpu_check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: libcuda says %d\n", what, result);
	exit(1);
}

/* The first GPU, or the last one; none: exits with that code. */
static inline void gpu_need(bool last, int missing)
{
	char why[256];

	if (gpu_open(last, why, sizeof(why)))
		return;
	fprintf(stderr, "%s (softgpu's: load softgpu.ko, or set SOFTGPU_INPROCESS=1, and set LD_LIBRARY_PATH)\n", why);
	exit(missing);
}

static inline uint64_t gpu_need_memory(size_t length)
{
	uint64_t p = 0;

	gpu_check(gpu.alloc(&p, length), "cuMemAlloc: not enough GPU memory?");
	return p;
}

#endif
