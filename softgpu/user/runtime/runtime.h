/* SPDX-License-Identifier: MIT */
/* runtime.h - what the files of softgpu's libcudart share. */
#ifndef SGU_RUNTIME_H
#define SGU_RUNTIME_H

#include "cuda.h"
#include "cuda_runtime_api.h"

#define RT_EXPORT __attribute__((visibility("default")))

/*
 * Gives a result to the program: an error is the thread's last one from here
 * on.  The runtime's codes are the driver's, but for their names.
 */
cudaError_t rt_done(CUresult result);
cudaError_t rt_fail(cudaError_t error);

/* cuInit, once; then its result. */
CUresult rt_init(void);

/*
 * First in whatever needs a device: the thread gets its device's primary
 * context, unless the program has made a context of its own current.
 */
CUresult rt_enter(void);

#endif
