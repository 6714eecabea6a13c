// SPDX-License-Identifier: MIT
/* procaddress.c - cuGetProcAddress(): finds functions by name and CUDA version. */
#include <string.h>

#include "internal.h"

#undef cuGetProcAddress
SGU_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
				     cuuint64_t flags);

struct function {
	const char *name;
	int since;		/* the first CUDA version with this function under this name */
	bool per_thread;	/* for callers that want per-thread default streams */
	void (*address)(void);
};

/*
 * cuda.h declares these symbols, but for old ones, with their arguments, which do not matter here:
 * so each is named a second time.
 */
#define SYMBOL(name) void at_##name(void) __asm__(#name);
#include "symbols.def"
#undef SYMBOL

static const struct function functions[] = {
#define NAME(name, since, symbol) { #name, since, false, at_##symbol },
#define THREAD(name, since, symbol) { #name, since, true, at_##symbol },
#include "names.def"
#undef THREAD
#undef NAME
};

#define COUNT (sizeof(functions) / sizeof(functions[0]))

/* Whether the function has this name, in the driver's release. */
static bool is(const struct function *function, const char *name, bool per_thread)
{
	return function->since <= (int)sgu_release()->cuda && function->per_thread == per_thread &&
	       !strcmp(function->name, name);
}

static bool known(const char *symbol, bool per_thread)
{
	for (size_t i = 0; i < COUNT; i++)
		if (is(&functions[i], symbol, per_thread))
			return true;
	return false;
}

/*
 * Returns the newest function of this name for this version, or NULL with the reason. The driver
 * compares versions without a sign: a negative one is newer than all.
 */
static const struct function *find(const char *symbol, int version, bool per_thread,
				   CUdriverProcAddressQueryResult *status)
{
	/* most functions have no stream, and so no form of their own for per-thread streams */
	per_thread = per_thread && known(symbol, true);
	for (size_t i = 0; i < COUNT; i++) {
		if (is(&functions[i], symbol, per_thread) &&
		    (unsigned int)functions[i].since <= (unsigned int)version) {
			*status = CU_GET_PROC_ADDRESS_SUCCESS;
			return &functions[i];
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
	const struct function *function;

	if (!arguments_ok(symbol, pfn, version, flags))
		return CUDA_ERROR_INVALID_VALUE;
	function = find(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
			status);
	*pfn = function ? (void *)function->address : NULL;
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
