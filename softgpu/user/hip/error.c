// SPDX-License-Identifier: MIT
/* error.c - the last error of each thread; names and texts of errors. */
#include "hip_int.h"

static _Thread_local hipError_t last_error;

hipError_t hip_done(hipError_t error)
{
	if (error && error != hipErrorNotReady)
		last_error = error;
	return error;
}

hipError_t hip_of_status(hsa_status_t status)
{
	switch (status) {
	case HSA_STATUS_SUCCESS:
		return hipSuccess;
	case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
		return hipErrorOutOfMemory;
	case HSA_STATUS_ERROR_NOT_INITIALIZED:
		return hipErrorNotInitialized;
	case HSA_STATUS_ERROR_INVALID_ARGUMENT:
	case HSA_STATUS_ERROR_INVALID_ALLOCATION:
		return hipErrorInvalidValue;
	default:
		return hipErrorUnknown;
	}
}

int hip_unsupported(const char *name)
{
	sgu_log("%s is not supported: a software GPU runs no kernels and has no graphs, arrays or textures",
		name);
	return hip_done(hipErrorNotSupported);
}

HIP_EXPORT hipError_t hipGetLastError(void)
{
	hipError_t error = last_error;

	last_error = hipSuccess;
	return error;
}

HIP_EXPORT hipError_t hipExtGetLastError(void)
{
	return hipGetLastError();
}

HIP_EXPORT hipError_t hipPeekAtLastError(void)
{
	return last_error;
}

struct text {
	hipError_t error;
	const char *name, *text;
};

#define T(error, text) { error, #error, text }

/* The errors that this library returns. */
static const struct text texts[] = {
	T(hipSuccess, "no error"),
	T(hipErrorInvalidValue, "invalid argument"),
	T(hipErrorOutOfMemory, "out of memory"),
	T(hipErrorNotInitialized, "not initialized in this process"),
	T(hipErrorInvalidPitchValue, "the pitch is smaller than a row"),
	T(hipErrorInvalidDevicePointer, "no memory is at this address"),
	T(hipErrorNoDevice, "no GPU was found"),
	T(hipErrorInvalidDevice, "no GPU has this number"),
	T(hipErrorInvalidContext, "not possible in this process"),
	T(hipErrorUnsupportedLimit, "there is no such limit"),
	T(hipErrorInvalidHandle, "not such a stream, event or handle"),
	T(hipErrorNotFound, "not found"),
	T(hipErrorNotReady, "the work is not done yet"),
	T(hipErrorPeerAccessAlreadyEnabled, "access to this peer was enabled before"),
	T(hipErrorPeerAccessNotEnabled, "access to this peer was not enabled"),
	T(hipErrorHostMemoryAlreadyRegistered, "the host memory is registered already"),
	T(hipErrorHostMemoryNotRegistered, "the host memory is not registered"),
	T(hipErrorNotSupported, "the software GPU does not support this"),
	T(hipErrorUnknown, "unknown error"),
};

static const struct text *find(hipError_t error)
{
	size_t count = sizeof(texts) / sizeof(texts[0]);

	for (size_t i = 0; i < count; i++) {
		if (texts[i].error == error)
			return &texts[i];
	}
	return &texts[count - 1];
}

HIP_EXPORT const char *hipGetErrorName(hipError_t error)
{
	return find(error)->name;
}

HIP_EXPORT const char *hipGetErrorString(hipError_t error)
{
	return find(error)->text;
}

static hipError_t store(const char *from, const char **text)
{
	if (!text)
		return hip_done(hipErrorInvalidValue);
	*text = from;
	return hipSuccess;
}

HIP_EXPORT hipError_t hipDrvGetErrorName(hipError_t error, const char **text)
{
	return store(find(error)->name, text);
}

HIP_EXPORT hipError_t hipDrvGetErrorString(hipError_t error, const char **text)
{
	return store(find(error)->text, text);
}
