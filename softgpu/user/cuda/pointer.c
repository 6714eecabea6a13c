// SPDX-License-Identifier: MIT
/* pointer.c - queries of pointers: cuPointerGetAttribute() and similar calls. */
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pool.h"
#include "vmm.h"

static bool is_known(const struct softgpu_query *q)
{
	return q->kind != SOFTGPU_KIND_NONE && q->kind != SOFTGPU_KIND_RESERVED;
}

static CUresult query_known(CUdeviceptr ptr, struct softgpu_query *q)
{
	CUresult result = sgu_query(ptr, q);

	return result || is_known(q) ? result : CUDA_ERROR_INVALID_VALUE;
}

/* Size of an attribute's value in bytes; 0: unknown attribute. */
static size_t attribute_size(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return 4;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return 8;
	}
	return 0;
}

/* Returns the value in the low bytes of *v. After an error, *v is 0. */
static CUresult attribute_value(CUpointer_attribute attribute, const struct softgpu_query *q,
				uint64_t *v)
{
	/* a mapping consists of whole pages of the owner */
	uint64_t page = q->kind == SOFTGPU_KIND_REGISTERED ? (uint64_t)sysconf(_SC_PAGESIZE) :
		SGU_PAGE;
	struct sgu_pool_facts pool;
	struct sgu_vmm_facts vmm;

	*v = 0;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		/* NULL: mappings of VMM and memory of pools belong to no context */
		*v = (uintptr_t)sgu_ctx_of_driver(q->ctx);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*v = sgu_is_vram(q) || q->kind == SOFTGPU_KIND_MANAGED ?
			CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*v = q->device_va ? q->device_va : q->va;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (sgu_is_vram(q))
			return CUDA_ERROR_INVALID_VALUE;
		*v = q->host_va ? q->host_va : q->va;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*v = q->sync_memops;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*v = q->buffer_id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*v = q->kind == SOFTGPU_KIND_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*v = (uint32_t)sgu_gpu_of_index(q->gpu);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		vmm.reserved_base = q->base;
		vmm.reserved_length = q->length;
		if (q->kind == SOFTGPU_KIND_VMM)
			sgu_vmm_facts(q->va, &vmm);
		*v = attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ?
			vmm.reserved_length : vmm.reserved_base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*v = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*v = q->kind == SOFTGPU_KIND_DEVICE ||
		     (q->kind == SOFTGPU_KIND_VMM && sgu_vmm_facts(q->va, &vmm) &&
		      vmm.rdma_capable);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*v = q->access;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*v = q->kind == SOFTGPU_KIND_DEVICE && sgu_shared() && !sgu_pool_facts(q->va, &pool);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		if (q->kind == SOFTGPU_KIND_VMM && sgu_vmm_facts(q->va, &vmm))
			*v = vmm.handle_types;
		else if (sgu_pool_facts(q->va, &pool))
			*v = pool.handle_types;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		if (sgu_pool_facts(q->va, &pool))
			*v = pool.pool;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*v = q->base & ~(page - 1);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*v = ((q->base + q->length + page - 1) & ~(page - 1)) - (q->base & ~(page - 1));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return CUDA_ERROR_NOT_SUPPORTED;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		break;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/*
 * A program that requests tokens will let a device access the memory, so SYNC_MEMOPS is set, too.
 * Memory of VMM and of pools belongs to no context, and its tokens are 0: with these, only the
 * owning process can pin it. Those of managed memory, which cannot be pinned, are 0 as well.
 */
static CUresult get_tokens(const struct softgpu_query *q, CUDA_POINTER_ATTRIBUTE_P2P_TOKENS *tokens)
{
	CUresult result;

	memset(tokens, 0, sizeof(*tokens));
	if (!sgu_is_vram(q) && q->kind != SOFTGPU_KIND_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	result = sgu_set_sync_memops(q->va, true);
	if (result)
		return result;
	if (q->kind != SOFTGPU_KIND_MANAGED) {
		tokens->p2pToken = q->p2p_token;
		tokens->vaSpaceToken = q->va_space_token;
	}
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
					  CUdeviceptr ptr)
{
	size_t size = attribute_size(attribute);
	CUresult result = sgu_enter();
	struct softgpu_query q;
	uint64_t v;

	if (result)
		return result;
	if (!data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	result = query_known(ptr, &q);
	if (result)
		return result;
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return get_tokens(&q, data);
	result = attribute_value(attribute, &q, &v);
	memcpy(data, &v, size);
	return result;
}

/*
 * Never fails because of the pointer. Attributes that do not apply to it are 0, so one call
 * distinguishes host memory from GPU memory.
 */
SGU_EXPORT CUresult cuPointerGetAttributes(unsigned int numAttributes,
					   CUpointer_attribute *attributes, void **data,
					   CUdeviceptr ptr)
{
	CUresult result = sgu_enter();
	struct softgpu_query q;
	uint64_t v;

	if (result)
		return result;
	if (!numAttributes || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < numAttributes; i++) {
		if (!data[i] || !attribute_size(attributes[i]) ||
		    attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			return CUDA_ERROR_INVALID_VALUE;
	}
	result = sgu_query(ptr, &q);
	if (result)
		return result;
	for (unsigned int i = 0; i < numAttributes; i++) {
		switch (is_known(&q) ? 0 : (int)attributes[i]) {
		case 0:
			attribute_value(attributes[i], &q, &v);
			break;
		case CU_POINTER_ATTRIBUTE_HOST_POINTER:
			v = ptr;
			break;
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			v = (uint32_t)CU_DEVICE_INVALID;
			break;
		case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
			if (q.kind == SOFTGPU_KIND_NONE)
				continue;	/* left unchanged, as by NVIDIA's driver */
			v = attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? q.length : q.base;
			break;
		default:
			v = 0;
		}
		memcpy(data[i], &v, attribute_size(attributes[i]));
	}
	return CUDA_SUCCESS;
}

CUresult sgu_set_sync_memops(uint64_t va, bool on)
{
	struct softgpu_set_attr set = {
		.size = sizeof(set), .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .va = va, .value = on,
	};
	int err = sgu_call_any(SOFTGPU_SET_ATTR, &set);

	/*
	 * Work that was queued before must complete, because its effect could become visible later.
	 * As documented, each such call synchronizes, whatever the old value was.
	 */
	return err ? sgu_result(err) : sgu_ctx_sync_all();
}

SGU_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
					  CUdeviceptr ptr)
{
	CUresult result = sgu_enter();
	struct softgpu_query q;
	unsigned int on;

	if (result)
		return result;
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	result = query_known(ptr, &q);
	if (result)
		return result;
	memcpy(&on, value, sizeof(on));
	return sgu_set_sync_memops(ptr, on);
}

SGU_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct softgpu_query q;
	CUresult result = sgu_ctx_needed();

	if (result)
		return result;
	result = sgu_query(dptr, &q);
	if (result)
		return result;
	if (!is_known(&q))
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = q.base;
	if (psize)
		*psize = q.length;
	return CUDA_SUCCESS;
}
