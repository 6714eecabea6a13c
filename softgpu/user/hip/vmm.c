// SPDX-License-Identifier: MIT
/* vmm.c - virtual memory management. A handle is HSA's. */
#include <limits.h>
#include <stddef.h>

#include "hip_int.h"

#define GRANULE ((size_t)64 << 10)

static hsa_amd_vmem_alloc_handle_t of(hipMemGenericAllocationHandle_t handle)
{
	return (hsa_amd_vmem_alloc_handle_t){ .handle = (uintptr_t)handle };
}

static hipMemGenericAllocationHandle_t to(hsa_amd_vmem_alloc_handle_t handle)
{
	return (hipMemGenericAllocationHandle_t)(uintptr_t)handle.handle;
}

static hipError_t check_prop(const hipMemAllocationProp *prop)
{
	if (!prop || prop->type != hipMemAllocationTypePinned)
		return hipErrorInvalidValue;
	if (prop->location.type != hipMemLocationTypeDevice ||
	    prop->requestedHandleTypes & ~hipMemHandleTypePosixFileDescriptor)
		return hipErrorNotSupported;
	return hip_device_ok(prop->location.id) ? hipSuccess : hipErrorInvalidDevice;
}

/* ---- addresses ---- */

HIP_EXPORT hipError_t hipMemAddressReserve(void **ptr, size_t size, size_t alignment, void *address,
					   unsigned long long flags)
{
	hipError_t error = hip_enter();

	if (!error && (!ptr || !size || flags))
		error = hipErrorInvalidValue;
	if (!error)
		error = hip_of_status(hsa_amd_vmem_address_reserve_align(
			ptr, size, (uintptr_t)address, alignment, 0));
	return hip_done(error);
}

HIP_EXPORT hipError_t hipMemAddressFree(void *ptr, size_t size)
{
	hipError_t error = hip_enter();

	if (!error && hsa_amd_vmem_address_free(ptr, size))
		error = hipErrorInvalidValue;
	return hip_done(error);
}

/* ---- memory ---- */

HIP_EXPORT hipError_t hipMemGetAllocationGranularity(size_t *granularity,
						     const hipMemAllocationProp *prop,
						     hipMemAllocationGranularity_flags option)
{
	hipError_t error = hip_enter();

	if (!error && (!granularity || !prop ||
		       (unsigned int)option > hipMemAllocationGranularityRecommended))
		error = hipErrorInvalidValue;
	if (!error)
		*granularity = GRANULE;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t size,
				   const hipMemAllocationProp *prop, unsigned long long flags)
{
	hsa_amd_vmem_alloc_handle_t h;
	hipError_t error = hip_enter();

	if (!error && (!handle || !size || size % GRANULE || flags))
		error = hipErrorInvalidValue;
	if (!error)
		error = check_prop(prop);
	if (!error)
		error = hip_of_status(hsa_amd_vmem_handle_create(
			hip_devices[prop->location.id].pool, size, MEMORY_TYPE_PINNED, 0, &h));
	if (!error)
		*handle = to(h);
	return hip_done(error);
}

HIP_EXPORT hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle)
{
	hipError_t error = hip_enter();

	return hip_done(error ? error : hip_of_status(hsa_amd_vmem_handle_release(of(handle))));
}

HIP_EXPORT hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle,
						   void *address)
{
	hsa_amd_vmem_alloc_handle_t h;
	hipError_t error = hip_enter();

	if (!error && (!handle || !address))
		error = hipErrorInvalidValue;
	if (!error)
		error = hip_of_status(hsa_amd_vmem_retain_alloc_handle(&h, address));
	if (!error)
		*handle = to(h);
	return hip_done(error);
}

static int device_of_pool(hsa_amd_memory_pool_t pool)
{
	for (int i = 0; i < hip_count; i++) {
		if (hip_devices[i].pool.handle == pool.handle)
			return i;
	}
	return -1;
}

HIP_EXPORT hipError_t
hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp *prop,
					hipMemGenericAllocationHandle_t handle)
{
	hsa_amd_memory_pool_t pool;
	hsa_amd_memory_type_t type;
	hipError_t error = hip_enter();

	if (!error && !prop)
		error = hipErrorInvalidValue;
	if (!error)
		error = hip_of_status(
			hsa_amd_vmem_get_alloc_properties_from_handle(of(handle), &pool, &type));
	if (error)
		return hip_done(error);
	/* All memory can be exported. */
	*prop = (hipMemAllocationProp){
		.type = hipMemAllocationTypePinned,
		.requestedHandleTypes = hipMemHandleTypePosixFileDescriptor,
		.location = { hipMemLocationTypeDevice, device_of_pool(pool) },
	};
	return hipSuccess;
}

/* ---- mappings ---- */

HIP_EXPORT hipError_t hipMemMap(void *ptr, size_t size, size_t offset,
				hipMemGenericAllocationHandle_t handle, unsigned long long flags)
{
	hipError_t error = hip_enter();

	if (!error && (!ptr || !size || offset || flags))
		error = hipErrorInvalidValue;
	if (!error)
		error = hip_of_status(hsa_amd_vmem_map(ptr, size, 0, of(handle), 0));
	return hip_done(error);
}

