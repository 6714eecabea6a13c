// SPDX-License-Identifier: MIT
/*
 * register.c - functions that compiled HIP programs call before main(), for their kernels and
 * variables, and around launches. They do nothing, so that such a program starts; a launch itself
 * is not supported.
 */
#include "hip_int.h"

static void *module;

HIP_EXPORT void **__hipRegisterFatBinary(const void *data);
HIP_EXPORT void **__hipRegisterFatBinary(const void *data)
{
	(void)data;
	return &module;
}

#define IGNORED(name)								\
	HIP_EXPORT void name(void);						\
	HIP_EXPORT void name(void)						\
	{									\
	}

/* The arguments are not looked at. */
IGNORED(__hipRegisterFunction)
IGNORED(__hipRegisterVar)
IGNORED(__hipRegisterManagedVar)
IGNORED(__hipRegisterSurface)
IGNORED(__hipRegisterTexture)
IGNORED(__hipUnregisterFatBinary)

static _Thread_local struct {
	dim3 grid, block;
	size_t shared;
	hipStream_t stream;
} launch;

HIP_EXPORT hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
						 hipStream_t stream);
HIP_EXPORT hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
						 hipStream_t stream)
{
	launch.grid = grid;
	launch.block = block;
	launch.shared = shared;
	launch.stream = stream;
	return hipSuccess;
}

HIP_EXPORT hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
						hipStream_t *stream);
HIP_EXPORT hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
						hipStream_t *stream)
{
	*grid = launch.grid;
	*block = launch.block;
	*shared = launch.shared;
	*stream = launch.stream;
	return hipSuccess;
}
