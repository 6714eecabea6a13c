// SPDX-License-Identifier: MIT
/* facts_hsa.c - what HSA says of agents and pools. */
#include "facts.h"

CASE(hsa)
{
	/* What a software GPU does not have. */
	static const unsigned int none[] = { HSA_AGENT_INFO_FEATURE, HSA_AGENT_INFO_QUEUES_MAX,
					     HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, HSA_AMD_AGENT_INFO_ASIC_REVISION };
	uint64_t left;
	hsa_amd_memory_pool_link_info_t link;
	const hsa_agent_t *agents[] = { &cpu, &gpu };
	hsa_amd_segment_t segment;
	char text[64];
	const char *name;
	uint32_t word;
	uint16_t version;
	size_t size;
	bool yes;

	assert_int_equal(gpus, 2);
	for (uint32_t i = 0; i < 2; i++) {
		memset(text, 'x', sizeof(text));
		FINE(hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_NAME, text));
		assert_string_equal(text, i ? "softgpu (stand-in)" : "CPU");
		assert_int_equal(text[63], 0);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_PRODUCT_NAME, text));
		assert_string_equal(text, i ? "softgpu (stand-in)" : "CPU");
		FINE(hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_VENDOR_NAME, text));
		assert_string_equal(text, i ? "softgpu" : "CPU");
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_UUID, text));
		assert_string_equal(text, i ? "GPU-a0b1c2d3e4f50617" : "CPU-XX");
		FINE(hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_NODE, &word));
		assert_int_equal(word, i);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DRIVER_NODE_ID, &word));
		assert_int_equal(word, i);
		FINE(hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_DEVICE, &word));
		assert_int_equal(word, i ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_CHIP_ID, &word));
		assert_int_equal(word, 0);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_BDFID, &word));
		assert_int_equal(word, i ? (DEVICE_BUS + 1) << 8 | DEVICE_SLOT << 3 | DEVICE_FUNCTION : 0);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DOMAIN, &word));
		assert_int_equal(word, i ? DEVICE_DOMAIN : 0);
		for (size_t n = 0; n < sizeof(none) / sizeof(none[0]); n++) {
			word = 7;
			FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)none[n], &word));
			assert_int_equal(word, 0);
		}
		if (i) {
			FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_MEMORY_AVAIL, &left));
			assert_true(left && left <= DEVICE_VRAM);
		} else {
			IS(INVALID_AGENT, hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_MEMORY_AVAIL, &left));
		}
		IS(INVALID_ARGUMENT, hsa_agent_get_info(*agents[i], (hsa_agent_info_t)5, &word));
		IS(INVALID_ARGUMENT, hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_NODE, NULL));
	}
	/* The numbers before the first agent, and behind the last. */
	for (int i = 0; i < 2; i++) {
		const hsa_agent_t no = { i ? gpu.handle + 2 : cpu.handle - 1 };
		const hsa_amd_memory_pool_t no_pool = { i ? gpu_pool.handle + 2 : cpu_pool.handle - 1 };

		IS(INVALID_AGENT, hsa_agent_get_info(no, HSA_AGENT_INFO_NODE, &word));
		IS(INVALID_AGENT, hsa_amd_agent_iterate_memory_pools(no, see_pool, &word));
		NO_POOL(hsa_amd_memory_pool_get_info(no_pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &size));
	}
	IS(INVALID_ARGUMENT, hsa_amd_agent_iterate_memory_pools(cpu, NULL, &word));
	IS(INVALID_ARGUMENT, hsa_iterate_agents(NULL, NULL));

	for (int i = 0; i < 2; i++) {
		const hsa_amd_memory_pool_t pool = i ? gpu_pool : cpu_pool, far = i ? cpu_pool : gpu_pool;

		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
		assert_int_equal(segment, HSA_AMD_SEGMENT_GLOBAL);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &word));
		assert_int_equal(word, i ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED :
				 HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
		for (int max = 0; max < 2; max++) {
			FINE(hsa_amd_memory_pool_get_info(pool, max ? HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE :
							  HSA_AMD_MEMORY_POOL_INFO_SIZE, &size));
			assert_int_equal(size, i ? DEVICE_VRAM : (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
		}
		yes = false;
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &yes));
		assert_true(yes);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL, &yes));
		assert_int_equal(yes, !i);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE, &size));
		assert_int_equal(size, 4096);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT, &size));
		assert_int_equal(size, 4096);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE, &size));
		assert_int_equal(size, 4096);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_LOCATION, &word));
		assert_int_equal(word, i ? HSA_AMD_MEMORY_POOL_LOCATION_GPU : HSA_AMD_MEMORY_POOL_LOCATION_CPU);
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &word));
		assert_int_equal(word, HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], far, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &word));
		assert_int_equal(word, HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], far, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &word));
		assert_int_equal(word, 1);
		memset(&link, 0x5a, sizeof(link));
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], far, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link));
		assert_true(link.min_latency == 0 && link.max_latency == 0 && link.min_bandwidth == 0 && link.max_bandwidth == 0);
		assert_true(link.atomic_support_32bit && link.atomic_support_64bit && !link.coherent_support);
		assert_int_equal(link.link_type, HSA_AMD_LINK_INFO_TYPE_PCIE);
		assert_int_equal(link.numa_distance, 20);
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link));
		assert_true(!link.atomic_support_32bit && !link.numa_distance && !link.link_type);
	}

	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &version));
	assert_int_equal(version, 1);
	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &version));
	assert_int_equal(version, 1);
	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &size));
	assert_int_equal(size, 1000000000);
	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT, &size));
	assert_true(size == UINT64_MAX);
	for (int i = 0; i < 2; i++) {
		uint64_t before = now_ns(CLOCK_MONOTONIC), stamp;

		FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &stamp));
		assert_true(stamp >= before && stamp <= now_ns(CLOCK_MONOTONIC));
	}
	IS(INVALID_ARGUMENT, hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, NULL));
	IS(INVALID_ARGUMENT, hsa_system_get_info((hsa_system_info_t)99, &size));
	FINE(hsa_status_string(HSA_STATUS_ERROR_INVALID_SIGNAL, &name));
	assert_string_equal(name, "not such a signal");
	FINE(hsa_status_string(HSA_STATUS_SUCCESS, &name));
	assert_string_equal(name, "no error");
	FINE(hsa_status_string(HSA_STATUS_ERROR_NOT_INITIALIZED, &name));
	assert_string_equal(name, "hsa_init has not been called in this process");
	IS(INVALID_ARGUMENT, hsa_status_string(HSA_STATUS_SUCCESS, NULL));
	IS(INVALID_ARGUMENT, hsa_status_string((hsa_status_t)0x7777, &name));
}
