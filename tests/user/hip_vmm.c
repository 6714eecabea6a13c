// SPDX-License-Identifier: MIT
/* hip_vmm.c - HIP's memory by addresses and handles. */
#include "hip/hip_runtime.h"
#include "hsa/hsa_ext_amd.h"
#include "test.h"

#define HIP(call)		assert_int_equal(call, hipSuccess)
#define NOT(error, call)	assert_int_equal(call, hipError##error)
#define PART			(128 * KIB)

static const hipMemAllocationProp prop = {
	.type = hipMemAllocationTypePinned,
	.requestedHandleTypes = hipMemHandleTypePosixFileDescriptor,
	.location = { hipMemLocationTypeDevice, 0 },
};
static const hipMemAccessDesc both = { { hipMemLocationTypeDevice, 0 }, hipMemAccessFlagsProtReadWrite };

static sigjmp_buf fault;

static void on_fault(int sig)
{
	siglongjmp(fault, sig);
}

static bool faults(const volatile char *p)
{
	bool did;

	signal(SIGBUS, on_fault);
	signal(SIGSEGV, on_fault);
	did = sigsetjmp(fault, 1);
	if (!did)
		(void)*p;
	signal(SIGBUS, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
	return did;
}

static hsa_amd_pointer_type_t type_of(const void *p)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };

	assert_int_equal(hsa_amd_pointer_info(p, &info, NULL, NULL, NULL), HSA_STATUS_SUCCESS);
	return info.type;
}

CASE(vmm)
{
	hipMemGenericAllocationHandle_t a, b, again;
	hipPointerAttribute_t attributes;
	unsigned long long flags = 7;
	hipMemAllocationProp is;
	size_t granule;
	char *p, *host;
	int fd = -1;

	HIP(hipMemGetAllocationGranularity(&granule, &prop, hipMemAllocationGranularityMinimum));
	assert_int_equal(granule, 64 * KIB);
	NOT(InvalidValue, hipMemCreate(&a, 100, &prop, 0));
	HIP(hipMemCreate(&a, PART, &prop, 0));
	HIP(hipMemCreate(&b, PART, &prop, 0));
	HIP(hipMemGetAllocationPropertiesFromHandle(&is, a));
	assert_int_equal(is.location.id, 0);
	HIP(hipMemAddressReserve((void **)&p, 4 * PART, 0, NULL, 0));
	assert_int_equal(type_of(p), HSA_EXT_POINTER_TYPE_RESERVED_ADDR);
	HIP(hipPointerGetAttributes(&attributes, p));
	assert_int_equal(attributes.type, hipMemoryTypeUnregistered);
	NOT(InvalidValue, hipMemMap(p, PART / 2, 0, a, 0));
	HIP(hipMemMap(p, PART, 0, a, 0));
	NOT(InvalidValue, hipMemMap(p, PART, 0, b, 0));
	HIP(hipMemMap(p + PART, PART, 0, b, 0));
	assert_int_equal(type_of(p + 5), HSA_EXT_POINTER_TYPE_HSA_VMEM);
	HIP(hipPointerGetAttributes(&attributes, p + PART));
	assert_int_equal(attributes.type, hipMemoryTypeDevice);

	/* Nothing reaches it before access is given. */
	assert_true(faults(p));
	HIP(hipHostMalloc((void **)&host, 4 * PART, 0));
	assert_int_not_equal(hipMemcpy(host, p, 10, hipMemcpyDefault), hipSuccess);
	NOT(InvalidValue, hipMemSetAccess(p, 3 * PART, &both, 1));
	HIP(hipMemSetAccess(p, 2 * PART, &both, 1));
	HIP(hipMemGetAccess(&flags, &both.location, p + PART));
	assert_int_equal(flags, hipMemAccessFlagsProtReadWrite);
	memset(p, 0x41, 2 * PART);
	/* Mappings side by side are one range; what is behind them is not theirs. */
	HIP(hipMemcpy(host, p, 2 * PART, hipMemcpyDefault));
	assert_true(host[0] == 0x41 && host[2 * PART - 1] == 0x41);
	NOT(InvalidValue, hipMemcpy(host, p, 2 * PART + 1, hipMemcpyDefault));
	HIP(hipMemset(p, 0x42, 2 * PART));
	assert_true(p[2 * PART - 1] == 0x42);

	/* The same memory at another address, also by a descriptor. */
	HIP(hipMemExportToShareableHandle(&fd, a, hipMemHandleTypePosixFileDescriptor, 0));
	HIP(hipMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, hipMemHandleTypePosixFileDescriptor));
	/* As HIP 6 took it. */
	HIP(hipMemRelease(again));
	HIP(hipMemImportFromShareableHandle(&again, &fd, hipMemHandleTypePosixFileDescriptor));
	close(fd);
	HIP(hipMemMap(p + 2 * PART, PART, 0, again, 0));
	HIP(hipMemSetAccess(p + 2 * PART, PART, &both, 1));
	p[2 * PART + 7] = 0x17;
	assert_int_equal(p[7], 0x17);
	HIP(hipMemRelease(again));
	NOT(InvalidValue, hipMemRelease(again));
	NOT(InvalidValue, hipMemImportFromShareableHandle(&again, (void *)(intptr_t)0, hipMemHandleTypePosixFileDescriptor));
	HIP(hipMemRetainAllocationHandle(&again, p + 5));
	assert_ptr_equal(again, a);
	HIP(hipMemRelease(again));

	/* It is not an allocation. */
	NOT(InvalidValue, hipFree(p));
	NOT(InvalidValue, hipMemAddressFree(p, 4 * PART));
	HIP(hipMemUnmap(p + 2 * PART, PART));
	NOT(InvalidValue, hipMemUnmap(p + PART, PART / 2));
	/* The mapping keeps the memory. */
	HIP(hipMemRelease(a));
	assert_int_equal(p[7], 0x17);
	HIP(hipMemUnmap(p, 2 * PART));
	assert_true(faults(p));
	NOT(InvalidValue, hipMemUnmap(p, PART));
	HIP(hipMemRelease(b));
	HIP(hipMemAddressFree(p, 4 * PART));
	NOT(InvalidValue, hipMemAddressFree(p, 4 * PART));
	HIP(hipHostFree(host));
}

