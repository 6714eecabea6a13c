// SPDX-License-Identifier: MIT
/* gpu_hsa.c - memory of HSA's pools: of the CPU, and of a GPU if there is one. */
#include <stdio.h>
#include <stdlib.h>

#include "gpu.h"
#include "hsa/hsa.h"
#include "hsa/hsa_ext_amd.h"

#define OK(call) do {								\
	hsa_status_t status_ = (call);						\
	if (status_) {								\
		fprintf(stderr, "%s: HSA status %#x\n", #call, status_);	\
		exit(9);							\
	}									\
} while (0)

const char *const gpu_provider[] = { "hsa", "hsa", NULL };
static hsa_amd_memory_pool_t pools[2];	/* the CPU's, the GPU's */

static hsa_status_t see_pool(hsa_amd_memory_pool_t pool, void *data)
{
	*(hsa_amd_memory_pool_t *)data = pool;
	return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t see_agent(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;

	if (hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type))
		return HSA_STATUS_ERROR;
	if (!pools[type != HSA_DEVICE_TYPE_CPU].handle)
		hsa_amd_agent_iterate_memory_pools(agent, see_pool, &pools[type != HSA_DEVICE_TYPE_CPU]);
	return HSA_STATUS_SUCCESS;
}

bool gpu_begin(void)
{
	return !hsa_init() && !hsa_iterate_agents(see_agent, NULL);
}

bool gpu_shared(void)
{
	return true;
}

void *gpu_alloc(int kind, size_t length)
{
	void *p;

	if (!pools[kind].handle)
		return NULL;
	OK(hsa_amd_memory_pool_allocate(pools[kind], length, 0, &p));
	return p;
}

void gpu_free(int kind, void *p, size_t length)
{
	OK(hsa_amd_memory_pool_free(p));
}

void gpu_put(void *p, const void *from, size_t length)
{
	OK(hsa_memory_copy(p, from, length));
}

void gpu_get(void *to, const void *p, size_t length)
{
	OK(hsa_memory_copy(to, p, length));
}

bool gpu_new_context(void)
{
	return false;
}

bool gpu_no_context(bool none)
{
	return false;
}
