/* SPDX-License-Identifier: MIT */
/*
 * gpu.h - the calls of CUDA's driver API that benchmarks use, from whichever libcuda.so.1 is there.  For `peerdma bench`
 * and for the programs of bench/.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A CUresult is an int, a CUdeviceptr a uint64_t. */
struct gpu {
	int (*init)(unsigned int flags);
	int (*device_count)(int *count);
	int (*device_get)(int *device, int ordinal);
	int (*device_name)(char *name, int length, int device);
	int (*retain)(void **context, int device);
	int (*set_current)(void *context);
	int (*alloc)(uint64_t *p, size_t length);
	int (*free)(uint64_t p);
	int (*copy_htod)(uint64_t to, const void *from, size_t length);
	int (*copy_dtoh)(void *to, uint64_t from, size_t length);
	int (*copy_dtod)(uint64_t to, uint64_t from, size_t length, void *stream);
	int (*synchronize)(void);
	int (*attribute)(void *out, int what, uint64_t p);
	void *context;
	char name[64];
};
extern struct gpu gpu;

/* Opens the first GPU, or the last one: false, and why not. */
bool gpu_open(bool last, char *why, size_t size);
