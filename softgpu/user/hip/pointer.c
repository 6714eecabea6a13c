// SPDX-License-Identifier: MIT
/* pointer.c - queries of pointers. */
#include <string.h>

#include "hip_int.h"

static hipMemoryType type_of(const struct hip_memory *m)
{
	static const hipMemoryType types[] = {
		[HIP_DEVICE_MEMORY] = hipMemoryTypeDevice,
		[HIP_HOST_MEMORY] = hipMemoryTypeHost,
		[HIP_MANAGED_MEMORY] = hipMemoryTypeManaged,
	};

	return m->known ? types[m->kind] : hipMemoryTypeUnregistered;
}

HIP_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr)
{
	hipError_t error = hip_enter();
	struct hip_memory m;

	if (!error && (!attributes || !ptr))
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	m = hip_memory_at(ptr);
	*attributes = (hipPointerAttribute_t){ .device = m.device };
	if (!m.known)
		return hipSuccess;
	attributes->type = type_of(&m);
	attributes->isManaged = m.kind == HIP_MANAGED_MEMORY;
	attributes->devicePointer = (void *)(uintptr_t)ptr;
	if (m.kind != HIP_DEVICE_MEMORY)
		attributes->hostPointer = (void *)(uintptr_t)ptr;
	attributes->allocationFlags = m.flags;
	return hipSuccess;
}

/* Stores what memory that HIP does not know has: the results have the types of those below. */
static hipError_t unknown(void *data, hipPointer_attribute attribute)
{
	switch (attribute) {
	case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
	case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(void **)data = NULL;
		break;
	case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
	case HIP_POINTER_ATTRIBUTE_MAPPED:
		*(bool *)data = false;
		break;
	case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = hipInvalidDeviceId;
		break;
	case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned int *)data = 0;
		return hipSuccess;
	case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(unsigned int *)data = 0;
		break;
	default:
		break;
	}
	return hipErrorInvalidValue;
}

static hipError_t known(void *data, hipPointer_attribute attribute, const struct hip_memory *m,
			void *ptr)
{
	switch (attribute) {
	case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
		/* Managed memory is the host's. */
		*(unsigned int *)data = m->kind == HIP_DEVICE_MEMORY ? hipMemoryTypeDevice :
								       hipMemoryTypeHost;
		return hipSuccess;
	case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(void **)data = ptr;
		return hipSuccess;
	case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
		*(void **)data = m->kind == HIP_DEVICE_MEMORY ? NULL : ptr;
		return m->kind == HIP_DEVICE_MEMORY ? hipErrorInvalidValue : hipSuccess;
	case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case HIP_POINTER_ATTRIBUTE_MAPPED:
		*(bool *)data = true;
		return hipSuccess;
	case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
		*(bool *)data = m->kind == HIP_MANAGED_MEMORY;
		return hipSuccess;
	case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = m->device;
		return hipSuccess;
	case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(void **)data = m->base;
		return hipSuccess;
	case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(unsigned int *)data = (unsigned int)m->size;
		return hipSuccess;
	case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned int *)data = m->flags;
		return hipSuccess;
	default:
		return hipErrorInvalidValue;
	}
}

static bool is_supported(hipPointer_attribute attribute)
{
	switch (attribute) {
	case HIP_POINTER_ATTRIBUTE_CONTEXT:
	case HIP_POINTER_ATTRIBUTE_P2P_TOKENS:
	case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
	case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
	case HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return false;
	default:
		return true;
	}
}

static hipError_t attribute_of(void *data, hipPointer_attribute attribute, void *ptr)
{
	struct hip_memory m;

	if (!data || !ptr)
		return hipErrorInvalidValue;
	if (!is_supported(attribute))
		return hipErrorNotSupported;
	m = hip_memory_at(ptr);
	return m.known ? known(data, attribute, &m, ptr) : unknown(data, attribute);
}

HIP_EXPORT hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute,
					     hipDeviceptr_t ptr)
{
	hipError_t error = hip_enter();

	return hip_done(error ? error : attribute_of(data, attribute, ptr));
}

/* What is not known or not supported is no error here. */
HIP_EXPORT hipError_t hipDrvPointerGetAttributes(unsigned int n, hipPointer_attribute *attributes,
						 void **data, hipDeviceptr_t ptr)
{
	hipError_t error = hip_enter();

	if (!error && (!attributes || !data))
		error = hipErrorInvalidValue;
	for (unsigned int i = 0; i < n && !error; i++)
		attribute_of(data[i], attributes[i], ptr);
	return hip_done(error);
}

/* All memory has SYNC_MEMOPS. */
HIP_EXPORT hipError_t hipPointerSetAttribute(const void *value, hipPointer_attribute attribute,
					     hipDeviceptr_t ptr)
{
	hipError_t error = hip_enter();

	if (!error && (!value || !ptr || attribute != HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS))
		error = hipErrorInvalidValue;
	if (!error && !hip_memory_at(ptr).known)
		error = hipErrorInvalidDevicePointer;
	return hip_done(error);
}
