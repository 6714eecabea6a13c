/* SPDX-License-Identifier: MIT */
/* cu.h - the functions of libcuda that the benchmarks use, loaded when they start. */
#ifndef CU_H
#define CU_H

#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

extern struct cu {
	typeof(cuInit) *init;
	typeof(cuDeviceGet) *device_get;
	typeof(cuDeviceGetCount) *device_count;
	typeof(cuCtxCreate) *ctx_create;
	typeof(cuMemAlloc) *mem_alloc;
	typeof(cuMemFree) *mem_free;
	typeof(cuMemcpyHtoD) *copy_htod;
	typeof(cuMemcpyDtoH) *copy_dtoh;
	typeof(cuMemcpyDtoDAsync) *copy_dtod;
	typeof(cuCtxSynchronize) *synchronize;
	typeof(cuPointerGetAttribute) *pointer_get_attribute;
} cu;

/* Loads libcuda and makes a context on GPU 0.  Says what is missing, and exits with that code. */
void cu_start(int missing);
/* The same on the last GPU. */
void cu_start_last(int missing);

/* GPU memory, or an error message and the end. */
CUdeviceptr cu_alloc(size_t length);

/* Ends the program unless a call succeeded. */
void cu_check(CUresult result, const char *what);

#endif
