// SPDX-License-Identifier: MIT
/* memory.c - device memory, host memory, managed memory. */
#include <sys/mman.h>

#include "test.h"

CASE(device)
{
	CUdeviceptr p, q, base;
	size_t size, free, total;

	OK(cuMemGetInfo(&free, &total));
	assert_true(free <= total && total >= 16 * MIB);
	OK(cuMemGetInfo(NULL, &total));
	BAD(cuMemAlloc(&p, 0));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, (size_t)1 << 50));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, ~(size_t)0));

	OK(cuMemAlloc(&p, 100));
	OK(cuMemAlloc(&q, 100));
	assert_true(p != q);
	assert_int_equal(p % 256, 0);
	OK(cuMemGetAddressRange(&base, &size, p + 50));
	assert_true(base == p && size == 100);
	FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p + 100));
	FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, P(&p)));
	FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, 0));
	OK(cuMemGetAddressRange(NULL, NULL, p));

	OK(cuMemFree(0));
	BAD(cuMemFree(0x1234));
	BAD(cuMemFree(P(&p)));
	BAD(cuMemFree(p + 16));
	OK(cuMemFree(q));
	BAD(cuMemFree(q));
	OK(cuMemFree(p));
}

/* All of it, and all of it again. */
CASE(exhaust)
{
	CUdeviceptr p[4096];
	size_t before, after, total;
	int n[2];

	ONLY_SOFTGPU("too much to fill");
	OK(cuMemGetInfo(&before, &total));
	for (int round = 0; round < 2; round++) {
		CUresult result = CUDA_SUCCESS;

		for (n[round] = 0; n[round] < 4096; n[round]++) {
			result = cuMemAlloc(&p[n[round]], MIB);
			if (result)
				break;
		}
		FAILS(CUDA_ERROR_OUT_OF_MEMORY, result);
		for (int i = 0; i < n[round]; i++)
			OK(cuMemFree(p[i]));
	}
	assert_int_equal(n[0], n[1]);
	assert_int_equal(n[0], before / MIB);
	OK(cuMemGetInfo(&after, &total));
	assert_int_equal(after, before);
}

CASE(pitch)
{
	CUdeviceptr p;
	size_t n;

	OK(cuMemAllocPitch(&p, &n, 100, 10, 4));
	assert_int_equal(n, 512);
	OK(cuMemFree(p));
	OK(cuMemAllocPitch(&p, &n, 600, 1, 16));
	assert_int_equal(n, 1024);
	OK(cuMemFree(p));
	BAD(cuMemAllocPitch(&p, &n, 100, 10, 3));
	BAD(cuMemAllocPitch(&p, &n, 0, 10, 4));
	BAD(cuMemAllocPitch(&p, &n, (size_t)1 << 40, (size_t)1 << 40, 4));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch(&p, &n, (size_t)1 << 50, 1, 4));
}

CASE(host)
{
	CUdeviceptr p, base, device;
	unsigned int flags;
	size_t size;
	char *h;

	h = (char *)1;
	OK(cuMemHostAlloc((void **)&h, 0, 0));
	BAD(cuMemHostAlloc((void **)&h, 4096, 0x80));
	OK(cuMemHostAlloc((void **)&h, 100, CU_MEMHOSTALLOC_WRITECOMBINED));
	OK(cuMemHostGetFlags(&flags, h));
	assert_int_equal(flags, CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_DEVICEMAP);
	OK(cuMemFreeHost(h));

	OK(cuMemAllocHost((void **)&h, 100));
	memset(h, 'h', 100);
	OK(cuMemHostGetFlags(&flags, h + 8));
	assert_int_equal(flags, CU_MEMHOSTALLOC_DEVICEMAP);
	OK(cuMemHostGetDevicePointer(&p, h, 0));
	assert_true(p == P(h));
	OK(cuMemHostGetDevicePointer(&p, h + 8, 0));
	assert_true(p == P(h + 8));
	BAD(cuMemHostGetDevicePointer(&p, h, 1));
	BAD(cuMemHostGetDevicePointer(&p, &h, 0));
	OK(cuMemGetAddressRange(&base, &size, P(h) + 8));
	assert_true(base == P(h) && size == 100);
	BAD(cuMemFreeHost(h + 8));
	BAD(cuMemFreeHost(&h));
	BAD(cuMemFree(P(h)));
	OK(cuMemAlloc(&device, 100));
	BAD(cuMemFreeHost((void *)(uintptr_t)device));
	BAD(cuMemHostGetDevicePointer(&p, (void *)(uintptr_t)device, 0));
	OK(cuMemFree(device));
	OK(cuMemFreeHost(h));
	BAD(cuMemFreeHost(h));
	OK(cuMemFreeHost(NULL));
}

