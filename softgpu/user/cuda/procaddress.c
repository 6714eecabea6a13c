// SPDX-License-Identifier: MIT
/* procaddress.c - cuGetProcAddress(): finds functions by name and CUDA version. */
#include <string.h>

#include "internal.h"
#include "names.h"
#include "unsupported.h"

#undef cuGetProcAddress
SGU_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
				     cuuint64_t flags);

int sgu_unsupported(const char *function, bool told)
{
	if (!told)
		sgu_log("%s: the software GPU does not support this function", function);
	return sgu_refuse(CUDA_ERROR_NOT_SUPPORTED);
}

/* Whether `name` is this symbol's, in the driver's release. */
static bool is(const struct sgu_name *name, const char *symbol, bool per_thread)
{
	return name->since <= (int)sgu_release()->cuda && name->per_thread == per_thread &&
	       !strcmp(name->name, symbol);
}

static bool known(const char *symbol, bool per_thread)
{
	for (size_t i = 0; i < sgu_name_count; i++)
		if (is(&sgu_names[i], symbol, per_thread))
			return true;
	return false;
}

/* Returns the newest function of this name for this version, or NULL with the reason. */
static const struct sgu_name *find(const char *symbol, int version, bool per_thread,
				   CUdriverProcAddressQueryResult *status)
{
	/* most functions have no stream, and so no form of their own for per-thread streams */
	per_thread = per_thread && known(symbol, true);
	for (size_t i = 0; i < sgu_name_count; i++) {
		if (is(&sgu_names[i], symbol, per_thread) && sgu_names[i].since <= version) {
			*status = CU_GET_PROC_ADDRESS_SUCCESS;
			return &sgu_names[i];
		}
	}
	*status = known(symbol, per_thread) ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT :
					      CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return NULL;
}

static bool arguments_ok(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	return symbol && pfn && version <= (int)sgu_release()->cuda &&
	       !(flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
				       CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
}

static CUresult look_up(const char *symbol, void **pfn, int version, cuuint64_t flags,
			CUdriverProcAddressQueryResult *status)
{
	const struct sgu_name *name;

	if (!arguments_ok(symbol, pfn, version, flags))
		return CUDA_ERROR_INVALID_VALUE;
	name = find(symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
		    status);
	*pfn = name ? (void *)name->function : NULL;
	return CUDA_SUCCESS;
}

/* An unknown name is not an error of the call: symbolStatus reports it, and *pfn is NULL. */
SGU_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
					cuuint64_t flags,
					CUdriverProcAddressQueryResult *symbolStatus)
{
	CUdriverProcAddressQueryResult status;
	CUresult result = look_up(symbol, pfn, cudaVersion, flags, &status);

	if (!result && symbolStatus)
		*symbolStatus = status;
	return result;
}

/*
 * The older variant with four arguments. Some clients find it by its plain name and call it with
 * five; the fifth is then left unchanged.
 */
SGU_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
				     cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	CUresult result = look_up(symbol, pfn, cudaVersion, flags, &status);

	return result ? result : *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
