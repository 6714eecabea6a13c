// SPDX-License-Identifier: MIT
/* pointer.c - queries of pointers. */
#include <string.h>

#include "hsa_int.h"

static void of_memory(hsa_amd_pointer_info_t *info, const struct hsa_memory *m)
{
	info->type = m->phys	 ? HSA_EXT_POINTER_TYPE_HSA_VMEM :
		     m->attached ? HSA_EXT_POINTER_TYPE_IPC :
				   HSA_EXT_POINTER_TYPE_HSA;
	info->agentBaseAddress = m->base;
	info->hostBaseAddress = m->base;
	info->sizeInBytes = m->size;
	info->userData = m->userdata;
	info->agentOwner = hsa_agent_of(m->agent);
	info->global_flags = m->agent == HSA_CPU ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED :
		HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
	info->registered = true;
	info->alloc_flags = m->flags;
}

static void of_locked(hsa_amd_pointer_info_t *info, const struct hsa_locked *l)
{
	info->type = HSA_EXT_POINTER_TYPE_LOCKED;
	info->agentBaseAddress = l->base;
	info->hostBaseAddress = l->base;
	info->sizeInBytes = l->size;
	info->userData = l->userdata;
	info->agentOwner = hsa_agent_of(HSA_CPU);
	info->global_flags = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
	info->registered = true;
}

/* The program's own function allocates the array. */
static hsa_status_t list_agents(uint32_t mask, void *(*alloc)(size_t), uint32_t *n,
				hsa_agent_t **agents)
{
	uint32_t count = (uint32_t)__builtin_popcount(mask), at = 0;

	*n = count;
	*agents = NULL;
	if (!count)
		return HSA_STATUS_SUCCESS;
	*agents = alloc(count * sizeof(**agents));
	if (!*agents)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	for (int i = 0; i < SOFTGPU_MAX_GPUS; i++) {
		if (mask & 1u << i)
			(*agents)[at++] = hsa_agent_of(i);
	}
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info,
					     void *(*alloc)(size_t),
					     uint32_t *num_agents_accessible,
					     hsa_agent_t **accessible)
{
	hsa_amd_pointer_info_t result = { .size = sizeof(result) };
	const struct hsa_memory *m;
	const struct hsa_locked *l;
	uint32_t mapped = 0;
	bool ready;

	pthread_mutex_lock(&hsa_lock);
	ready = hsa_ready();
	m = ready ? hsa_memory_at(ptr) : NULL;
	l = ready && !m ? hsa_locked_at(ptr) : NULL;
	if (m) {
		of_memory(&result, m);
		mapped = m->mapped;
	} else if (l) {
		of_locked(&result, l);
		mapped = l->mapped;
	} else if (ready && hsa_is_reserved(ptr)) {
		result.type = HSA_EXT_POINTER_TYPE_RESERVED_ADDR;
	}
	pthread_mutex_unlock(&hsa_lock);
	if (!ready)
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!ptr || !info || !info->size)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	/* The caller's struct may be of an older release, and shorter. */
	if (info->size < result.size)
		result.size = info->size;
	memcpy(info, &result, result.size);
	if (!alloc || !num_agents_accessible || !accessible || (!m && !l))
		return HSA_STATUS_SUCCESS;
	return list_agents(mapped, alloc, num_agents_accessible, accessible);
}

SGU_EXPORT hsa_status_t hsa_amd_pointer_info_set_userdata(const void *ptr, void *userdata)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_memory *m;
	struct hsa_locked *l;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_SUCCESS;
	m = hsa_memory_at(ptr);
	l = m ? NULL : hsa_locked_at(ptr);
	if (m && m->base == ptr)
		m->userdata = userdata;
	else if (l && l->base == ptr)
		l->userdata = userdata;
	else
		status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}