CASE(managed)
{
	CUdeviceptr m, d, q;
	unsigned int flags;
	size_t size;

	BAD(cuMemAllocManaged(&m, 100, 0));
	BAD(cuMemAllocManaged(&m, 100, 8));
	BAD(cuMemAllocManaged(&m, 0, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAllocManaged(&m, 100, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAlloc(&d, 100));
	strcpy((char *)(uintptr_t)m, "written by the CPU");
	OK(cuMemcpyDtoD(d, m, 100));
	OK(cuMemsetD8(m, 0, 100));
	OK(cuCtxSynchronize());
	assert_int_equal(*(char *)(uintptr_t)m, 0);
	OK(cuMemcpyDtoD(m, d, 100));
	OK(cuCtxSynchronize());
	assert_string_equal((char *)(uintptr_t)m, "written by the CPU");
	OK(cuMemGetAddressRange(&q, &size, m + 8));
	assert_true(q == m && size == 100);
	BAD(cuMemFreeHost((void *)(uintptr_t)m));
	BAD(cuMemHostGetDevicePointer(&q, (void *)(uintptr_t)m, 0));
	OK(cuMemHostGetFlags(&flags, (void *)(uintptr_t)m));
	BAD(cuMemFree(m + 8));
	OK(cuMemFree(m));
	BAD(cuMemFree(m));
	OK(cuMemFree(d));
}

CASE(registered)
{
	CUdeviceptr p, base, d;
	unsigned int flags;
	size_t size;
	char *r;
	void *h;

	r = mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(r, MAP_FAILED);
	OK(cuMemAlloc(&d, 100));
	OK(cuMemHostAlloc(&h, 100, 0));

	OK(cuMemHostRegister(r + 16, 1000, 0));
	FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(r + 16, 1000, 0));
	FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(r, 64 * KIB, 0));
	OK(cuMemHostRegister(r + 2000, 100, 0));
	BAD(cuMemHostRegister(r + 8192, 0, 0));
	BAD(cuMemHostRegister(r + 8192, 4096, 0x100));
	BAD(cuMemHostRegister((void *)(uintptr_t)d, 100, 0));
	BAD(cuMemHostRegister(h, 100, 0));
	BAD(cuMemHostRegister((void *)0x10000, 4096, 0));
	OK(cuMemHostGetFlags(&flags, r + 16));
	assert_int_equal(flags, CU_MEMHOSTREGISTER_DEVICEMAP);
	OK(cuMemHostGetDevicePointer(&p, r + 16, 0));
	assert_true(p == P(r + 16));
	BAD(cuMemHostGetDevicePointer(&p, r, 0));
	OK(cuMemGetAddressRange(&base, &size, P(r + 20)));
	assert_true(base == P(r + 16) && size == 1000);

	BAD(cuMemHostUnregister(r + 20));
	BAD(cuMemHostUnregister(h));
	BAD(cuMemFreeHost(r + 16));
	OK(cuMemHostUnregister(r + 16));
	FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(r + 16));
	FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(&p));
	OK(cuMemHostUnregister(r + 2000));
	OK(cuMemFreeHost(h));
	OK(cuMemFree(d));
	munmap(r, 64 * KIB);
}