/* The mapping that begins at ptr, and has at most this size. */
static hipError_t mapping_at(char *ptr, size_t size, struct hip_memory *m)
{
	*m = hip_memory_at(ptr);
	return m->mapped && m->base == ptr && m->size <= size ? hipSuccess : hipErrorInvalidValue;
}

/* The range consists of whole mappings; otherwise none is unmapped. */
HIP_EXPORT hipError_t hipMemUnmap(void *ptr, size_t size)
{
	hipError_t error = hip_enter();
	struct hip_memory m;

	if (!error && (!ptr || !size))
		error = hipErrorInvalidValue;
	for (size_t done = 0; done < size && !error; done += m.size)
		error = mapping_at((char *)ptr + done, size - done, &m);
	if (error)
		return hip_done(error);
	hip_work_wait_device(-1);
	for (size_t done = 0; done < size && !error; done += m.size) {
		error = mapping_at((char *)ptr + done, size - done, &m);
		if (!error)
			error = hip_of_status(hsa_amd_vmem_unmap(m.base, m.size));
	}
	return hip_done(error);
}

static bool permissions_of(hipMemAccessFlags flags, hsa_access_permission_t *permissions)
{
	switch (flags) {
	case hipMemAccessFlagsProtNone:
		*permissions = HSA_ACCESS_PERMISSION_NONE;
		return true;
	case hipMemAccessFlagsProtRead:
		*permissions = HSA_ACCESS_PERMISSION_RO;
		return true;
	case hipMemAccessFlagsProtReadWrite:
		*permissions = HSA_ACCESS_PERMISSION_RW;
		return true;
	}
	return false;
}

static hipError_t access_of(const hipMemAccessDesc *desc, hsa_amd_memory_access_desc_t *access)
{
	if (desc->location.type != hipMemLocationTypeDevice ||
	    !permissions_of(desc->flags, &access->permissions))
		return hipErrorInvalidValue;
	if (!hip_device_ok(desc->location.id))
		return hipErrorInvalidDevice;
	access->agent_handle = hip_devices[desc->location.id].agent;
	return hipSuccess;
}

/* After an error of one descriptor, none has an effect. */
HIP_EXPORT hipError_t hipMemSetAccess(void *ptr, size_t size, const hipMemAccessDesc *desc,
				      size_t count)
{
	hsa_amd_memory_access_desc_t access;
	hipError_t error = hip_enter();

	if (!error && (!ptr || !size || !desc || !count))
		error = hipErrorInvalidValue;
	for (size_t i = 0; i < count && !error; i++)
		error = access_of(&desc[i], &access);
	for (size_t i = 0; i < count && !error; i++) {
		access_of(&desc[i], &access);
		error = hip_of_status(hsa_amd_vmem_set_access(ptr, size, &access, 1));
	}
	return hip_done(error);
}

HIP_EXPORT hipError_t hipMemGetAccess(unsigned long long *flags, const hipMemLocation *location,
				      void *ptr)
{
	hsa_access_permission_t permissions;
	hipError_t error = hip_enter();

	if (!error && (!flags || !location || !ptr || location->type != hipMemLocationTypeDevice))
		error = hipErrorInvalidValue;
	if (!error && !hip_device_ok(location->id))
		error = hipErrorInvalidDevice;
	if (!error)
		error = hip_of_status(hsa_amd_vmem_get_access(
			ptr, &permissions, hip_devices[location->id].agent));
	if (!error)
		*flags = permissions == HSA_ACCESS_PERMISSION_RW ? hipMemAccessFlagsProtReadWrite :
			 permissions == HSA_ACCESS_PERMISSION_RO ? hipMemAccessFlagsProtRead :
								   hipMemAccessFlagsProtNone;
	return hip_done(error);
}

/* ---- other processes ---- */

HIP_EXPORT hipError_t hipMemExportToShareableHandle(void *shareable,
						    hipMemGenericAllocationHandle_t handle,
						    hipMemAllocationHandleType type,
						    unsigned long long flags)
{
	hipError_t error = hip_enter();

	if (!error && (!shareable || flags || type != hipMemHandleTypePosixFileDescriptor))
		error = hipErrorInvalidValue;
	if (!error)
		error = hip_of_status(
			hsa_amd_vmem_export_shareable_handle(shareable, of(handle), 0));
	return hip_done(error);
}

/*
 * The descriptor, cast to a pointer, as in HIP 7; or a pointer to it, as in HIP 6. No address is
 * in the range of an int, also of a negative one such as the -1 of a call that failed.
 */
static int descriptor_of(const void *os_handle)
{
	intptr_t value = (intptr_t)os_handle;

	return value >= INT_MIN && value <= INT_MAX ? (int)value : *(const int *)os_handle;
}

/* The caller keeps the descriptor. */
HIP_EXPORT hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle,
						      void *os_handle,
						      hipMemAllocationHandleType type)
{
	hsa_amd_vmem_alloc_handle_t h;
	hipError_t error = hip_enter();

	if (!error && (!handle || type != hipMemHandleTypePosixFileDescriptor))
		error = hipErrorInvalidValue;
	if (!error)
		error = hip_of_status(
			hsa_amd_vmem_import_shareable_handle(descriptor_of(os_handle), &h));
	if (!error)
		*handle = to(h);
	return hip_done(error);
}
