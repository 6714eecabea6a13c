// SPDX-License-Identifier: MIT
/*
 * region.c - regions, the names of HSA 1.0 for what AMD's extensions call pools. As in AMD's
 * runtime, a region and its pool have the same handle.
 */
#include "hsa_int.h"

static hsa_amd_memory_pool_t pool_of(hsa_region_t region)
{
	return (hsa_amd_memory_pool_t){ .handle = region.handle };
}

static hsa_status_t status_of(hsa_status_t status)
{
	if ((int)status == HSA_STATUS_ERROR_INVALID_MEMORY_POOL)
		return HSA_STATUS_ERROR_INVALID_REGION;
	return status;
}

struct each {
	hsa_status_t (*callback)(hsa_region_t region, void *data);
	void *data;
};

static hsa_status_t call(hsa_amd_memory_pool_t pool, void *data)
{
	const struct each *each = data;

	return each->callback((hsa_region_t){ .handle = pool.handle }, each->data);
}

SGU_EXPORT hsa_status_t hsa_agent_iterate_regions(hsa_agent_t agent,
		hsa_status_t (*callback)(hsa_region_t region, void *data), void *data)
{
	struct each each = { .callback = callback, .data = data };

	return hsa_amd_agent_iterate_memory_pools(agent, callback ? call : NULL, &each);
}

/* Attributes of regions that pools do not have. False: not such an attribute. */
static bool own_info(unsigned int attribute, void *value)
{
	switch (attribute) {
	case HSA_AMD_REGION_INFO_HOST_ACCESSIBLE:
		*(bool *)value = true;
		return true;
	case HSA_AMD_REGION_INFO_BASE:
		*(void **)value = NULL;
		return true;
	case HSA_AMD_REGION_INFO_BUS_WIDTH:
	case HSA_AMD_REGION_INFO_MAX_CLOCK_FREQUENCY:
		*(uint32_t *)value = 0;
		return true;
	}
	return false;
}

/* The numbers of the attributes that both have are the same. */
SGU_EXPORT hsa_status_t hsa_region_get_info(hsa_region_t region, hsa_region_info_t attribute,
					    void *value)
{
	hsa_amd_memory_pool_info_t info = (hsa_amd_memory_pool_info_t)attribute;
	hsa_amd_segment_t segment;
	hsa_status_t status;

	switch ((unsigned int)attribute) {
	case HSA_REGION_INFO_SEGMENT:
	case HSA_REGION_INFO_GLOBAL_FLAGS:
	case HSA_REGION_INFO_SIZE:
	case HSA_REGION_INFO_RUNTIME_ALLOC_ALLOWED:
	case HSA_REGION_INFO_RUNTIME_ALLOC_GRANULE:
	case HSA_REGION_INFO_RUNTIME_ALLOC_ALIGNMENT:
		return status_of(hsa_amd_memory_pool_get_info(pool_of(region), info, value));
	case HSA_REGION_INFO_ALLOC_MAX_SIZE:
		info = HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE;
		return status_of(hsa_amd_memory_pool_get_info(pool_of(region), info, value));
	}
	info = HSA_AMD_MEMORY_POOL_INFO_SEGMENT;
	status = hsa_amd_memory_pool_get_info(pool_of(region), info, value ? &segment : NULL);
	if (!status && !own_info(attribute, value))
		status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	return status_of(status);
}

SGU_EXPORT hsa_status_t hsa_memory_allocate(hsa_region_t region, size_t size, void **ptr)
{
	return status_of(hsa_pool_allocate(pool_of(region), size, 0, ptr));
}

SGU_EXPORT hsa_status_t hsa_memory_free(void *ptr)
{
	return hsa_pool_free(ptr);
}

/* ---- calls without an effect: GPUs reach all memory ---- */

SGU_EXPORT hsa_status_t hsa_memory_register(void *ptr, size_t size)
{
	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	return ptr && !size ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_memory_deregister(void *ptr, size_t size)
{
	(void)ptr;
	(void)size;
	return hsa_enter() ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

SGU_EXPORT hsa_status_t hsa_memory_assign_agent(void *ptr, hsa_agent_t agent,
						hsa_access_permission_t access)
{
	int number;

	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!ptr || access < HSA_ACCESS_PERMISSION_RO || access > HSA_ACCESS_PERMISSION_RW)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	return hsa_agent_number(agent, &number) ? HSA_STATUS_SUCCESS :
						  HSA_STATUS_ERROR_INVALID_AGENT;
}
