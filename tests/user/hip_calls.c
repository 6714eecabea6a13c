// SPDX-License-Identifier: MIT
/* hip_calls.c - HIP's calls that are about errors, devices and pointers. */
#include <fcntl.h>
#include <sys/mman.h>

#include "hip/hip_runtime.h"
#include "test.h"

#define HIP(call)		assert_int_equal(call, hipSuccess)
#define NOT(error, call)	assert_int_equal(call, hipError##error)

CASE(last_error)
{
	void *p;

	hipGetLastError();
	HIP(hipGetLastError());
	NOT(InvalidValue, hipMalloc(NULL, 1));
	HIP(hipMalloc(&p, 1));
	/* A call that succeeds does not take it away; reading it does. */
	NOT(InvalidValue, hipPeekAtLastError());
	NOT(InvalidValue, hipGetLastError());
	HIP(hipGetLastError());
	HIP(hipFree(p));
}

CASE(devices)
{
	hipDeviceProp_t properties;
	int n, value[2] = { 7, 7 }, major, minor, version;
	char name[256], id[16];
	size_t total, unused, bytes;
	hipUUID uuid;
	void *p;

	HIP(hipRuntimeGetVersion(&version));
	assert_int_equal(version, HIP_VERSION);
	assert_true(version >= 70000000);
	HIP(hipDriverGetVersion(&version));
	NOT(InvalidValue, hipDriverGetVersion(NULL));
	HIP(hipGetDeviceCount(&n));
	for (int i = 0; i < n; i++) {
		HIP(hipDeviceGet(&value[0], i));
		assert_int_equal(value[0], i);
		HIP(hipDeviceGetName(name, sizeof(name), i));
		HIP(hipDeviceTotalMem(&total, i));
		HIP(hipDeviceGetUuid(&uuid, i));
		HIP(hipDeviceComputeCapability(&major, &minor, i));
		HIP(hipGetDeviceProperties(&properties, i));
		assert_string_equal(properties.name, name);
		assert_int_equal(properties.totalGlobalMem, total);
		assert_memory_equal(properties.uuid.bytes, uuid.bytes, sizeof(uuid.bytes));
		assert_int_equal(properties.isLargeBar, 1);
		HIP(hipDeviceGetPCIBusId(id, sizeof(id), i));
		HIP(hipDeviceGetByPCIBusId(&value[0], id));
		assert_int_equal(value[0], i);
		HIP(hipDeviceGetAttribute(&value[0], hipDeviceAttributePciBusId, i));
		assert_int_equal(value[0], properties.pciBusID);
		HIP(hipSetDevice(i));
		HIP(hipMemGetInfo(&unused, &bytes));
		assert_int_equal(bytes, total);
		assert_true(unused <= total);
		HIP(hipMalloc(&p, 2 * MIB));
		HIP(hipMemGetInfo(&bytes, NULL));
		assert_true(bytes < unused);
		HIP(hipFree(p));
	}
	NOT(InvalidDevice, hipDeviceGetByPCIBusId(&value[0], "fffe:00:00.0"));
	NOT(InvalidValue, hipDeviceGetByPCIBusId(&value[0], "here"));
	NOT(InvalidDevice, hipGetDeviceProperties(&properties, n));
	NOT(InvalidDevice, hipDeviceGetAttribute(&value[0], hipDeviceAttributeWarpSize, -1));
	NOT(InvalidValue, hipDeviceGetAttribute(NULL, hipDeviceAttributeWarpSize, 0));
	NOT(InvalidValue, hipDeviceGetAttribute(&value[0], (hipDeviceAttribute_t)5000, 0));
	HIP(hipDeviceGetAttribute(&value[0], hipDeviceAttributeMultiprocessorCount, 0));
	assert_int_equal(value[0], 0);
	/* A pointer's worth of zeros. */
	value[0] = value[1] = 7;
	HIP(hipDeviceGetAttribute(value, hipDeviceAttributeHdpMemFlushCntl, 0));
	assert_true(!value[0] && !value[1]);
	HIP(hipSetDevice(0));
}

