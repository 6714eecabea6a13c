// SPDX-License-Identifier: MIT
/* init.c - cuInit(): opens the GPUs, and handles fork(). */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "unsupported.h"

pthread_mutex_t sgu_lock = PTHREAD_MUTEX_INITIALIZER;
struct sgu_gpu sgu_gpus[SOFTGPU_MAX_GPUS];

enum state {
	STATE_NEW,		/* cuInit() has not succeeded */
	STATE_STARTING,		/* a thread is in cuInit() */
	STATE_READY,
	STATE_FORKED,		/* in a child whose parent was starting or ready; permanent */
};

_Thread_local bool sgu_in_callback;

static atomic_int state;
static int gpu_count;

int sgu_gpu_count(void)
{
	return gpu_count;
}

static CUresult ready(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) == STATE_READY ?
		CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

bool sgu_forked(void)
{
	return atomic_load(&state) == STATE_FORKED;
}

CUresult sgu_enter(void)
{
	CUresult result = ready();

	return !result && sgu_in_callback ? CUDA_ERROR_NOT_PERMITTED : result;
}

CUresult sgu_enter_alive(void)
{
	CUresult result = sgu_enter();

	return !result && sgu_faulted() ? CUDA_ERROR_ILLEGAL_ADDRESS : result;
}

CUresult sgu_enter_named(void)
{
	CUresult result = ready();

	return !result && sgu_faulted() ? CUDA_ERROR_ILLEGAL_ADDRESS : result;
}

CUresult sgu_refuse(CUresult error)
{
	CUresult result = sgu_enter();

	return result ? result : error;
}

int sgu_unsupported(const char *function, bool told)
{
	if (!told)
		sgu_log("%s: the software GPU does not support this function", function);
	return sgu_refuse(CUDA_ERROR_NOT_SUPPORTED);
}

/*
 * A GPU's address space belongs to the process that made it. A forked child inherits nothing. Every
 * call of the child is refused from here on, so it cannot end objects of its parent either. It must
 * not take locks, because their holders do not exist in the child.
 */
static void forked(void)
{
	if (atomic_load(&state) == STATE_NEW) {
		/*
		 * Another thread may have been entering cuInit(). The lock protected no data yet,
		 * so it can be initialized again.
		 */
		sgu_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
		return;
	}
	/* Also closes files of a start that is not complete. */
	if (atomic_exchange(&state, STATE_FORKED) != STATE_FORKED)
		sgu_forget();
}

static bool fork_handler_ok;
static void __attribute__((constructor)) begin(void)
{
	fork_handler_ok = !pthread_atfork(NULL, NULL, forked);
}

static CUresult start(void)
{
	int n, err;

	n = sgu_open();
	if (n < 0)
		return sgu_result(n);
	if (n == 0)
		return CUDA_ERROR_NO_DEVICE;
	for (int i = 0; i < n; i++) {
		struct softgpu_info *info = &sgu_gpus[i].info;

		err = sgu_info(i, info);
		if (err)
			return sgu_result(err);
		if (!sgu_release_ok(info->driver))
			return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	}
	gpu_count = n;
	err = sgu_window_open(n);
	if (err)
		return err == -EEXIST ? CUDA_ERROR_MPS_MAX_CLIENTS_REACHED : sgu_result(err);
	return fork_handler_ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SGU_EXPORT CUresult cuInit(unsigned int Flags)
{
	CUresult result;

	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	switch (atomic_load(&state)) {
	case STATE_READY:
		return CUDA_SUCCESS;
	case STATE_FORKED:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
	pthread_mutex_lock(&sgu_lock);
	result = ready();
	if (result) {
		atomic_store(&state, STATE_STARTING);
		result = start();
		if (result)
			sgu_forget();
		else
			sgu_not_faulted();
		atomic_store_explicit(&state, result ? STATE_NEW : STATE_READY,
				      memory_order_release);
	}
	pthread_mutex_unlock(&sgu_lock);
	return result;
}

SGU_EXPORT CUresult cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = sgu_release()->cuda;
	return CUDA_SUCCESS;
}
