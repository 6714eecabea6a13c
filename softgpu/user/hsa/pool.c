// SPDX-License-Identifier: MIT
/* pool.c - the pool of each agent that has memory, and the access of agents to pools. */
#include <unistd.h>

#include "hsa_int.h"

#define POOL_FIRST	0x200u		/* the CPU's; those of GPUs follow */

bool hsa_pool_number(hsa_amd_memory_pool_t pool, int *number)
{
	if (pool.handle < POOL_FIRST || pool.handle - POOL_FIRST > (unsigned int)hsa_gpu_count)
		return false;
	*number = (int)(pool.handle - POOL_FIRST) - 1;
	return *number == HSA_CPU || hsa_gpus[*number].has_pool;
}

hsa_amd_memory_pool_t hsa_pool_of(int number)
{
	return (hsa_amd_memory_pool_t){ .handle = POOL_FIRST + 1u + (unsigned int)number };
}

SGU_EXPORT hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
		hsa_status_t (*callback)(hsa_amd_memory_pool_t pool, void *data), void *data)
{
	int i;

	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!callback)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!hsa_agent_number(agent, &i))
		return HSA_STATUS_ERROR_INVALID_AGENT;
	if (i != HSA_CPU && !hsa_gpus[i].has_pool)
		return HSA_STATUS_SUCCESS;
	return callback(hsa_pool_of(i), data);
}

size_t hsa_pool_size(int i)
{
	return i == HSA_CPU ? (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) :
			      hsa_gpus[i].info.vram_total;
}

SGU_EXPORT hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool,
						     hsa_amd_memory_pool_info_t attribute,
						     void *value)
{
	int i;

	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!value)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!hsa_pool_number(pool, &i))
		return (hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
	switch (attribute) {
	case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
		*(hsa_amd_segment_t *)value = HSA_AMD_SEGMENT_GLOBAL;
		break;
	case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
		*(uint32_t *)value = i == HSA_CPU ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED :
			HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
		break;
	case HSA_AMD_MEMORY_POOL_INFO_SIZE:
	case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
		*(size_t *)value = hsa_pool_size(i);
		break;
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
		*(bool *)value = true;
		break;
	case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
		*(bool *)value = i == HSA_CPU;
		break;
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE:
		*(size_t *)value = HSA_PAGE;
		break;
	case HSA_AMD_MEMORY_POOL_INFO_LOCATION:
		*(hsa_amd_memory_pool_location_t *)value = i == HSA_CPU ? HSA_AMD_MEMORY_POOL_LOCATION_CPU :
			HSA_AMD_MEMORY_POOL_LOCATION_GPU;
		break;
	default:
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	}
	return HSA_STATUS_SUCCESS;
}

/* All agents are one PCIe hop apart. The link's speed is not known. */
SGU_EXPORT hsa_status_t
hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent, hsa_amd_memory_pool_t pool,
				   hsa_amd_agent_memory_pool_info_t attribute, void *value)
{
	int from, to;

	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!value)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!hsa_agent_number(agent, &from))
		return HSA_STATUS_ERROR_INVALID_AGENT;
	if (!hsa_pool_number(pool, &to))
		return (hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
	switch (attribute) {
	case HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS:
		*(hsa_amd_memory_pool_access_t *)value = from == to ? HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT :
			HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT;
		break;
	case HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS:
		*(uint32_t *)value = from != to;
		break;
	case HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO:
		*(hsa_amd_memory_pool_link_info_t *)value = (hsa_amd_memory_pool_link_info_t){ 0 };
		if (from != to)
			*(hsa_amd_memory_pool_link_info_t *)value = (hsa_amd_memory_pool_link_info_t){
				.atomic_support_32bit = true, .atomic_support_64bit = true,
				.link_type = HSA_AMD_LINK_INFO_TYPE_PCIE, .numa_distance = 20,
			};
		break;
	default:
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	}
	return HSA_STATUS_SUCCESS;
}