CASE(peers)
{
	int n, can;

	HIP(hipGetDeviceCount(&n));
	HIP(hipDeviceCanAccessPeer(&can, 0, 0));
	assert_int_equal(can, 0);
	NOT(InvalidDevice, hipDeviceEnablePeerAccess(0, 0));
	NOT(InvalidDevice, hipDeviceEnablePeerAccess(n, 0));
	if (n < 2)
		return;
	HIP(hipDeviceCanAccessPeer(&can, 0, 1));
	assert_int_equal(can, 1);
	NOT(PeerAccessNotEnabled, hipDeviceDisablePeerAccess(1));
	NOT(InvalidValue, hipDeviceEnablePeerAccess(1, 1));
	HIP(hipDeviceEnablePeerAccess(1, 0));
	NOT(PeerAccessAlreadyEnabled, hipDeviceEnablePeerAccess(1, 0));
	HIP(hipDeviceReset());
	HIP(hipDeviceEnablePeerAccess(1, 0));
	HIP(hipDeviceDisablePeerAccess(1));
}

CASE(registered)
{
	static char memory[64 * 1024] __attribute__((aligned(4096)));
	hipPointerAttribute_t a;
	unsigned int flags;
	void *p = NULL;
	size_t size;

	NOT(InvalidValue, hipHostRegister(NULL, 1, 0));
	NOT(InvalidValue, hipHostRegister(memory, 0, 0));
	NOT(InvalidValue, hipHostRegister(memory, 1, 16));
	NOT(HostMemoryNotRegistered, hipHostUnregister(memory));
	HIP(hipHostRegister(memory, sizeof(memory), hipHostRegisterMapped));
	NOT(HostMemoryAlreadyRegistered, hipHostRegister(memory + 4096, 4096, 0));
	HIP(hipPointerGetAttributes(&a, memory + 100));
	assert_int_equal(a.type, hipMemoryTypeHost);
	assert_int_equal(a.allocationFlags, hipHostRegisterMapped);
	assert_ptr_equal(a.hostPointer, memory + 100);
	HIP(hipHostGetDevicePointer(&p, memory + 5, 0));
	assert_ptr_equal(p, memory + 5);
	HIP(hipMemGetAddressRange(&p, &size, memory + 100));
	assert_true(p == memory && size == sizeof(memory));
	NOT(HostMemoryNotRegistered, hipHostUnregister(memory + 4096));
	HIP(hipHostUnregister(memory));
	NOT(NotFound, hipMemGetAddressRange(&p, &size, memory));
	NOT(InvalidValue, hipHostGetDevicePointer(&p, memory, 0));

	HIP(hipHostMalloc(&p, 100, hipHostMallocPortable | hipHostMallocCoherent));
	HIP(hipHostGetFlags(&flags, p));
	assert_int_equal(flags, hipHostMallocPortable | hipHostMallocCoherent);
	HIP(hipHostFree(p));
	NOT(InvalidValue, hipHostMalloc(&p, 100, 0x100));
	HIP(hipExtMallocWithFlags(&p, 100, hipDeviceMallocUncached));
	HIP(hipPointerGetAttributes(&a, p));
	assert_int_equal(a.allocationFlags, hipDeviceMallocUncached);
	NOT(InvalidValue, hipHostGetFlags(&flags, p));
	HIP(hipFree(p));
}

