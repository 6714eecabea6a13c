// SPDX-License-Identifier: MIT
/* init.c - sessions: nvmlInit(), nvmlShutdown(), and properties of the system. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nvml_int.h"
#include "release.h"
#include "unsupported.h"

/* Protects the variables below and the transport. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int sessions;
static pid_t opened_by;
static int gpu_count;

/*
 * Runs in a forked child. A thread that does not exist in the child may have held the lock, so it
 * is initialized again.
 */
static void forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void __attribute__((constructor)) begin(void)
{
	pthread_atfork(NULL, NULL, forked);
}

/* A handle is the address of an element. */
static char devices[SOFTGPU_MAX_GPUS];

nvmlDevice_t nvml_device(int gpu)
{
	return (nvmlDevice_t)&devices[gpu];
}

int nvml_gpu(nvmlDevice_t device)
{
	const char *p = (const char *)device;

	return p >= devices && p < devices + SOFTGPU_MAX_GPUS ? (int)(p - devices) : -1;
}

nvmlReturn_t nvml_result(int err)
{
	switch (-err) {
	case 0:
		return NVML_SUCCESS;
	case EACCES:
	case EPERM:
		return NVML_ERROR_NO_PERMISSION;
	case ENODEV:
		return NVML_ERROR_GPU_IS_LOST;
	case ENOMEM:
		return NVML_ERROR_MEMORY;
	case E2BIG:
	case ENOTTY:
	case EPROTO:
		return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
	default:
		return NVML_ERROR_UNKNOWN;
	}
}

static nvmlReturn_t check_gpu(int gpu)
{
	struct softgpu_info info;
	int err = sgu_info(gpu, &info);

	/* One that has been removed is reported by the calls for it. */
	if (err == -ENODEV)
		return NVML_SUCCESS;
	if (err)
		return nvml_result(err);
	return sgu_release_ok(info.driver) ? NVML_SUCCESS : NVML_ERROR_LIB_RM_VERSION_MISMATCH;
}

static nvmlReturn_t open_locked(void)
{
	nvmlReturn_t result = NVML_SUCCESS;
	int n;

	nvml_follow_cuda();
	n = sgu_open();
	if (n < 0)
		return nvml_result(n);
	for (int i = 0; i < n && !result; i++)
		result = check_gpu(i);
	if (result) {
		sgu_forget();
		return result;
	}
	gpu_count = n;
	opened_by = getpid();
	return NVML_SUCCESS;
}

/* An open file belongs to the process that opened it, so a forked child opens its own. */
static nvmlReturn_t enter_locked(void)
{
	if (!sessions)
		return NVML_ERROR_UNINITIALIZED;
	if (opened_by == getpid())
		return NVML_SUCCESS;
	sgu_forget();
	return open_locked();
}

nvmlReturn_t nvml_enter(int *gpus)
{
	nvmlReturn_t result;

	pthread_mutex_lock(&lock);
	result = enter_locked();
	*gpus = gpu_count;
	pthread_mutex_unlock(&lock);
	return result;
}

nvmlReturn_t nvml_info(nvmlDevice_t device, struct softgpu_info *info)
{
	nvmlReturn_t result;
	int gpu;

	memset(info, 0, sizeof(*info));
	pthread_mutex_lock(&lock);
	result = enter_locked();
	if (!result) {
		gpu = nvml_gpu(device);
		if (gpu < 0 || gpu >= gpu_count)
			result = NVML_ERROR_INVALID_ARGUMENT;
		else
			result = nvml_result(sgu_info(gpu, info));
	}
	pthread_mutex_unlock(&lock);
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	nvmlReturn_t result = NVML_SUCCESS;

	if (flags & ~(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH))
		return NVML_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&lock);
	if (!sessions) {
		result = open_locked();
		if (!result && !gpu_count && !(flags & NVML_INIT_FLAG_NO_GPUS))
			result = NVML_ERROR_DRIVER_NOT_LOADED;
	}
	if (!result)
		sessions++;
	pthread_mutex_unlock(&lock);
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t result = NVML_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!sessions)
		result = NVML_ERROR_UNINITIALIZED;
	else if (--sessions == 0)
		sgu_forget();
	pthread_mutex_unlock(&lock);
	return result;
}

