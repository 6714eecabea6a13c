// SPDX-License-Identifier: MIT
/* error.c - names and texts of errors, and the driver's errno in CUDA's terms. */
#include <errno.h>

#include "internal.h"

struct text {
	CUresult code;
	const char *name, *string;
};

#define T(code, string) { code, #code, string }

/* Every code that this library returns, and those that programs print most. */
static const struct text texts[] = {
	T(CUDA_SUCCESS, "no error"),
	T(CUDA_ERROR_INVALID_VALUE, "an argument is not valid"),
	T(CUDA_ERROR_OUT_OF_MEMORY, "not enough memory"),
	T(CUDA_ERROR_NOT_INITIALIZED, "cuInit has not been called in this process"),
	T(CUDA_ERROR_DEINITIALIZED, "the driver is shutting down"),
	T(CUDA_ERROR_STUB_LIBRARY, "this libcuda is a stub"),
	T(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is busy or was removed"),
	T(CUDA_ERROR_NO_DEVICE, "no GPU was found"),
	T(CUDA_ERROR_INVALID_DEVICE, "no GPU has this number"),
	T(CUDA_ERROR_INVALID_IMAGE, "the device code is not valid"),
	T(CUDA_ERROR_INVALID_CONTEXT, "no context, or not a valid one"),
	T(CUDA_ERROR_MAP_FAILED, "mapping failed"),
	T(CUDA_ERROR_UNMAP_FAILED, "unmapping failed"),
	T(CUDA_ERROR_ALREADY_MAPPED, "already mapped"),
	T(CUDA_ERROR_NOT_MAPPED, "not mapped"),
	T(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "these GPUs cannot reach each other"),
	T(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
	T(CUDA_ERROR_OPERATING_SYSTEM, "the operating system refused a call"),
	T(CUDA_ERROR_INVALID_HANDLE, "a handle is not valid"),
	T(CUDA_ERROR_ILLEGAL_STATE, "not in the state for this call"),
	T(CUDA_ERROR_NOT_FOUND, "not found"),
	T(CUDA_ERROR_NOT_READY, "the work is not done yet"),
	T(CUDA_ERROR_ILLEGAL_ADDRESS, "a copy reached an address that is not there; the context is dead"),
	T(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already"),
	T(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not enabled"),
	T(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active"),
	T(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed"),
	T(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the host memory is registered already"),
	T(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host memory is not registered"),
	T(CUDA_ERROR_MISALIGNED_ADDRESS, "an address is not aligned"),
	T(CUDA_ERROR_LAUNCH_FAILED, "work on the GPU failed"),
	T(CUDA_ERROR_NOT_PERMITTED, "not permitted"),
	T(CUDA_ERROR_NOT_SUPPORTED, "the software GPU does not support this"),
	T(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready"),
	T(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "this library and the driver do not match"),
	T(CUDA_ERROR_TIMEOUT, "timed out"),
	T(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static const struct text *find(CUresult error)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].code == error)
			return &texts[i];
	}
	return NULL;
}

SGU_EXPORT CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	const struct text *text = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = text ? text->name : NULL;
	return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SGU_EXPORT CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	const struct text *text = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = text ? text->string : NULL;
	return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* softgpu_uapi.h says what each errno means; this is the only place that translates. */
static const struct {
	int err;
	CUresult result;
} results[] = {
	{ 0, CUDA_SUCCESS },
	{ EINVAL, CUDA_ERROR_INVALID_VALUE },
	{ E2BIG, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH },
	{ ENOTTY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH },
	{ EFAULT, CUDA_ERROR_INVALID_VALUE },		/* a device range is not all there */
	{ EPERM, CUDA_ERROR_NOT_INITIALIZED },		/* inherited from the parent */
	{ ENOENT, CUDA_ERROR_INVALID_VALUE },
	{ EEXIST, CUDA_ERROR_INVALID_VALUE },
	{ ENOMEM, CUDA_ERROR_OUT_OF_MEMORY },
	{ ENOSPC, CUDA_ERROR_OUT_OF_MEMORY },
	{ EBUSY, CUDA_ERROR_INVALID_VALUE },
	{ EAGAIN, CUDA_ERROR_OUT_OF_MEMORY },		/* of the system: no threads, no more locked memory */
	{ ENODEV, CUDA_ERROR_DEVICE_UNAVAILABLE },
	{ EIO, CUDA_ERROR_ILLEGAL_ADDRESS },
	{ EACCES, CUDA_ERROR_NO_DEVICE },
	{ ENOKEY, CUDA_ERROR_INVALID_VALUE },
	{ EADDRINUSE, CUDA_ERROR_ALREADY_MAPPED },	/* what was freed there is open still, and had another size */
};

/* A copy has faulted.  Nothing of the process works on any GPU from then on. */
static atomic_bool faulted;

bool sgu_faulted(void)
{
	return atomic_load(&faulted);
}

void sgu_not_faulted(void)
{
	atomic_store(&faulted, false);
}

CUresult sgu_result(int err)
{
	if (err == -EIO)
		atomic_store(&faulted, true);
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i].err == -err)
			return results[i].result;
	}
	return CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult sgu_result_enoent(int err, CUresult enoent)
{
	return err == -ENOENT ? enoent : sgu_result(err);
}

CUresult sgu_result_query(int err)
{
	return err == -EAGAIN ? CUDA_ERROR_NOT_READY : sgu_result_enoent(err, CUDA_ERROR_INVALID_HANDLE);
}
