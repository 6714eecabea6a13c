// SPDX-License-Identifier: MIT
/* runtime.c - the runtime API. */
#include <pthread.h>

#include "test.h"
#include "cuda_runtime.h"

static void check_rt(cudaError_t got, cudaError_t want, const char *call, const char *file, int line)
{
	if (got == want)
		return;
	print_error("%s: %s (%d), not %s\n", call, cudaGetErrorName(got), got, cudaGetErrorName(want));
	_fail(file, line);
}

#define ROK(call)		check_rt(call, cudaSuccess, #call, __FILE__, __LINE__)
#define RFAILS(error, call)	check_rt(call, error, #call, __FILE__, __LINE__)

CASE(start)
{
	int n, v;

	ROK(cudaRuntimeGetVersion(&v));
	assert_true(v >= 12000);
	ROK(cudaGetDeviceCount(&n));
	assert_true(n >= 1);
	ROK(cudaFree(NULL));
	ROK(cudaGetDevice(&v));
	assert_int_equal(v, 0);
}

CASE(last_error)
{
	void *p;

	ROK(cudaGetLastError());
	RFAILS(cudaErrorMemoryAllocation, cudaMalloc(&p, (size_t)1 << 50));
	RFAILS(cudaErrorMemoryAllocation, cudaPeekAtLastError());
	ROK(cudaMalloc(&p, 100));
	ROK(cudaFree(p));
	RFAILS(cudaErrorMemoryAllocation, cudaGetLastError());
	ROK(cudaGetLastError());
	RFAILS(cudaErrorInvalidDevice, cudaSetDevice(1000));
	RFAILS(cudaErrorInvalidDevice, cudaGetLastError());
	assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
	assert_true(strlen(cudaGetErrorString(cudaErrorMemoryAllocation)) > 0);
	assert_non_null(cudaGetErrorString((cudaError_t)12345));
}

static void *other_thread(void *arg)
{
	void *p;

	ROK(cudaPeekAtLastError());
	/* no context of its own yet: it gets one */
	ROK(cudaMalloc(&p, 100));
	ROK(cudaFree(p));
	RFAILS(cudaErrorInvalidValue, cudaFree((void *)0x1234));
	return NULL;
}

CASE(threads)
{
	pthread_t t;

	pthread_create(&t, NULL, other_thread, NULL);
	pthread_join(t, NULL);
	ROK(cudaGetLastError());
}

CASE(properties)
{
	cudaError_t (*plain)(struct cudaDeviceProp *, int) = cudaGetDeviceProperties;
	struct cudaDeviceProp prop;
	int v;

	ROK(plain(&prop, 0));
	assert_true(strlen(prop.name) > 3);
	assert_true(prop.totalGlobalMem >= 16 * MIB);
	assert_int_equal(prop.unifiedAddressing, 1);
	assert_int_equal(prop.gpuDirectRDMASupported, 1);
	assert_int_equal(prop.warpSize, 32);
	assert_true(prop.memPitch == 2147483647);
	ROK(cudaDeviceGetAttribute(&v, cudaDevAttrPciBusId, 0));
	assert_int_equal(v, prop.pciBusID);
	RFAILS(cudaErrorInvalidDevice, cudaGetDeviceProperties(&prop, 1000));
	cudaGetLastError();
}

CASE(pointers)
{
	struct cudaPointerAttributes a;
	void *d, *h, *m;

	ROK(cudaMalloc(&d, 100));
	ROK(cudaMallocHost(&h, 100));
	ROK(cudaMallocManaged(&m, 100, cudaMemAttachGlobal));
	ROK(cudaPointerGetAttributes(&a, (char *)d + 5));
	assert_int_equal(a.type, cudaMemoryTypeDevice);
	assert_int_equal(a.device, 0);
	assert_ptr_equal(a.devicePointer, (char *)d + 5);
	assert_null(a.hostPointer);
	ROK(cudaPointerGetAttributes(&a, h));
	assert_int_equal(a.type, cudaMemoryTypeHost);
	assert_ptr_equal(a.devicePointer, h);
	assert_ptr_equal(a.hostPointer, h);
	ROK(cudaPointerGetAttributes(&a, m));
	assert_int_equal(a.type, cudaMemoryTypeManaged);
	ROK(cudaPointerGetAttributes(&a, &a));
	assert_int_equal(a.type, cudaMemoryTypeUnregistered);
	assert_int_equal(a.device, cudaInvalidDeviceId);
	assert_null(a.devicePointer);
	ROK(cudaFree(d));
	ROK(cudaFree(m));
	ROK(cudaFreeHost(h));
	RFAILS(cudaErrorInvalidValue, cudaFree(&a));
	ROK(cudaMalloc(&d, 0));
	assert_null(d);
	cudaGetLastError();
}

