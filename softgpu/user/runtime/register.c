// SPDX-License-Identifier: MIT
/*
 * register.c - what a program that was compiled by nvcc calls before main() for its kernels. It may
 * have kernels and start none here, so it must start. A launch fails with cudaErrorNotSupported.
 */
#include "runtime.h"

RT_EXPORT void **__cudaRegisterFatBinary(void *fatCubin);
RT_EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
RT_EXPORT void __cudaUnregisterFatBinary(void **handle);
RT_EXPORT void __cudaRegisterFunction(void);
RT_EXPORT void __cudaRegisterVar(void);
RT_EXPORT void __cudaRegisterManagedVar(void);
RT_EXPORT void __cudaRegisterHostVar(void);
RT_EXPORT void __cudaRegisterUnifiedTable(void);
RT_EXPORT char __cudaInitModule(void **handle);

RT_EXPORT void **__cudaRegisterFatBinary(void *fatCubin)
{
	static void *handle;

	(void)fatCubin;
	return &handle;
}

RT_EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

RT_EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

/* These have arguments, which nothing here needs. */
RT_EXPORT void __cudaRegisterFunction(void)
{
}

RT_EXPORT void __cudaRegisterVar(void)
{
}

RT_EXPORT void __cudaRegisterManagedVar(void)
{
}

RT_EXPORT void __cudaRegisterHostVar(void)
{
}

RT_EXPORT void __cudaRegisterUnifiedTable(void)
{
}

RT_EXPORT char __cudaInitModule(void **handle)
{
	(void)handle;
	return 1;
}
