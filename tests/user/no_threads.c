// SPDX-License-Identifier: MIT
/*
 * no_threads.c - no thread can be made: the libraries' calls that need one say that something is lacking, and not that work is
 * not done yet. Then, with threads, they work.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "hsa/hsa_ext_amd.h"
#include "test.h"

static unsigned int left = -1u;		/* how many threads can still be made */

/* As with a limit of processes, which does not stop root. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int (*real)(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *arg), void *arg);

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return left && left-- ? real(thread, attr, run, arg) : EAGAIN;
}

/* First: each GPU has threads of its own. */
CASE(starts)
{
	unsigned int n = 0;
	CUresult r;

	for (; n < 100; n++) {
		left = n;
		r = cuInit(0);
		if (!r)
			break;
		assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
	}
	assert_int_equal(r, CUDA_SUCCESS);
	assert_true(n > 1);
}

static void CUDA_CB called(void *flag)
{
	*(bool *)flag = true;
}

CASE(streams)
{
	bool was_called = false;
	CUdeviceptr p;
	CUcontext ctx;
	CUstream s;

	left = -1u;
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc(&p, 4096));
	OK(cuMemsetD8(p, 0, 4096));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	left = 0;
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuStreamWaitValue32(s, p, 1, CU_STREAM_WAIT_VALUE_EQ));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuLaunchHostFunc(s, called, &was_called));
	OK(cuStreamQuery(s));
	left = -1u;
	OK(cuStreamWaitValue32(s, p, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuLaunchHostFunc(s, called, &was_called));
	/* That is what the word is for. */
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
	OK(cuMemsetD32(p, 1, 1));
	OK(cuStreamSynchronize(s));
	assert_true(was_called);
	OK(cuStreamDestroy(s));
	OK(cuMemFree(p));
	OK(cuDevicePrimaryCtxRelease(0));
}

static hsa_status_t take(hsa_agent_t agent, void *data)
{
	*(hsa_agent_t *)data = agent;
	return HSA_STATUS_INFO_BREAK;
}

CASE(copies)
{
	hsa_signal_t done;
	hsa_agent_t cpu;
	char a = 1, b = 2;

	assert_int_equal(hsa_init(), HSA_STATUS_SUCCESS);
	assert_int_equal(hsa_iterate_agents(take, &cpu), HSA_STATUS_INFO_BREAK);
	assert_int_equal(hsa_signal_create(1, 0, NULL, &done), HSA_STATUS_SUCCESS);
	left = 0;
	assert_int_equal(hsa_amd_memory_async_copy(&a, cpu, &b, cpu, 1, 0, NULL, done), HSA_STATUS_ERROR_OUT_OF_RESOURCES);
	left = -1u;
	assert_int_equal(hsa_signal_load_relaxed(done), 1);
	assert_int_equal(a, 1);
	assert_int_equal(hsa_amd_memory_async_copy(&a, cpu, &b, cpu, 1, 0, NULL, done), HSA_STATUS_SUCCESS);
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED), 0);
	assert_int_equal(a, 2);
	assert_int_equal(hsa_shut_down(), HSA_STATUS_SUCCESS);
}

MAIN(NULL, NULL)