/* What is refused has no effect on a part of the range. */
CASE(vmm_refused)
{
	hipMemAccessDesc access[2] = { both, both };
	hipMemGenericAllocationHandle_t handle;
	unsigned long long flags = 7;
	char *p;

	HIP(hipMemAddressReserve((void **)&p, 3 * PART, 0, NULL, 0));
	HIP(hipMemCreate(&handle, PART, &prop, 0));
	HIP(hipMemMap(p, PART, 0, handle, 0));
	HIP(hipMemMap(p + PART, PART, 0, handle, 0));
	HIP(hipMemSetAccess(p, 2 * PART, &both, 1));
	NOT(InvalidValue, hipMemUnmap(p, 3 * PART));
	NOT(InvalidValue, hipMemUnmap(p, 2 * PART - 64 * KIB));
	access[0].flags = hipMemAccessFlagsProtNone;
	access[1].location.id = 99;
	NOT(InvalidDevice, hipMemSetAccess(p, PART, access, 2));
	access[1] = both;
	access[1].flags = (hipMemAccessFlags)2;
	NOT(InvalidValue, hipMemSetAccess(p, PART, access, 2));
	HIP(hipMemGetAccess(&flags, &both.location, p));
	assert_int_equal(flags, hipMemAccessFlagsProtReadWrite);
	p[0] = p[PART] = 1;
	HIP(hipMemUnmap(p, 2 * PART));
	HIP(hipMemRelease(handle));
	/* The descriptor of a call that failed. */
	NOT(InvalidValue, hipMemImportFromShareableHandle(&handle, (void *)(intptr_t)-1,
							  hipMemHandleTypePosixFileDescriptor));
	HIP(hipMemAddressFree(p, 3 * PART));
}

/* Fills of memory that is not there are refused, as copies are. */
CASE(fill_of_nothing)
{
	hipMemGenericAllocationHandle_t handle;
	char *p, *gone, on_stack[7];

	HIP(hipMalloc((void **)&gone, 4096));
	HIP(hipFree(gone));
	assert_int_not_equal(hipMemset(gone, 1, 4096), hipSuccess);
	assert_int_not_equal(hipMemset(gone + 1, 1, 2), hipSuccess);
	assert_int_not_equal(hsa_amd_memory_fill(gone, 1, 1), HSA_STATUS_SUCCESS);
	HIP(hipMemAddressReserve((void **)&p, PART, 0, NULL, 0));
	assert_int_not_equal(hipMemset(p, 1, PART), hipSuccess);
	HIP(hipMemCreate(&handle, PART, &prop, 0));
	HIP(hipMemMap(p, PART, 0, handle, 0));
	assert_int_not_equal(hipMemset(p + 1, 1, 2), hipSuccess);
	HIP(hipMemSetAccess(p, PART, &both, 1));
	HIP(hipMemset(p, 1, PART));
	HIP(hipMemset(p + 1, 2, 6));
	assert_true(p[0] == 1 && p[1] == 2 && p[3] == 2 && p[4] == 2 && p[6] == 2 && p[7] == 1);
	HIP(hipMemUnmap(p, PART));
	HIP(hipMemRelease(handle));
	HIP(hipMemAddressFree(p, PART));
	/* The program's own memory. */
	memset(on_stack, 0, sizeof(on_stack));
	HIP(hipMemset(on_stack + 1, 3, 5));
	assert_true(!on_stack[0] && on_stack[1] == 3 && on_stack[5] == 3 && !on_stack[6]);
}
