// SPDX-License-Identifier: MIT
/* facts_hip.c - what HIP says of a GPU and of memory. */
#include "facts.h"

#define HIP(call)		assert_int_equal(call, hipSuccess)

CASE(hip)
{
	hipPointerAttribute_t a;
	hsa_amd_pointer_info_t info;
	char text[20], back[12];
	size_t pitch;
	int n = 7;
	char *p, *q;
	void *v;

	HIP(hipGetDeviceCount(&n));
	assert_int_equal(n, 2);
	for (int i = 0; i < 2; i++) {
		HIP(hipDeviceGetPCIBusId(text, 13, i));
		assert_string_equal(text, i ? "0001:a9:15.6" : "0001:a8:15.6");
	}
	assert_int_equal(hipDeviceGetPCIBusId(text, 12, 0), hipErrorInvalidValue);
	assert_int_equal(hipDeviceGetPCIBusId(NULL, 13, 0), hipErrorInvalidValue);
	assert_int_equal(hipDeviceGetPCIBusId(text, 13, -1), hipErrorInvalidValue);
	assert_int_equal(hipDeviceGetPCIBusId(text, 13, 2), hipErrorInvalidValue);
	assert_int_equal(hipSetDevice(-1), hipErrorInvalidDevice);
	assert_int_equal(hipSetDevice(2), hipErrorInvalidDevice);
	assert_int_equal(hipGetDevice(NULL), hipErrorInvalidValue);
	HIP(hipDeviceSynchronize());
	for (int i = 1; i >= 0; i--) {
		HIP(hipSetDevice(i));
		HIP(hipGetDevice(&n));
		assert_int_equal(n, i);
		HIP(hipMalloc((void **)&p, 10));
		HIP(hipPointerGetAttributes(&a, p + 9));
		assert_int_equal(a.device, i);
		assert_int_equal(a.type, hipMemoryTypeDevice);
		assert_ptr_equal(a.devicePointer, p + 9);
		assert_null(a.hostPointer);
		assert_true(!a.isManaged && !a.allocationFlags);
		info = info_of(p);
		assert_int_equal(info.agentOwner.handle, gpu.handle + (unsigned int)i);
		assert_int_equal(info.global_flags, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
		HIP(hipFree(p));
	}
	v = text;
	HIP(hipMalloc(&v, 0));
	assert_null(v);
	v = text;
	assert_int_equal(hipMalloc(&v, DEVICE_VRAM + 1), hipErrorOutOfMemory);
	assert_null(v);
	assert_int_equal(hipMalloc(NULL, 10), hipErrorInvalidValue);
	assert_int_equal(hipFree(text), hipErrorInvalidValue);
	HIP(hipFree(NULL));
	HIP(hipHostFree(NULL));
	v = text;
	HIP(hipHostMalloc(&v, 0, 0));
	assert_null(v);
	assert_int_equal(hipHostMalloc(NULL, 10, 0), hipErrorInvalidValue);
	HIP(hipHostMalloc((void **)&q, 4096, 0));
	HIP(hipPointerGetAttributes(&a, q + 4095));
	assert_int_equal(a.type, hipMemoryTypeHost);
	assert_int_equal(a.device, 0);
	assert_true(!a.isManaged && a.devicePointer == q + 4095 && a.hostPointer == q + 4095);
	for (unsigned int flags = 0; flags < 4; flags++) {
		hipError_t error = hipMallocManaged((void **)&p, 10, flags);

		assert_int_equal(error, flags == 1 || flags == 2 ? hipSuccess : hipErrorInvalidValue);
		if (error)
			continue;
		HIP(hipPointerGetAttributes(&a, p));
		assert_int_equal(a.type, hipMemoryTypeManaged);
		assert_int_equal(a.device, 0);
		assert_int_equal(a.isManaged, 1);
		HIP(hipFree(p));
	}
	assert_int_equal(hipMallocManaged(&v, 0, hipMemAttachGlobal), hipErrorInvalidValue);
	HIP(hipPointerGetAttributes(&a, text));
	assert_int_equal(a.type, hipMemoryTypeUnregistered);
	assert_int_equal(a.device, hipInvalidDeviceId);
	assert_true(!a.devicePointer && !a.hostPointer);
	assert_int_equal(hipPointerGetAttributes(NULL, q), hipErrorInvalidValue);
	assert_int_equal(hipPointerGetAttributes(&a, NULL), hipErrorInvalidValue);

	/* Rows of whole pitches; what does not fit in a number is refused. */
	for (size_t width = 255; width <= 257; width++) {
		HIP(hipMallocPitch((void **)&p, &pitch, width, 3));
		assert_int_equal(pitch, width > 256 ? 512 : 256);
		assert_int_equal(info_of(p).sizeInBytes, 3 * pitch);
		HIP(hipFree(p));
	}
	HIP(hipMallocPitch(&v, &pitch, 5, 0));
	assert_null(v);
	HIP(hipMallocPitch(&v, &pitch, 0, 5));
	assert_true(!v && pitch == 0);
	assert_int_equal(hipMallocPitch(&v, NULL, 5, 5), hipErrorInvalidValue);
	assert_int_equal(hipMallocPitch(&v, &pitch, SIZE_MAX - 254, 1), hipErrorInvalidValue);
	assert_int_equal(hipMallocPitch(&v, &pitch, SIZE_MAX - 255, 1), hipErrorOutOfMemory);
	assert_int_equal(hipMallocPitch(&v, &pitch, SIZE_MAX / 2, 3), hipErrorInvalidValue);

	/* Bytes before the first whole word and behind the last. */
	for (size_t from = 0; from < 5; from++) {
		for (size_t size = 0; size < 8; size++) {
			char wanted[12];

			memset(wanted, 0x11, 12);
			memset(q, 0x11, 12);
			memset(wanted + from, 0x92, size);
			HIP(hipMemset(q + from, 0x5592, size));
			assert_memory_equal(q, wanted, 12);
		}
	}
	HIP(hipMemset(q + 1, 0x33, 4095));
	assert_true(q[1] == 0x33 && q[4095] == 0x33);
	assert_int_equal(hipMemset(q + 4, 0x44, 4096), hipErrorInvalidValue);
	assert_int_equal(q[4], 0x33);
	/* Refused, it changes nothing, neither at its start nor behind the end. */
	assert_int_equal(hipMemset(q + 1, 0x44, 4096), hipErrorInvalidValue);
	assert_int_equal(q[1], 0x33);
	HIP(hipMalloc((void **)&p, 10));
	assert_int_equal(hipMemset(p, 0x44, 11), hipErrorInvalidValue);
	assert_true(p[0] == 0 && p[10] == 0);
	HIP(hipMemset(p + 9, 0x44, 1));
	assert_true(p[9] == 0x44 && p[10] == 0);
	HIP(hipFree(p));
	/* Memory of no allocation is filled, too. */
	HIP(hipMemset(back, 0x21, 11));
	assert_true(back[0] == 0x21 && back[10] == 0x21);
	HIP(hipMemset(NULL, 1, 0));
	assert_int_equal(hipMemset(NULL, 1, 1), hipErrorInvalidValue);
	for (int kind = -1; kind < 6; kind++) {
		memset(back, 0, sizeof(back));
		assert_int_equal(hipMemcpy(back, q + 1, 12, (hipMemcpyKind)kind),
				 kind < 0 || kind > 4 ? hipErrorInvalidValue : hipSuccess);
		assert_int_equal(back[11], kind < 0 || kind > 4 ? 0 : 0x33);
	}
	HIP(hipMemcpy(NULL, NULL, 0, hipMemcpyDefault));
	assert_int_equal(hipMemcpy(NULL, q, 1, hipMemcpyDefault), hipErrorInvalidValue);
	assert_int_equal(hipMemcpy(q, NULL, 1, hipMemcpyDefault), hipErrorInvalidValue);
	assert_int_equal(hipMemcpy(back, q + 4095, 2, hipMemcpyDefault), hipErrorInvalidValue);
	/* The driver's errors, in HIP's terms. */
	for (size_t i = 0; i < error_count; i++) {
		hsa_status_t status = errors[i].hsa;

		device_fail(SOFTGPU_COPY, 1, errors[i].error);
		assert_int_equal(hipMemcpy(q, q + 100, 1, hipMemcpyDefault), status == HSA_STATUS_ERROR_OUT_OF_RESOURCES ?
				 hipErrorOutOfMemory : status == HSA_STATUS_ERROR ? hipErrorUnknown : hipErrorInvalidValue);
	}
	HIP(hipHostFree(q));
#define NAMED(error, text)							\
	assert_string_equal(hipGetErrorName(error), #error);			\
	assert_string_equal(hipGetErrorString(error), text)
	NAMED(hipSuccess, "no error");
	NAMED(hipErrorInvalidValue, "invalid argument");
	NAMED(hipErrorOutOfMemory, "out of memory");
	NAMED(hipErrorNotInitialized, "not initialized in this process");
	NAMED(hipErrorNoDevice, "no GPU was found");
	NAMED(hipErrorInvalidDevice, "no GPU has this number");
	NAMED(hipErrorUnknown, "unknown error");
	assert_string_equal(hipGetErrorName((hipError_t)77), "hipErrorUnknown");
	assert_string_equal(hipGetErrorString((hipError_t)77), "unknown error");
}