CASE(copies)
{
	char in[1000], out[1000], *d, *d2, *h;
	cudaStream_t s;
	cudaEvent_t e, f;
	float ms;

	for (int i = 0; i < 1000; i++)
		in[i] = i * 7;
	ROK(cudaMalloc((void **)&d, 1000));
	ROK(cudaMalloc((void **)&d2, 1000));
	ROK(cudaHostAlloc((void **)&h, 1000, cudaHostAllocMapped));
	ROK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	ROK(cudaEventCreateWithFlags(&e, cudaEventDefault));
	ROK(cudaEventCreate(&f));

	ROK(cudaMemcpy(d, in, 1000, cudaMemcpyHostToDevice));
	ROK(cudaMemcpy(d2, d, 1000, cudaMemcpyDeviceToDevice));
	ROK(cudaMemcpy(out, d2, 1000, cudaMemcpyDeviceToHost));
	assert_memory_equal(in, out, 1000);
	ROK(cudaMemcpy(out, in + 1, 900, cudaMemcpyHostToHost));
	ROK(cudaMemcpy(d, out, 900, cudaMemcpyDefault));
	memset(out, 0, sizeof(out));
	ROK(cudaMemcpy(out, d, 900, cudaMemcpyDefault));
	assert_memory_equal(in + 1, out, 900);
	RFAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(out, d, 9, (enum cudaMemcpyKind)9));
	RFAILS(cudaErrorInvalidValue, cudaMemcpy(out, in, 9, cudaMemcpyHostToDevice));
	RFAILS(cudaErrorInvalidValue, cudaMemcpy(out, d, 1001, cudaMemcpyDeviceToHost));
	RFAILS(cudaErrorInvalidValue, cudaMemset(out, 0, 9));
	RFAILS(cudaErrorInvalidValue, cudaMemsetAsync(out, 0, 9, s));

	ROK(cudaEventRecord(e, s));
	ROK(cudaMemsetAsync(d, 0x5a, 1000, s));
	ROK(cudaMemcpyAsync(h, d, 1000, cudaMemcpyDeviceToHost, s));
	ROK(cudaEventRecord(f, s));
	ROK(cudaEventSynchronize(f));
	ROK(cudaEventQuery(f));
	ROK(cudaEventElapsedTime(&ms, e, f));
	assert_true(ms >= 0);
	assert_int_equal(h[999], 0x5a);
	ROK(cudaStreamWaitEvent(s, f, 0));
	ROK(cudaStreamSynchronize(s));
	ROK(cudaStreamQuery(s));

	/* 3 rows of 5 bytes */
	ROK(cudaMemset(d, 0, 1000));
	ROK(cudaMemcpy2D(d, 100, in, 10, 5, 3, cudaMemcpyHostToDevice));
	ROK(cudaMemcpy(out, d, 1000, cudaMemcpyDeviceToHost));
	assert_memory_equal(out + 200, in + 20, 5);
	assert_int_equal(out[205], 0);
	RFAILS(cudaErrorInvalidPitchValue, cudaMemcpy2D(d, 4, in, 10, 5, 3, cudaMemcpyHostToDevice));
	ROK(cudaMemset2D(d, 100, 9, 5, 3));
	/* a non-blocking stream does not wait for the default one */
	ROK(cudaDeviceSynchronize());
	ROK(cudaMemcpy2DAsync(h, 5, d, 100, 5, 3, cudaMemcpyDefault, s));
	ROK(cudaStreamSynchronize(s));
	assert_int_equal(h[14], 9);

	ROK(cudaDeviceSynchronize());
	ROK(cudaEventDestroy(e));
	ROK(cudaEventDestroy(f));
	ROK(cudaStreamDestroy(s));
	ROK(cudaFree(d));
	ROK(cudaFree(d2));
	ROK(cudaFreeHost(h));
	cudaGetLastError();
}

CASE(registered)
{
	void *r = aligned_alloc(4096, 8192), *d;
	unsigned int flags;

	ROK(cudaHostRegister(r, 8192, cudaHostRegisterMapped));
	RFAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(r, 8192, 0));
	ROK(cudaHostGetDevicePointer(&d, r, 0));
	assert_ptr_equal(d, r);
	ROK(cudaHostGetFlags(&flags, r));
	assert_int_equal(flags, cudaHostRegisterMapped);
	ROK(cudaHostUnregister(r));
	RFAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(r));
	free(r);
	cudaGetLastError();
}

CASE(several_devices)
{
	int n, v;
	void *a, *b;
	char out[5];

	ROK(cudaGetDeviceCount(&n));
	if (n < 2)
		skip();
	ROK(cudaMalloc(&a, 100));
	ROK(cudaSetDevice(1));
	ROK(cudaGetDevice(&v));
	assert_int_equal(v, 1);
	ROK(cudaMalloc(&b, 100));
	struct cudaPointerAttributes attr;
	ROK(cudaPointerGetAttributes(&attr, b));
	assert_int_equal(attr.device, 1);
	ROK(cudaMemcpy(a, "peer", 5, cudaMemcpyDefault));
	ROK(cudaMemcpyPeer(b, 1, a, 0, 5));
	ROK(cudaMemcpy(out, b, 5, cudaMemcpyDeviceToHost));
	assert_string_equal(out, "peer");
	RFAILS(cudaErrorInvalidDevice, cudaMemcpyPeer(b, 1000, a, 0, 5));
	cudaGetLastError();
	ROK(cudaFree(b));
	ROK(cudaSetDevice(0));
	ROK(cudaFree(a));
}

/* Both APIs in one program: the runtime takes the context that it finds. */
CASE(with_driver_api)
{
	CUcontext own, primary, current;
	void *p;

	OK(cuCtxGetCurrent(&primary));
	OK(cuCtxCreate(&own, 0, 0));
	ROK(cudaMalloc(&p, 100));
	OK(cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_CONTEXT, P(p)));
	assert_ptr_equal(current, own);
	OK(cuCtxDestroy(own));
	RFAILS(cudaErrorInvalidValue, cudaFree(p));
	OK(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, primary);
	cudaGetLastError();
}

CASE(reset)
{
	void *p;

	ROK(cudaMalloc(&p, 100));
	ROK(cudaDeviceReset());
	RFAILS(cudaErrorInvalidValue, cudaFree(p));
	ROK(cudaMalloc(&p, 100));
	ROK(cudaMemset(p, 1, 100));
	ROK(cudaFree(p));
	cudaGetLastError();
}

int main(void)
{
	int n;

	if (cudaGetDeviceCount(&n) == cudaErrorNoDevice)
		skip_program("no GPU: load softgpu.ko, or set SOFTGPU_INPROCESS=1");
	return cases_run(NULL, NULL);
}
