// SPDX-License-Identifier: MIT
/*
 * host_pointers.c - host memory and its device pointers: those of the host, or others, as
 * the GPU's attribute says.  Runs with both.
 */
#include "test.h"

#define SIZE	(200 * KIB)

static bool same;	/* the host's pointers are the device's */

static int setup(void **state)
{
	int result = gpu_setup(state), can = -1, unified = -1;

	OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0));
	OK(cuDeviceGetAttribute(&unified, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
	/* A run that was to try the other kind must not pass without. */
	assert_int_equal(can, getenv("DEVICE_POINTERS") ? 0 : 1);
	assert_int_equal(unified, can);
	same = can;
	return result;
}

static void read_byte(void *p)
{
	signal(SIGSEGV, SIG_DFL);
	_exit(*(volatile char *)p);
}

/* Memory of any kind by both pointers. */
static void use(char *p)
{
	CUdeviceptr device = 0, attribute = 0, base = 0, vram;
	void *host = NULL;
	char back[16];
	size_t length = 0;

	OK(cuMemHostGetDevicePointer(&device, p, 0));
	assert_int_equal(device == P(p), same);
	OK(cuPointerGetAttribute(&attribute, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, P(p)));
	assert_int_equal(attribute, device);
	OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, device + 5));
	assert_ptr_equal(host, p + 5);
	OK(cuMemGetAddressRange(&base, &length, device + 5));
	assert_int_equal(base, device);
	assert_int_equal(length, SIZE);
	OK(cuMemHostGetDevicePointer(&attribute, p + 100, 0));
	assert_int_equal(attribute, device + 100);

	OK(cuMemsetD8(device, 7, SIZE));
	OK(cuCtxSynchronize());
	assert_int_equal(p[SIZE - 1], 7);
	OK(cuMemcpyHtoD(device + 1, "by the device's", 16));
	assert_string_equal(p + 1, "by the device's");
	OK(cuMemAlloc(&vram, SIZE));
	OK(cuMemcpyDtoD(vram, device, SIZE));
	OK(cuMemcpyDtoH(back, vram + 1, 16));
	assert_string_equal(back, "by the device's");
	/* The host's pointer where the host's is asked for. */
	OK(cuMemcpyHtoD(vram, p, SIZE));
	OK(cuMemcpyDtoH(p, vram, SIZE));
	OK(cuMemFree(vram));
	if (same)
		return;
	/* One taken for the other. */
	BAD(cuMemsetD8(P(p), 1, 1));
	BAD(cuMemcpyHtoD(P(p), back, 1));
	BAD(cuMemcpyDtoH(back, P(p) + 3, 1));
	BAD(cuMemHostGetDevicePointer(&attribute, (void *)device, 0));
	BAD(cuMemsetD8(device, 1, SIZE + 1));
	assert_int_equal(p[0], 7);
	assert_int_equal(in_child(read_byte, (void *)device), -SIGSEGV);
}

CASE(allocated)
{
	static const unsigned int flags[] = {
		0, CU_MEMHOSTALLOC_WRITECOMBINED, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP,
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		unsigned int got = 0;
		CUdeviceptr device;
		void *p = NULL;

		OK(cuMemHostAlloc(&p, SIZE, flags[i]));
		OK(cuMemHostGetFlags(&got, p));
		assert_int_equal(got, flags[i] | CU_MEMHOSTALLOC_DEVICEMAP);
		use(p);
		OK(cuMemHostGetDevicePointer(&device, p, 0));
		if (!same)
			BAD(cuMemFreeHost((void *)device));
		OK(cuMemFreeHost(p));
		BAD(cuMemsetD8(device, 1, 1));
	}
}

CASE(registered)
{
	static char own[SIZE + 100];

	OK(cuMemHostRegister(own + 100, SIZE, 0));
	use(own + 100);
	OK(cuMemHostUnregister(own + 100));
	BAD(cuMemHostGetDevicePointer(&(CUdeviceptr){ 0 }, own + 100, 0));
}

MAIN(setup, gpu_teardown)
