// SPDX-License-Identifier: MIT
/* phys.c - memory of cuMemCreate(), and its handles. */
#include <stdlib.h>
#include <string.h>

#include "share.h"
#include "vmm_int.h"

pthread_mutex_t sgu_vmm_lock = PTHREAD_MUTEX_INITIALIZER;

static void phys_free(struct sgu_obj *obj)
{
	free(obj);
}

void sgu_phys_end(struct phys *phys)
{
	struct softgpu_handle release = { .size = sizeof(release), .handle = phys->handle };

	if (!sgu_obj_take(phys->obj.handle, SGU_PHYS, NULL))
		return;
	sgu_call(phys->gpu, SOFTGPU_PHYS_RELEASE, &release);
	sgu_obj_put(&phys->obj);
}

struct phys *sgu_phys_get(CUmemGenericAllocationHandle handle)
{
	struct phys *phys = (struct phys *)sgu_obj_get(handle, SGU_PHYS, NULL);
	bool valid;

	if (!phys)
		return NULL;
	pthread_mutex_lock(&sgu_vmm_lock);
	valid = phys->retained > 0;
	pthread_mutex_unlock(&sgu_vmm_lock);
	if (valid)
		return phys;
	sgu_obj_put(&phys->obj);
	return NULL;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
	static const unsigned char zero[sizeof(prop->allocFlags.reserved)];

	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    prop->location.type == CU_MEM_LOCATION_TYPE_INVALID || prop->win32HandleMetaData ||
	    prop->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC ||
	    memcmp(prop->allocFlags.reserved, zero, sizeof(zero)))
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->allocFlags.usage)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sgu_device_ok(prop->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	return sgu_handle_types_ok(prop->requestedHandleTypes);
}

SGU_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity,
						  const CUmemAllocationProp *prop,
						  CUmemAllocationGranularity_flags option)
{
	CUresult result = sgu_enter();

	if (result)
		return result;
	if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
			     option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	/* clients also pass empty properties, or handle types that are not supported */
	*granularity = SGU_PAGE;
	return CUDA_SUCCESS;
}

CUresult sgu_phys_publish(int gpu, uint32_t handle, size_t length, const CUmemAllocationProp *prop,
			  CUmemGenericAllocationHandle *out)
{
	struct softgpu_handle release = { .size = sizeof(release), .handle = handle };
	struct phys *phys = calloc(1, sizeof(*phys));

	if (phys) {
		phys->gpu = gpu;
		phys->handle = handle;
		phys->length = length;
		phys->prop = *prop;
		phys->prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;
		phys->retained = 1;
		if (!sgu_obj_publish(&phys->obj, SGU_PHYS, phys_free)) {
			*out = phys->obj.handle;
			return CUDA_SUCCESS;
		}
	}
	free(phys);
	sgu_call(gpu, SOFTGPU_PHYS_RELEASE, &release);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

SGU_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
				const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct softgpu_phys_create create = { .size = sizeof(create), .length = size };
	CUresult result = sgu_enter();
	int err;

	if (result)
		return result;
	if (!handle || !size || (size & (SGU_PAGE - 1)) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_prop(prop);
	if (result)
		return result;
	create.flags = prop->allocFlags.gpuDirectRDMACapable ? 0 : SOFTGPU_PHYS_NO_RDMA;
	err = sgu_call(prop->location.id, SOFTGPU_PHYS_CREATE, &create);
	if (err)
		return sgu_result(err);
	return sgu_phys_publish(prop->location.id, create.handle, size, prop, handle);
}

SGU_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult result = sgu_enter();
	struct phys *phys;
	bool last = false, ok = false;

	if (result)
		return result;
	phys = (struct phys *)sgu_obj_get(handle, SGU_PHYS, NULL);
	if (!phys)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_vmm_lock);
	if (phys->retained) {
		ok = true;
		last = --phys->retained == 0 && phys->mapped == 0;
	}
	pthread_mutex_unlock(&sgu_vmm_lock);
	if (last)
		sgu_phys_end(phys);
	sgu_obj_put(&phys->obj);
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SGU_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
							   CUmemGenericAllocationHandle handle)
{
	CUresult result = sgu_enter();
	struct phys *phys;

	if (result)
		return result;
	phys = sgu_phys_get(handle);
	if (!phys)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop)
		*prop = phys->prop;
	sgu_obj_put(&phys->obj);
	return prop ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