/* Freed host memory gives its addresses back, and they can be had again. */
CASE(host_addresses_return)
{
	CUdeviceptr m, first_m = 0;
	void *h, *first_h = NULL;

	ONLY_SOFTGPU("CUDA promises no addresses");
	for (int i = 0; i < 300; i++) {
		OK(cuMemHostAlloc(&h, 100 * KIB, 0));
		OK(cuMemAllocManaged(&m, 70 * KIB, CU_MEM_ATTACH_GLOBAL));
		memset(h, i, 100 * KIB);
		memset((void *)(uintptr_t)m, i, 70 * KIB);
		if (!i) {
			first_h = h;
			first_m = m;
		}
		assert_ptr_equal(h, first_h);
		assert_true(m == first_m);
		OK(cuMemFree(m));
		OK(cuMemFreeHost(h));
	}
}

static void touch(void *arg)
{
	volatile char c;

	/* a sanitizer would turn the signal into an exit */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	c = *(volatile char *)arg;
	_exit(c);
}

static void write_to(void *arg)
{
	*(volatile char *)arg = 77;
	_exit(0);
}

/* The CPU cannot load from device memory, nor from the window's free addresses. */
CASE(device_faults)
{
	CUdeviceptr d, m, r;
	void *h;

	OK(cuMemAlloc(&d, 4096));
	OK(cuMemAddressReserve(&r, 2 * MIB, 0, 0, 0));
	OK(cuMemHostAlloc(&h, 4096, 0));
	OK(cuMemAllocManaged(&m, 4096, CU_MEM_ATTACH_GLOBAL));
	*(char *)h = 42;
	*(char *)(uintptr_t)m = 43;
	assert_int_equal(in_child(touch, (void *)(uintptr_t)d), -SIGSEGV);
	assert_int_equal(in_child(touch, (void *)(uintptr_t)r), -SIGSEGV);
	/* a child reads its parent's host memory, and has no managed memory */
	assert_int_equal(in_child(touch, h), 42);
	assert_int_equal(in_child(touch, (void *)(uintptr_t)m), -SIGSEGV);
	assert_int_equal(*(char *)(uintptr_t)m, 43);
	/* the very pages: a fork takes none away from what a device may be reaching */
	if (on_softgpu()) {
		assert_int_equal(in_child(write_to, h), 0);
		assert_int_equal(*(char *)h, 77);
	}
	OK(cuMemFreeHost(h));
	OK(cuMemFree(m));
	OK(cuMemFree(d));
	OK(cuMemAddressFree(r, 2 * MIB));
}

/* In this process, too: without fork, whose child may lack the mapping. */
static sigjmp_buf fault;

static void on_fault(int sig)
{
	siglongjmp(fault, 1);
}

static bool faults(uint64_t address)
{
	struct sigaction act = { .sa_handler = on_fault }, old_segv, old_bus;
	volatile bool faulted = true;

	sigaction(SIGSEGV, &act, &old_segv);
	sigaction(SIGBUS, &act, &old_bus);
	if (!sigsetjmp(fault, 1)) {
		(void)*(volatile char *)(uintptr_t)address;
		faulted = false;
	}
	sigaction(SIGSEGV, &old_segv, NULL);
	sigaction(SIGBUS, &old_bus, NULL);
	return faulted;
}

CASE(device_faults_here)
{
	CUdeviceptr d;
	void *h;

	OK(cuMemAlloc(&d, 4096));
	OK(cuMemHostAlloc(&h, 4096, 0));
	assert_true(faults(d));
	assert_false(faults(P(h)));
	OK(cuMemFreeHost(h));
	assert_true(faults(P(h)));
	OK(cuMemFree(d));
	assert_true(faults(d));
}

CASE(window)
{
	CUdeviceptr d;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();	/* their shadow memory is there */
#endif
	ONLY_SOFTGPU("CUDA promises no addresses");
	OK(cuMemAlloc(&d, 4096));
	assert_true(d < (uint64_t)1 << 40);
	OK(cuMemFree(d));
}

MAIN(gpu_setup, gpu_teardown)
