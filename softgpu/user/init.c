// SPDX-License-Identifier: MIT
/* init.c - cuInit: the GPUs, the window of CUDA addresses, and fork. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

pthread_mutex_t sgu_lock = PTHREAD_MUTEX_INITIALIZER;
struct sgu_gpu sgu_gpus[SOFTGPU_MAX_GPUS];

enum state {
	STATE_NEW,		/* cuInit has not succeeded */
	STATE_READY,
	STATE_FORKED,		/* in the child of a process that was ready: for good */
};

static atomic_int state;
static int gpu_count;
static uint64_t window_base, window_end;

int sgu_gpu_count(void)
{
	return gpu_count;
}

bool sgu_in_window(uint64_t va)
{
	return va >= window_base && va < window_end;
}

CUresult sgu_enter(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) == STATE_READY ?
		CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

/*
 * A GPU's address space belongs to the process that made it.  The child takes
 * nothing over and, since every call is refused from here on, ends nothing of
 * its parent's either.  It must not touch locks: their holders are not here.
 */
static void forked(void)
{
	if (atomic_load(&state) != STATE_READY)
		return;
	atomic_store(&state, STATE_FORKED);
	sgu_forget();
}

/*
 * CUDA promises one address range for host and GPU memory.  We take it where
 * documents and old clients expect it, below 2^40, if something is free there.
 */
static void *take_window(size_t *length)
{
	static const uint64_t gib = 1ull << 30;
	static const unsigned int lengths[] = { 64, 16, 4, 1 };
	void *addr;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		*length = lengths[i] * gib;
		for (uint64_t base = 64 * gib; base + *length <= 1024 * gib; base += 64 * gib) {
			addr = sgu_reserve((void *)base, *length, MAP_FIXED_NOREPLACE);
			if (addr == (void *)base)
				return addr;
			/* a kernel that does not know the flag takes it for a hint */
			if (addr != MAP_FAILED)
				munmap(addr, *length);
		}
	}
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		*length = lengths[i] * gib;
		addr = sgu_reserve(NULL, *length, 0);
		if (addr != MAP_FAILED)
			return addr;
	}
	sgu_log("cannot reserve CUDA's window of addresses: %s (is ulimit -v set?)", strerror(errno));
	return NULL;
}

static CUresult open_window(void)
{
	struct softgpu_window window = { .size = sizeof(window) };
	uint64_t misaligned;
	size_t length;
	void *addr;
	int err = 0;

	addr = take_window(&length);
	if (!addr)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* mmap aligns to the CPU's pages, the window to the GPU's */
	misaligned = -(uint64_t)addr & (SGU_PAGE - 1);
	window.base = (uint64_t)addr + misaligned;
	window.length = (length - misaligned) & ~(SGU_PAGE - 1);

	for (int i = 0; i < gpu_count && !err; i++)
		err = sgu_call(i, SOFTGPU_WINDOW, &window);
	if (err) {
		munmap(addr, length);
		return sgu_result(err);
	}
	/* another copy of this library in the process was first: its window holds */
	if (window.base != (uint64_t)addr + misaligned)
		munmap(addr, length);
	else
		madvise(addr, length, MADV_DONTFORK);
	window_base = window.base;
	window_end = window.base + window.length;
	return CUDA_SUCCESS;
}

static CUresult start(void)
{
	CUresult result;
	int n, err;

	n = sgu_open();
	if (n < 0)
		return sgu_result(n);
	if (n == 0)
		return CUDA_ERROR_NO_DEVICE;
	for (int i = 0; i < n; i++) {
		struct softgpu_info *info = &sgu_gpus[i].info;

		memset(info, 0, sizeof(*info));
		info->size = sizeof(*info);
		err = sgu_call(i, SOFTGPU_INFO, info);
		if (err)
			return sgu_result(err);
		if (info->abi != SOFTGPU_ABI) {
			sgu_log("the driver speaks interface %u, this library %u: install both from one build",
				info->abi, SOFTGPU_ABI);
			return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
		}
	}
	gpu_count = n;
	result = open_window();
	if (result)
		return result;
	return pthread_atfork(NULL, NULL, forked) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
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
	result = sgu_enter();
	if (result) {
		result = start();
		if (!result)
			atomic_store_explicit(&state, STATE_READY, memory_order_release);
		else
			sgu_forget();
	}
	pthread_mutex_unlock(&sgu_lock);
	return result;
}

SGU_EXPORT CUresult cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = CUDA_VERSION;
	return CUDA_SUCCESS;
}
