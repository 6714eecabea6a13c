/* SPDX-License-Identifier: MIT */
/* runtime.h - declarations shared by the files of softgpu's libcudart. */
#pragma once

#include "cuda.h"
#include "cuda_runtime_api.h"

#define RT_EXPORT __attribute__((visibility("default")))

/*
 * Returns a result to the program, and records an error as the thread's last error. The runtime's
 * error codes have the driver's values.
 */
cudaError_t rt_done(CUresult result);
cudaError_t rt_fail(cudaError_t error);

/* Calls cuInit() and returns its result. */
CUresult rt_init(void);

/*
 * Call first in each function that needs a device. Makes the primary context of the thread's device
 * current, unless the program has made another context current.
 */
CUresult rt_enter(void);
CUresult rt_check_device(int device);

/*
 * Defines a function that calls the driver's equivalent, with a context made current if necessary.
 */
#define SAME(name, parameters, driver, arguments)			\
	RT_EXPORT cudaError_t name parameters				\
	{								\
		CUresult result = rt_enter();				\
									\
		return rt_done(result ? result : driver arguments);	\
	}

/* The releases of the driver that this runtime can use, for messages. */
#if CUDART_VERSION >= 13000
#define RT_DRIVERS	"580, 590, 595 or 610"
#else
#define RT_DRIVERS	"560, 570, 575, 580, 590, 595 or 610"
#endif

/* log.c of all libraries. */
void sgu_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