nvmlReturn_t nvml_text(char *to, unsigned int length, const char *text)
{
	size_t size = strlen(text) + 1;

	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (length < size)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(to, text, size);
	return NVML_SUCCESS;
}

int nvml_unsupported(const char *function, bool told)
{
	int gpus;
	nvmlReturn_t result = nvml_enter(&gpus);

	if (!told)
		sgu_log("%s: the software GPU does not support this function", function);
	return result ? result : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t version_text(char *to, unsigned int length, const char *text)
{
	int gpus;
	nvmlReturn_t result = nvml_enter(&gpus);

	return result ? result : nvml_text(to, length, text);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	return version_text(version, length, sgu_release()->version);
}

/* NVML's own version is CUDA's, with that of the driver behind it. */
NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	const struct sg_release *release = sgu_release();
	char text[32];

	snprintf(text, sizeof(text), "%u.%s", release->cuda / 1000, release->version);
	return version_text(version, length, text);
}

/* Works without nvmlInit(). */
NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
	if (!cudaDriverVersion)
		return NVML_ERROR_INVALID_ARGUMENT;
	*cudaDriverVersion = sgu_release()->cuda;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
	return nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

static const char *const texts[] = {
	[NVML_SUCCESS] = "no error",
	[NVML_ERROR_UNINITIALIZED] = "nvmlInit has not been called",
	[NVML_ERROR_INVALID_ARGUMENT] = "an argument is not valid",
	[NVML_ERROR_NOT_SUPPORTED] = "the software GPU does not support this",
	[NVML_ERROR_NO_PERMISSION] = "not permitted: may this user open /dev/softgpu*?",
	[NVML_ERROR_ALREADY_INITIALIZED] = "initialized already",
	[NVML_ERROR_NOT_FOUND] = "not found",
	[NVML_ERROR_INSUFFICIENT_SIZE] = "the buffer is too small",
	[NVML_ERROR_INSUFFICIENT_POWER] = "not enough power",
	[NVML_ERROR_DRIVER_NOT_LOADED] = "no software GPU: is softgpu.ko loaded?",
	[NVML_ERROR_TIMEOUT] = "timed out",
	[NVML_ERROR_IRQ_ISSUE] = "trouble with interrupts",
	[NVML_ERROR_LIBRARY_NOT_FOUND] = "a library was not found",
	[NVML_ERROR_FUNCTION_NOT_FOUND] = "the function is not there",
	[NVML_ERROR_CORRUPTED_INFOROM] = "the GPU's own records are damaged",
	[NVML_ERROR_GPU_IS_LOST] = "the GPU was removed",
	[NVML_ERROR_RESET_REQUIRED] = "the GPU needs a reset",
	[NVML_ERROR_OPERATING_SYSTEM] = "the operating system refused a call",
	[NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "this library and the driver do not match",
	[NVML_ERROR_IN_USE] = "in use",
	[NVML_ERROR_MEMORY] = "not enough memory",
	[NVML_ERROR_NO_DATA] = "no data",
	[NVML_ERROR_VGPU_ECC_NOT_SUPPORTED] = "not supported with error correction",
	[NVML_ERROR_INSUFFICIENT_RESOURCES] = "not enough resources",
	[NVML_ERROR_FREQ_NOT_SUPPORTED] = "the frequency is not supported",
	[NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "the version of a struct is not known",
	[NVML_ERROR_DEPRECATED] = "no longer supported",
	[NVML_ERROR_NOT_READY] = "not ready",
	[NVML_ERROR_GPU_NOT_FOUND] = "no GPU was found",
	[NVML_ERROR_INVALID_STATE] = "not in the state for this call",
};

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	if ((unsigned int)result < sizeof(texts) / sizeof(texts[0]))
		return texts[result];
	return "unknown error";
}

/* ---- names without a version ---- */

#undef nvmlInit
NVML_EXPORT nvmlReturn_t nvmlInit(void);
NVML_EXPORT nvmlReturn_t nvmlInit(void)
{
	return nvmlInit_v2();
}
