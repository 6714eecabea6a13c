// SPDX-License-Identifier: MIT
/* cuda13.c - a program of CUDA 13: its interface, names by version, and what newer loaders ask first. */
#include <malloc.h>
#include <pthread.h>
#include <string.h>

#include "test.h"

CASE(contexts_have_parameters)
{
	CUctxCreateParams none = { 0 };
	CUcontext ctx, popped;
	CUdevice device = 9;

	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	OK(cuCtxGetDevice_v2(&device, ctx));
	assert_int_equal(device, 0);
	OK(cuCtxSynchronize_v2(ctx));
	OK(cuCtxPopCurrent(&popped));
	device = 9;
	OK(cuCtxGetDevice_v2(&device, ctx));
	assert_int_equal(device, 0);
	OK(cuCtxDestroy(ctx));
	FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize_v2(ctx));
	OK(cuCtxCreate(&ctx, &none, 0, 0));
	OK(cuCtxDestroy(ctx));
}

/* The status and the function of a name, asked for by a program of a CUDA version. */
static CUdriverProcAddressQueryResult status_of(const char *name, int version, void **fn)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;

	OK(cuGetProcAddress(name, fn, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
	assert_true(!*fn == (status != CU_GET_PROC_ADDRESS_SUCCESS));
	return status;
}

/* As driver 580 answers on an H200. */
CASE(names_belong_to_versions)
{
	void *fn, *older;

	assert_int_equal(status_of("cuMemGetDefaultMemPool", 13000, &fn), CU_GET_PROC_ADDRESS_SUCCESS);
	assert_ptr_equal(fn, cuMemGetDefaultMemPool);
	assert_int_equal(status_of("cuMemGetDefaultMemPool", 12060, &fn),
			 CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_int_equal(status_of("cuMulticastCreate", 13000, &fn), CU_GET_PROC_ADDRESS_SUCCESS);
	assert_int_equal(status_of("cuGraphLaunch", 12000, &fn), CU_GET_PROC_ADDRESS_SUCCESS);
	assert_int_equal(status_of("cuNoSuchCall", 13000, &fn), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_int_equal(status_of("cudbgApiInit", 13000, &fn), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_int_equal(status_of("cuMemAdvise", 13000, &fn), CU_GET_PROC_ADDRESS_SUCCESS);
	assert_ptr_equal(fn, cuMemAdvise_v2);
	assert_int_equal(status_of("cuMemAdvise", 12010, &older), CU_GET_PROC_ADDRESS_SUCCESS);
	assert_ptr_not_equal(fn, older);
	assert_int_equal(status_of("cuCtxCreate", 13000, &fn), CU_GET_PROC_ADDRESS_SUCCESS);
	assert_ptr_equal(fn, cuCtxCreate_v4);
}

CASE(per_thread_functions_are_others)
{
	CUdriverProcAddressQueryResult status;
	void *fn, *legacy;

	OK(cuGetProcAddress("cuMemcpyAsync", &legacy, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
	assert_ptr_equal(legacy, cuMemcpyAsync);
	OK(cuGetProcAddress("cuMemcpyAsync", &fn, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
	assert_ptr_not_equal(fn, legacy);
	OK(cuGetProcAddress("cuMemcpyAsync", &fn, 6050, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	/* with both flags, NVIDIA's driver 580 on an H200 returns the thread's form */
	OK(cuGetProcAddress("cuMemcpyAsync", &legacy, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM |
			    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	OK(cuGetProcAddress("cuMemcpyAsync", &fn, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	assert_ptr_equal(legacy, fn);
	/* a function without a stream has one form */
	OK(cuGetProcAddress("cuMemAlloc", &fn, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	assert_ptr_equal(fn, cuMemAlloc_v2);
}

CASE(what_is_not_supported_says_so)
{
	CUresult (*graph_create)(CUgraph *graph, unsigned int flags);
	CUgraph graph = NULL;

	assert_int_equal(status_of("cuGraphCreate", 13000, (void **)&graph_create), CU_GET_PROC_ADDRESS_SUCCESS);
	FAILS(CUDA_ERROR_NOT_SUPPORTED, graph_create(&graph, 0));
	assert_null(graph);
}

/* What a thread sees of its own default stream. */
struct seen {
	CUcontext ctx;
	CUresult result;
	unsigned long long id, again;
};

static void *look(void *arg)
{
	struct seen *seen = arg;

	seen->result = cuCtxSetCurrent(seen->ctx);
	if (!seen->result)
		seen->result = cuStreamGetId(CU_STREAM_PER_THREAD, &seen->id);
	if (!seen->result)
		seen->result = cuStreamGetId(CU_STREAM_PER_THREAD, &seen->again);
	return NULL;
}

CASE(each_thread_has_its_default_stream)
{
	struct seen mine = { .ctx = test_context() }, other = mine;
	unsigned long long legacy;
	unsigned int flags = 9;
	pthread_t thread;

	look(&mine);
	OK(mine.result);
	assert_true(mine.id == mine.again);
	assert_int_equal(pthread_create(&thread, NULL, look, &other), 0);
	pthread_join(thread, NULL);
	OK(other.result);
	assert_true(other.id == other.again && other.id != mine.id);
	OK(cuStreamGetId(NULL, &legacy));
	assert_true(legacy != mine.id);
	OK(cuStreamGetFlags(CU_STREAM_PER_THREAD, &flags));
	assert_int_equal(flags, CU_STREAM_DEFAULT);
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(CU_STREAM_PER_THREAD));
}

CASE(a_context_ends_with_its_threads_streams)
{
	unsigned long long first, second;
	CUcontext ctx;

	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &first));
	OK(cuCtxDestroy(ctx));
	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &second));
	assert_true(first != second);
	OK(cuCtxDestroy(ctx));
}

static void contexts_with_a_stream(int n)
{
	unsigned long long id;
	CUcontext ctx;

	for (int i = 0; i < n; i++) {
		OK(cuCtxCreate(&ctx, NULL, 0, 0));
		OK(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
		OK(cuCtxDestroy(ctx));
	}
}

/* Sanitizers count no memory here. */
CASE(streams_of_ended_contexts_are_given_back)
{
	size_t before;

	ONLY_SOFTGPU("the memory that NVIDIA's driver takes for a stream is not known");
	contexts_with_a_stream(10);
	before = mallinfo2().uordblks;
	contexts_with_a_stream(5000);
	assert_true(mallinfo2().uordblks < before + 100 * KIB);
}

CASE(copies_of_the_threads_stream)
{
	CUresult (*to_device)(CUdeviceptr dst, const void *src, size_t n);
	CUresult (*fill)(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream);
	CUresult (*wait)(CUstream stream);
	CUdriverProcAddressQueryResult status;
	unsigned char in[256], out[256];
	CUdeviceptr ptr;

	OK(cuGetProcAddress("cuMemcpyHtoD", (void **)&to_device, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	OK(cuGetProcAddress("cuMemsetD8Async", (void **)&fill, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	OK(cuGetProcAddress("cuStreamSynchronize", (void **)&wait, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	OK(cuMemAlloc(&ptr, sizeof(in)));
	memset(in, 7, sizeof(in));
	OK(to_device(ptr, in, sizeof(in)));
	OK(cuMemcpyDtoH(out, ptr, sizeof(out)));
	assert_memory_equal(in, out, sizeof(in));
	OK(fill(ptr, 9, 16, NULL));
	OK(wait(NULL));
	OK(cuMemcpyDtoH(out, ptr, sizeof(out)));
	assert_true(out[0] == 9 && out[15] == 9 && out[16] == 7);
	OK(cuMemFree(ptr));
}

CASE(limits_and_preferences_are_kept)
{
	CUfunc_cache config = (CUfunc_cache)9;
	size_t size = 0;

	OK(cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE));
	assert_int_equal(size, 1024);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	OK(cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE));
	assert_int_equal(size, 4096);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	FAILS(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit(&size, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH));
	OK(cuCtxGetLimit(&size, CU_LIMIT_CIG_ENABLED));
	BAD(cuCtxGetLimit(&size, CU_LIMIT_MAX));
	BAD(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
	OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
	OK(cuCtxGetCacheConfig(&config));
	assert_int_equal(config, CU_FUNC_CACHE_PREFER_L1);
	OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
	OK(cuProfilerStart());
	OK(cuProfilerStop());
}

CASE(no_stream_is_captured)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	CUstream s;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamIsCapturing(s, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	OK(cuStreamGetCaptureInfo(s, &status, NULL, NULL, NULL, NULL, NULL));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuStreamDestroy(s));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}

CASE(pools_by_location)
{
	CUmemLocation at = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	CUmemoryPool pool, same;

	OK(cuMemGetDefaultMemPool(&pool, &at, CU_MEM_ALLOCATION_TYPE_PINNED));
	OK(cuDeviceGetDefaultMemPool(&same, 0));
	assert_ptr_equal(pool, same);
	OK(cuMemGetMemPool(&pool, &at, CU_MEM_ALLOCATION_TYPE_PINNED));
	OK(cuMemSetMemPool(&at, CU_MEM_ALLOCATION_TYPE_PINNED, same));
	BAD(cuMemGetMemPool(&pool, NULL, CU_MEM_ALLOCATION_TYPE_PINNED));
	BAD(cuMemGetMemPool(NULL, &at, CU_MEM_ALLOCATION_TYPE_PINNED));
}

CASE(two_gpus_are_no_peers)
{
	CUcontext ctx, peer;
	int value = 9;

	ONLY_SOFTGPU("two GPUs may be peers");
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
	OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	assert_int_equal(value, 0);
	OK(cuCtxCreate(&peer, NULL, 0, 1));
	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	FAILS(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(peer, 0));
	FAILS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(peer));
	OK(cuCtxDestroy(ctx));
	OK(cuCtxDestroy(peer));
}

MAIN(gpu_setup, gpu_teardown)
