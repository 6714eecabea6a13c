// SPDX-License-Identifier: MIT
/* runtime13.c - a program of CUDA 13's runtime: what 13 changed, and what newer loaders ask first. */
#include <dlfcn.h>

#include "cuda_runtime_api.h"
#include "test.h"

#define RT(call)	assert_int_equal(call, cudaSuccess)
#define RT_FAILS(error, call)	assert_int_equal(call, error)

CASE(versions)
{
	int version = 0;

	RT(cudaRuntimeGetVersion(&version));
	assert_int_equal(version, CUDART_VERSION);
	RT(cudaDriverGetVersion(&version));
	assert_true(version >= 13000);
}

CASE(properties_have_the_layout_of_13)
{
	struct cudaDeviceProp prop;
	int major = 0, sms = 0;

	memset(&prop, 0x5a, sizeof(prop));
	RT(cudaGetDeviceProperties(&prop, 0));
	RT(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	RT(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	assert_int_equal(prop.major, major);
	assert_int_equal(prop.multiProcessorCount, sms);
	assert_int_equal(prop.warpSize, 32);
	assert_true(prop.gpuDirectRDMASupported == 1 && prop.memoryPoolsSupported == 1);
}

CASE(functions_of_the_driver)
{
	enum cudaDriverEntryPointQueryResult status = (enum cudaDriverEntryPointQueryResult)9;
	void *fn = NULL, *own = NULL;

	RT(cudaGetDriverEntryPoint("cuMemAlloc", &fn, cudaEnableDefault, &status));
	assert_int_equal(status, cudaDriverEntryPointSuccess);
	assert_ptr_equal(fn, cuMemAlloc_v2);
	RT(cudaGetDriverEntryPointByVersion("cuMemGetMemPool", &fn, 12060, cudaEnableDefault, &status));
	assert_int_equal(status, cudaDriverEntryPointVersionNotSufficent);
	assert_null(fn);
	RT(cudaGetDriverEntryPoint("cuNoSuchCall", &fn, cudaEnableDefault, &status));
	assert_int_equal(status, cudaDriverEntryPointSymbolNotFound);
	RT(cudaGetDriverEntryPoint("cuMemcpyAsync", &fn, cudaEnableLegacyStream, &status));
	RT(cudaGetDriverEntryPoint("cuMemcpyAsync", &own, cudaEnablePerThreadDefaultStream, NULL));
	assert_true(fn && own && fn != own);
	RT_FAILS(cudaErrorInvalidValue, cudaGetDriverEntryPoint(NULL, &fn, cudaEnableDefault, &status));
	RT_FAILS(cudaErrorInvalidValue, cudaGetDriverEntryPoint("cuInit", &fn, 4, &status));
	cudaGetLastError();
}

CASE(managed_memory_by_location)
{
	struct cudaMemLocation gpu = { .type = cudaMemLocationTypeDevice, .id = 0 };
	int where = 9, type = 9;
	void *p;

	RT(cudaMallocManaged(&p, 1 << 20, cudaMemAttachGlobal));
	RT(cudaMemAdvise(p, 1 << 20, cudaMemAdviseSetPreferredLocation, gpu));
	RT(cudaMemPrefetchAsync(p, 1 << 20, gpu, 0, NULL));
	RT(cudaDeviceSynchronize());
	RT(cudaMemRangeGetAttribute(&type, sizeof(type), cudaMemRangeAttributePreferredLocationType, p, 1 << 20));
	RT(cudaMemRangeGetAttribute(&where, sizeof(where), cudaMemRangeAttributePreferredLocationId, p, 1 << 20));
	assert_true(type == cudaMemLocationTypeDevice && where == 0);
	RT(cudaStreamAttachMemAsync(NULL, p, 0, cudaMemAttachGlobal));
	RT(cudaFree(p));
}

CASE(batches)
{
	struct cudaMemcpyAttributes attr = { .srcAccessOrder = cudaMemcpySrcAccessOrderStream };
	unsigned char in[2][64], out[2][64];
	const void *from[2] = { in[0], in[1] };
	size_t sizes[2] = { 64, 64 }, first = 0;
	cudaStream_t stream;
	void *device[2];

	memset(in[0], 1, 64);
	memset(in[1], 2, 64);
	RT(cudaStreamCreate(&stream));
	RT(cudaMalloc(&device[0], 128));
	device[1] = (char *)device[0] + 64;
	RT(cudaMemcpyBatchAsync(device, from, sizes, 2, &attr, &first, 1, stream));
	RT(cudaStreamSynchronize(stream));
	RT(cudaMemcpy(out, device[0], 128, cudaMemcpyDeviceToHost));
	assert_memory_equal(in, out, 128);
	RT(cudaFree(device[0]));
	RT(cudaStreamDestroy(stream));
}

CASE(what_is_not_supported_says_so)
{
	int (*graph_create)(void **graph, unsigned int flags) = (int (*)(void **, unsigned int))dlsym(RTLD_DEFAULT, "cudaGraphCreate");
	void *graph;

	assert_non_null(graph_create);
	RT_FAILS(cudaErrorNotSupported, graph_create(&graph, 0));
	RT_FAILS(cudaErrorNotSupported, cudaGetLastError());
}

/* What nvcc's code calls before main() must not fail, or the program dies of it. */
CASE(a_program_with_kernels_starts)
{
	void **(*reg)(void *) = (void **(*)(void *))dlsym(RTLD_DEFAULT, "__cudaRegisterFatBinary");
	void (*end)(void **) = (void (*)(void **))dlsym(RTLD_DEFAULT, "__cudaRegisterFatBinaryEnd");
	void (*unreg)(void **) = (void (*)(void **))dlsym(RTLD_DEFAULT, "__cudaUnregisterFatBinary");
	void **handle;

	assert_true(reg && end && unreg);
	handle = reg(NULL);
	assert_non_null(handle);
	end(handle);
	unreg(handle);
}

CASE(peers)
{
	int can = 9;

	ONLY_SOFTGPU("two GPUs may be peers");
	RT(cudaDeviceCanAccessPeer(&can, 0, 1));
	assert_int_equal(can, 0);
	RT_FAILS(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(1, 0));
	RT_FAILS(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0));
	RT_FAILS(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
	RT_FAILS(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(2, 0));
	cudaGetLastError();
}

/* A runtime of 13 needs a driver of 13. */
static int older_driver(void)
{
	int count;

	setenv("SOFTGPU_DRIVER", "575", 1);
	return cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--older-driver"))
		return older_driver();
	return cases_run(gpu_setup, gpu_teardown);
}
