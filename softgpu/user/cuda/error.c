// SPDX-License-Identifier: MIT
/* error.c - names and texts of errors; converts errnos of the driver to CUDA's errors. */
#include <errno.h>

#include "internal.h"

struct text {
	CUresult code;
	const char *name, *string;
};

#define T(code, string) { code, #code, string }
/* Programs print names of these, too. */
#define N(code) T(code, "the software GPU never reports this")

/* All codes, first those that this library returns and those that programs print most. */
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
	T(CUDA_ERROR_ILLEGAL_ADDRESS,
	  "a copy reached an address that is not there; the context is dead"),
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
	T(CUDA_ERROR_UNSUPPORTED_LIMIT, "the GPU does not have this limit"),
	T(CUDA_ERROR_MPS_SERVER_NOT_READY, "a client of the MPS server has faulted, and others have not ended yet"),
	T(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "no room for another client of the MPS server"),
	N(CUDA_ERROR_PROFILER_DISABLED),
	N(CUDA_ERROR_PROFILER_NOT_INITIALIZED),
	N(CUDA_ERROR_PROFILER_ALREADY_STARTED),
	N(CUDA_ERROR_PROFILER_ALREADY_STOPPED),
	N(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER),
	N(CUDA_ERROR_DEVICE_NOT_LICENSED),
	N(CUDA_ERROR_CONTEXT_ALREADY_CURRENT),
	N(CUDA_ERROR_ARRAY_IS_MAPPED),
	N(CUDA_ERROR_NO_BINARY_FOR_GPU),
	N(CUDA_ERROR_ALREADY_ACQUIRED),
	N(CUDA_ERROR_NOT_MAPPED_AS_ARRAY),
	N(CUDA_ERROR_NOT_MAPPED_AS_POINTER),
	N(CUDA_ERROR_ECC_UNCORRECTABLE),
	N(CUDA_ERROR_CONTEXT_ALREADY_IN_USE),
	N(CUDA_ERROR_INVALID_PTX),
	N(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT),
	N(CUDA_ERROR_NVLINK_UNCORRECTABLE),
	N(CUDA_ERROR_JIT_COMPILER_NOT_FOUND),
	N(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
	N(CUDA_ERROR_JIT_COMPILATION_DISABLED),
	N(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY),
	N(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC),
	N(CUDA_ERROR_CONTAINED),
	N(CUDA_ERROR_INVALID_SOURCE),
	N(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND),
	N(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED),
	N(CUDA_ERROR_LOSSY_QUERY),
	N(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
	N(CUDA_ERROR_LAUNCH_TIMEOUT),
	N(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING),
	N(CUDA_ERROR_ASSERT),
	N(CUDA_ERROR_TOO_MANY_PEERS),
	N(CUDA_ERROR_HARDWARE_STACK_ERROR),
	N(CUDA_ERROR_ILLEGAL_INSTRUCTION),
	N(CUDA_ERROR_INVALID_ADDRESS_SPACE),
	N(CUDA_ERROR_INVALID_PC),
	N(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE),
	N(CUDA_ERROR_TENSOR_MEMORY_LEAK),
	N(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE),
	N(CUDA_ERROR_MPS_CONNECTION_FAILED),
	N(CUDA_ERROR_MPS_RPC_FAILURE),
	N(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED),
	N(CUDA_ERROR_MPS_CLIENT_TERMINATED),
	N(CUDA_ERROR_CDP_NOT_SUPPORTED),
	N(CUDA_ERROR_CDP_VERSION_MISMATCH),
	N(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
	N(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
	N(CUDA_ERROR_STREAM_CAPTURE_MERGE),
	N(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED),
	N(CUDA_ERROR_STREAM_CAPTURE_UNJOINED),
	N(CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
	N(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
	N(CUDA_ERROR_CAPTURED_EVENT),
	N(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD),
	N(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
	N(CUDA_ERROR_EXTERNAL_DEVICE),
	N(CUDA_ERROR_INVALID_CLUSTER_SIZE),
	N(CUDA_ERROR_FUNCTION_NOT_LOADED),
	N(CUDA_ERROR_INVALID_RESOURCE_TYPE),
	N(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION),
	N(CUDA_ERROR_KEY_ROTATION),
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

/* The only conversion table. softgpu_uapi.h documents each errno. */
static const struct {
	int err;
	CUresult result;
} results[] = {
	{ 0, CUDA_SUCCESS },
	{ EINVAL, CUDA_ERROR_INVALID_VALUE },
	{ E2BIG, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH },
	{ ENOTTY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH },
	{ EPROTO, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH },
	{ EFAULT, CUDA_ERROR_INVALID_VALUE },		/* part of a device range does not exist */
	{ EPERM, CUDA_ERROR_NOT_INITIALIZED }, /* a forked child uses its parent's descriptor */
	{ ENOENT, CUDA_ERROR_INVALID_VALUE },
	{ EEXIST, CUDA_ERROR_INVALID_VALUE },
	{ ENOMEM, CUDA_ERROR_OUT_OF_MEMORY },
	{ ENOSPC, CUDA_ERROR_OUT_OF_MEMORY },
	{ EBUSY, CUDA_ERROR_INVALID_VALUE },
	/* from the system: no more threads or locked memory */
	{ EAGAIN, CUDA_ERROR_OUT_OF_MEMORY },
	{ ENODEV, CUDA_ERROR_DEVICE_UNAVAILABLE },
	{ EIO, CUDA_ERROR_ILLEGAL_ADDRESS },
	{ EACCES, CUDA_ERROR_NO_DEVICE },
	{ ENOKEY, CUDA_ERROR_INVALID_VALUE },
	/* memory freed by the exporter is still open there, with another size */
	{ EADDRINUSE, CUDA_ERROR_ALREADY_MAPPED },
};

/* A copy has faulted. From then on, all calls of the process that use a GPU fail. */
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
	return err == -EAGAIN ? CUDA_ERROR_NOT_READY :
				sgu_result_enoent(err, CUDA_ERROR_INVALID_HANDLE);
}