CASE(pointer_attributes)
{
	unsigned int type = 7, size = 7;
	bool managed = true, mapped;
	int device = 7;
	char *p, *q, local;
	void *at;
	hipPointer_attribute two[] = { HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, HIP_POINTER_ATTRIBUTE_CONTEXT };
	void *data[] = { &type, &at };

	HIP(hipMalloc((void **)&p, 1000));
	HIP(hipPointerGetAttribute(&type, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 999));
	assert_int_equal(type, hipMemoryTypeDevice);
	HIP(hipPointerGetAttribute(&device, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
	assert_int_equal(device, 0);
	HIP(hipPointerGetAttribute(&at, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 5));
	assert_ptr_equal(at, p);
	HIP(hipPointerGetAttribute(&size, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, p + 5));
	assert_int_equal(size, 1000);
	HIP(hipPointerGetAttribute(&mapped, HIP_POINTER_ATTRIBUTE_MAPPED, p));
	assert_true(mapped);
	HIP(hipPointerGetAttribute(&managed, HIP_POINTER_ATTRIBUTE_IS_MANAGED, p));
	assert_false(managed);
	NOT(InvalidValue, hipPointerGetAttribute(&at, HIP_POINTER_ATTRIBUTE_HOST_POINTER, p));
	assert_null(at);
	NOT(NotSupported, hipPointerGetAttribute(&at, HIP_POINTER_ATTRIBUTE_P2P_TOKENS, p));
	NOT(InvalidValue, hipPointerGetAttribute(&at, (hipPointer_attribute)99, p));
	HIP(hipMallocManaged((void **)&q, 100, hipMemAttachGlobal));
	HIP(hipPointerGetAttribute(&managed, HIP_POINTER_ATTRIBUTE_IS_MANAGED, q));
	assert_true(managed);
	HIP(hipFree(q));
	NOT(InvalidValue, hipPointerGetAttribute(&type, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, &local));
	assert_int_equal(type, 0);
	NOT(InvalidValue, hipPointerGetAttribute(&device, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &local));
	assert_int_equal(device, hipInvalidDeviceId);
	HIP(hipDrvPointerGetAttributes(2, two, data, p));
	assert_int_equal(type, hipMemoryTypeDevice);
	HIP(hipFree(p));
}

/* The dma-buf begins at the pointer, and ends with the range. */
CASE(range_handle)
{
	char *p;
	int fd = -1;

	HIP(hipMalloc((void **)&p, MIB));
	HIP(hipMemGetHandleForAddressRange(&fd, p + 8192, 12288, hipMemRangeHandleTypeDmaBufFd, 0));
	assert_int_equal(lseek(fd, 0, SEEK_END), 12288);
	close(fd);
	NOT(InvalidValue, hipMemGetHandleForAddressRange(&fd, p + 1, 4096, hipMemRangeHandleTypeDmaBufFd, 0));
	NOT(InvalidValue, hipMemGetHandleForAddressRange(&fd, p + 4096, MIB, hipMemRangeHandleTypeDmaBufFd, 0));
	NOT(InvalidValue, hipMemGetHandleForAddressRange(&fd, p, 4096, (hipMemRangeHandleType)2, 0));
	HIP(hipFree(p));
}

CASE(addresses)
{
	hipDriverProcAddressQueryResult result = HIP_GET_PROC_ADDRESS_SUCCESS;
	void *f = NULL;

	HIP(hipGetProcAddress("hipMalloc", &f, HIP_VERSION, 0, &result));
	assert_ptr_equal(f, (void *)(uintptr_t)hipMalloc);
	NOT(NotFound, hipGetProcAddress("hipNothing", &f, HIP_VERSION, 0, &result));
	assert_int_equal(result, HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_null(f);
	NOT(NotFound, hipGetProcAddress("malloc", &f, HIP_VERSION, 0, NULL));
}

/* What cannot be done says which call it was. */
CASE(unsupported)
{
	int file = memfd_create("log", MFD_CLOEXEC), standard = dup(2);
	char text[1000] = "";
	hipError_t error;

	assert_int_equal(dup2(file, 2), 2);
	setenv("SOFTGPU_LOG", "1", 1);
	error = hipLaunchKernel(NULL, (dim3){ 1, 1, 1 }, (dim3){ 1, 1, 1 }, NULL, 0, NULL);
	unsetenv("SOFTGPU_LOG");
	dup2(standard, 2);
	NOT(NotSupported, error);
	NOT(NotSupported, hipGetLastError());
	assert_true(pread(file, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "hipLaunchKernel is not supported"));
	close(standard);
	close(file);
	NOT(NotSupported, hipModuleLoad(NULL, "x"));
	assert_string_equal(hipGetErrorName(hipErrorNotSupported), "hipErrorNotSupported");
}
