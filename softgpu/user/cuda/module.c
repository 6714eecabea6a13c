// SPDX-License-Identifier: MIT
/* module.c - variables of loaded code. No code can be loaded, so queries return an error. */
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

SGU_HOOKED(cuLibraryGetGlobal, CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
	   const char *name)
{
	(void)dptr;
	(void)bytes;
	(void)library;
	return no_module(name);
}

#undef cuModuleGetGlobal
SGU_STUB(cuModuleGetGlobal, cuModuleGetGlobal_v2);

SGU_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	CUresult result = sgu_enter();

	if (!result && !mode)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*mode = CU_MODULE_LAZY_LOADING;
	return result;
}
