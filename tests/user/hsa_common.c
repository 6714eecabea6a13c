// SPDX-License-Identifier: MIT
/* hsa_common.c - what HSA's tests begin with. */
#include "hsa_test.h"

hsa_agent_t cpu, gpu;
hsa_amd_memory_pool_t cpu_pool, gpu_pool;
int gpus;

hsa_status_t see_pool(hsa_amd_memory_pool_t pool, void *data)
{
	*(hsa_amd_memory_pool_t *)data = pool;
	return HSA_STATUS_INFO_BREAK;
}

hsa_status_t see_agent(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;

	if (hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type))
		return HSA_STATUS_ERROR;
	if (type == HSA_DEVICE_TYPE_CPU) {
		cpu = agent;
		hsa_amd_agent_iterate_memory_pools(agent, see_pool, &cpu_pool);
	} else if (!gpus++) {
		gpu = agent;
		hsa_amd_agent_iterate_memory_pools(agent, see_pool, &gpu_pool);
	}
	return HSA_STATUS_SUCCESS;
}

int up(void **state)
{
	gpus = 0;
	return hsa_init() || hsa_iterate_agents(see_agent, NULL);
}

int down(void **state)
{
	return hsa_shut_down();
}

uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

hsa_signal_t signal_of(hsa_signal_value_t value)
{
	hsa_signal_t s = { 0 };

	FINE(hsa_signal_create(value, 0, NULL, &s));
	assert_true(s.handle);
	return s;
}

/* Of a GPU where there is one. */
void *memory(bool of_gpu, size_t size)
{
	void *p = NULL;

	FINE(hsa_amd_memory_pool_allocate(of_gpu && gpus ? gpu_pool : cpu_pool, size, 0, &p));
	assert_non_null(p);
	return p;
}

hsa_amd_pointer_info_t info_of(const void *p)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };

	FINE(hsa_amd_pointer_info(p, &info, NULL, NULL, NULL));
	return info;
}
