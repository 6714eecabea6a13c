// SPDX-License-Identifier: MIT
/* module.c - variables of loaded code: none can be loaded, and asking for one is an error and no more. */
#include "hook.h"
#include "internal.h"

static CUresult no_module(const void *name)
{
	CUresult result = sgu_enter();

	if (result)
		return result;
	return name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}

SGU_HOOKED(cuModuleGetGlobal_v2, CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	(void)dptr;
	(void)bytes;
	(void)hmod;
	return no_module(name);
}

SGU_HOOKED(cuLibraryGetGlobal, CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	(void)dptr;
	(void)bytes;
	(void)library;
	return no_module(name);
}

#undef cuModuleGetGlobal
SGU_STUB(cuModuleGetGlobal, cuModuleGetGlobal_v2);
