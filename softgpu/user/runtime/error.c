// SPDX-License-Identifier: MIT
/* error.c - the last error of each thread; names and texts of errors. */
#include "runtime.h"
#include "unsupported.h"

static _Thread_local cudaError_t last_error;

cudaError_t rt_fail(cudaError_t error)
{
	if (error)
		last_error = error;
	return error;
}

cudaError_t rt_done(CUresult result)
{
	return rt_fail((cudaError_t)result);
}

int rt_unsupported(const char *function, bool told)
{
	if (!told)
		sgu_log("%s: the software GPU does not support this function", function);
	return rt_fail(cudaErrorNotSupported);
}

RT_EXPORT cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

RT_EXPORT cudaError_t cudaPeekAtLastError(void)
{
	return last_error;
}

struct text {
	cudaError_t code;
	const char *name, *string;
};

#define T(code, string) { code, #code, string }

/* The errors that this library returns. */
static const struct text texts[] = {
	T(cudaSuccess, "no error"),
	T(cudaErrorInvalidValue, "an argument is not valid"),
	T(cudaErrorMemoryAllocation, "not enough memory"),
	T(cudaErrorInitializationError, "CUDA could not start in this process"),
	T(cudaErrorCudartUnloading, "the driver is shutting down"),
	T(cudaErrorInvalidSymbol, "no variable of a kernel has this name"),
	T(cudaErrorInvalidMemcpyDirection, "the direction of a copy is not valid"),
	T(cudaErrorInsufficientDriver, "the driver is older than this runtime"),
	T(cudaErrorPeerAccessUnsupported, "these GPUs cannot reach each other"),
	T(cudaErrorPeerAccessNotEnabled, "peer access is not enabled"),
	T(cudaErrorUnsupportedLimit, "the GPU does not have this limit"),
	T(cudaErrorStubLibrary, "this libcuda is a stub"),
	T(cudaErrorDevicesUnavailable, "the device is busy or was removed"),
	T(cudaErrorNoDevice, "no GPU was found"),
	T(cudaErrorInvalidDevice, "no GPU has this number"),
	T(cudaErrorDeviceUninitialized, "no context, or not a valid one"),
	T(cudaErrorOperatingSystem, "the operating system refused a call"),
	T(cudaErrorInvalidResourceHandle, "a handle is not valid"),
	T(cudaErrorIllegalState, "not in the state for this call"),
	T(cudaErrorSymbolNotFound, "not found"),
	T(cudaErrorNotReady, "the work is not done yet"),
	T(cudaErrorIllegalAddress,
	  "a copy reached an address that is not there; the context is dead"),
	T(cudaErrorContextIsDestroyed, "the context was destroyed"),
	T(cudaErrorHostMemoryAlreadyRegistered, "the host memory is registered already"),
	T(cudaErrorHostMemoryNotRegistered, "the host memory is not registered"),
	T(cudaErrorNotPermitted, "not permitted"),
	T(cudaErrorNotSupported, "the software GPU does not support this"),
	T(cudaErrorSystemNotReady, "the system is not ready"),
	T(cudaErrorSystemDriverMismatch, "this library and the driver do not match"),
	T(cudaErrorUnknown, "unknown error"),
};

static const struct text *find(cudaError_t error)
{
	static const struct text unrecognized = { cudaErrorUnknown, "unrecognized error code",
						  "unrecognized error code" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].code == error)
			return &texts[i];
	}
	return &unrecognized;
}

RT_EXPORT const char *cudaGetErrorName(cudaError_t error)
{
	return find(error)->name;
}

RT_EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	return find(error)->string;
}
