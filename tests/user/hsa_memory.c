// SPDX-License-Identifier: MIT
/* hsa_memory.c - pools, links, what a pointer is, locks, and HIP's memory. */
#include <sys/mman.h>

#include "hsa_test.h"

void pools(void **state)
{
	hsa_amd_memory_pool_link_info_t link = { .link_type = HSA_AMD_LINK_INFO_TYPE_XGMI, .min_latency = 7 };
	const hsa_amd_memory_pool_t none = { .handle = 9 };
	const hsa_agent_t no_agent = { .handle = 9 };
	hsa_amd_memory_pool_location_t location;
	hsa_amd_memory_pool_access_t access;
	uint32_t flags, hops = 9;
	char text[64];
	size_t size;
	bool all;
	void *p;

	FINE(hsa_amd_memory_pool_get_info(cpu_pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
	assert_int_equal(flags, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
	FINE(hsa_amd_memory_pool_get_info(cpu_pool, HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL, &all));
	assert_true(all);
	FINE(hsa_amd_memory_pool_get_info(cpu_pool, HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE, &size));
	assert_true(size > MIB);
	FINE(hsa_amd_memory_pool_get_info(cpu_pool, HSA_AMD_MEMORY_POOL_INFO_LOCATION, &location));
	assert_int_equal(location, HSA_AMD_MEMORY_POOL_LOCATION_CPU);
	IS(INVALID_ARGUMENT, hsa_amd_memory_pool_get_info(cpu_pool, (hsa_amd_memory_pool_info_t)99, &size));
	IS(INVALID_ARGUMENT, hsa_amd_memory_pool_get_info(cpu_pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, NULL));
	NO_POOL(hsa_amd_memory_pool_get_info(none, HSA_AMD_MEMORY_POOL_INFO_SIZE, &size));
	NO_POOL(hsa_amd_memory_pool_allocate(none, 4096, 0, &p));
	IS(INVALID_ARGUMENT, hsa_amd_memory_pool_allocate(cpu_pool, 0, 0, &p));
	IS(INVALID_ARGUMENT, hsa_amd_memory_pool_allocate(cpu_pool, 4096, 1u << 20, &p));
	IS(INVALID_ARGUMENT, hsa_amd_memory_pool_allocate(cpu_pool, 4096, 0, NULL));
	IS(OUT_OF_RESOURCES, hsa_amd_memory_pool_allocate(cpu_pool, SIZE_MAX, 0, &p));
	IS(OUT_OF_RESOURCES, hsa_amd_memory_pool_allocate(cpu_pool, (size_t)1 << 46, 0, &p));
	FINE(hsa_amd_memory_pool_free(NULL));

	FINE(hsa_amd_agent_memory_pool_get_info(cpu, cpu_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
	assert_int_equal(access, HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
	FINE(hsa_amd_agent_memory_pool_get_info(cpu, cpu_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &hops));
	assert_int_equal(hops, 0);
	FINE(hsa_amd_agent_memory_pool_get_info(cpu, cpu_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link));
	assert_int_equal(link.min_latency, 0);
	assert_int_equal(link.link_type, 0);
	IS(INVALID_AGENT, hsa_amd_agent_memory_pool_get_info(no_agent, cpu_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
	NO_POOL(hsa_amd_agent_memory_pool_get_info(cpu, none, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
	IS(INVALID_ARGUMENT, hsa_amd_agent_memory_pool_get_info(cpu, cpu_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_agent_memory_pool_get_info(cpu, cpu_pool, (hsa_amd_agent_memory_pool_info_t)3, &access));
	if (!gpus)
		return;
	FINE(hsa_amd_agent_memory_pool_get_info(gpu, cpu_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
	assert_int_equal(access, HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
	FINE(hsa_amd_agent_memory_pool_get_info(cpu, gpu_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &hops));
	assert_int_equal(hops, 1);
	FINE(hsa_amd_agent_memory_pool_get_info(cpu, gpu_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link));
	assert_int_equal(link.link_type, HSA_AMD_LINK_INFO_TYPE_PCIE);
	FINE(hsa_amd_memory_pool_get_info(gpu_pool, HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL, &all));
	assert_false(all);
	FINE(hsa_agent_get_info(gpu, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_UUID, text));
	assert_int_equal(strlen(text), 20);
	assert_memory_equal(text, "GPU-", 4);
	FINE(hsa_agent_get_info(gpu, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_PRODUCT_NAME, text));
	assert_true(text[0]);
}

static void *counted(size_t size)
{
	return malloc(size);
}

static void *nothing(size_t size)
{
	return NULL;
}

void pointer_info(void **state)
{
	struct {
		hsa_amd_pointer_info_t info;
		char after[8];
	} room;
	hsa_agent_t *agents = NULL;
	hsa_amd_pointer_info_t info;
	uint32_t n = 77;
	char *p = memory(true, 10000), *host = memory(false, 100);
	int local;

	info = info_of(p + 9999);
	assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_HSA);
	assert_int_equal(info.size, sizeof(info));
	assert_ptr_equal(info.agentBaseAddress, p);
	assert_ptr_equal(info.hostBaseAddress, p);
	assert_int_equal(info.sizeInBytes, 10000);
	assert_true(info.registered);
	assert_int_equal(info.alloc_flags, 0);
	assert_int_equal(info.agentOwner.handle, gpus ? gpu.handle : cpu.handle);
	/* Beyond what was asked for it is nothing, though the page goes on. */
	assert_int_equal(info_of(p + 10000).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	assert_int_equal(info_of(&local).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	assert_int_equal(info_of(&local).agentOwner.handle, 0);
	assert_false(info_of(&local).registered);
	info = info_of(host + 99);
	assert_int_equal(info.agentOwner.handle, cpu.handle);
	assert_int_equal(info.global_flags, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);

	IS(INVALID_ARGUMENT, hsa_amd_pointer_info(NULL, &info, NULL, NULL, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_pointer_info(p, NULL, NULL, NULL, NULL));
	info.size = 0;
	IS(INVALID_ARGUMENT, hsa_amd_pointer_info(p, &info, NULL, NULL, NULL));
	/* A struct of any size: as much is filled in, and said. */
	for (uint32_t size = 1; size <= sizeof(room); size++) {
		uint32_t most = size < sizeof(info) ? size : (uint32_t)sizeof(info);

		memset(&room, 0xee, sizeof(room));
		room.info.size = size;
		FINE(hsa_amd_pointer_info(p, &room.info, NULL, NULL, NULL));
		if (size >= sizeof(uint32_t))
			assert_int_equal(room.info.size, most);
		for (size_t i = most; i < sizeof(room); i++) {
			if (i >= sizeof(uint32_t))
				assert_int_equal(((unsigned char *)&room)[i], 0xee);
		}
	}

	/* The list: only with all three; the agents that have it mapped, and no others. */
	info.size = sizeof(info);
	FINE(hsa_amd_pointer_info(p, &info, counted, NULL, NULL));
	FINE(hsa_amd_pointer_info(p, &info, counted, &n, NULL));
	FINE(hsa_amd_pointer_info(&local, &info, counted, &n, &agents));
	assert_int_equal(n, 77);
	FINE(hsa_amd_pointer_info(host, &info, counted, &n, &agents));
	assert_int_equal(n, 0);
	assert_null(agents);
	IS(INVALID_ARGUMENT, hsa_amd_agents_allow_access(0, &cpu, NULL, host));
	IS(INVALID_ARGUMENT, hsa_amd_agents_allow_access(1, NULL, NULL, host));
	IS(INVALID_ARGUMENT, hsa_amd_agents_allow_access(1, &cpu, &n, host));
	IS(INVALID_ARGUMENT, hsa_amd_agents_allow_access(1, &cpu, NULL, NULL));
	IS(INVALID_ALLOCATION, hsa_amd_agents_allow_access(1, &cpu, NULL, &local));
	IS(INVALID_ALLOCATION, hsa_amd_agents_allow_access(1, &cpu, NULL, host + 1));
	IS(INVALID_AGENT, hsa_amd_agents_allow_access(1, &(hsa_agent_t){ .handle = 5 }, NULL, host));
	FINE(hsa_amd_agents_allow_access(1, &cpu, NULL, host));
	if (gpus) {
		FINE(hsa_amd_agents_allow_access(1, &gpu, NULL, host));
		IS(OUT_OF_RESOURCES, hsa_amd_pointer_info(host, &info, nothing, &n, &agents));
		FINE(hsa_amd_pointer_info(host, &info, counted, &n, &agents));
		assert_int_equal(n, 1);
		assert_int_equal(agents[0].handle, gpu.handle);
		free(agents);
		FINE(hsa_amd_agents_allow_access(1, &cpu, NULL, host));
		FINE(hsa_amd_agents_allow_access(1, &cpu, NULL, p));
		FINE(hsa_amd_pointer_info(p, &info, counted, &n, &agents));
		assert_int_equal(n, 1);
		assert_int_equal(agents[0].handle, gpu.handle);
		free(agents);
	}
	FINE(hsa_amd_pointer_info(host, &info, counted, &n, &agents));
	assert_int_equal(n, 0);

	FINE(hsa_amd_pointer_info_set_userdata(p, &local));
	assert_ptr_equal(info_of(p + 5).userData, &local);
	IS(INVALID_ARGUMENT, hsa_amd_pointer_info_set_userdata(p + 1, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_pointer_info_set_userdata(&local, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_pointer_info_set_userdata(NULL, NULL));
	IS(INVALID_ALLOCATION, hsa_amd_memory_pool_free(p + 1));
	IS(INVALID_ALLOCATION, hsa_amd_memory_pool_free(&local));
	FINE(hsa_amd_memory_pool_free(p));
	assert_int_equal(info_of(p).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	IS(INVALID_ALLOCATION, hsa_amd_memory_pool_free(p));
	FINE(hsa_amd_memory_pool_free(host));
	FINE(hsa_amd_memory_pool_allocate(cpu_pool, 1, HSA_AMD_MEMORY_POOL_UNCACHED_FLAG, (void **)&host));
	assert_int_equal(info_of(host).alloc_flags, HSA_AMD_MEMORY_POOL_UNCACHED_FLAG);
	FINE(hsa_amd_memory_pool_free(host));
}

void locked(void **state)
{
	char *p = aligned_alloc(4096, 16384), *pool = memory(true, 8192);
	hsa_amd_pointer_info_t info;
	void *at = &at;

	memset(p, 0, 16384);
	FINE(hsa_amd_memory_lock(p + 100, 5000, NULL, 0, &at));
	assert_non_null(at);
	if (gpus) {
		info = info_of(p + 100 + 4999);
		assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_LOCKED);
		assert_ptr_equal(info.hostBaseAddress, p + 100);
		assert_ptr_equal(info.agentBaseAddress, at);
		assert_int_equal(info.sizeInBytes, 5000);
		assert_int_equal(info.agentOwner.handle, cpu.handle);
		FINE(hsa_amd_pointer_info_set_userdata(p + 100, &at));
		assert_ptr_equal(info_of(p + 101).userData, &at);
		/* As often as it was locked. */
		FINE(hsa_amd_memory_lock(p + 100, 5000, &gpu, 1, &at));
		FINE(hsa_amd_memory_unlock(p + 100));
		assert_int_equal(info_of(p + 100).type, HSA_EXT_POINTER_TYPE_LOCKED);
	}
	assert_int_equal(info_of(p + 99).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	FINE(hsa_amd_memory_unlock(p + 100));
	assert_int_equal(info_of(p + 100).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	FINE(hsa_amd_memory_unlock(p + 100));
	/* A pool's memory is what it was. */
	FINE(hsa_amd_memory_lock(pool, 8192, NULL, 0, &at));
	assert_ptr_equal(at, pool);
	assert_int_equal(info_of(pool).type, HSA_EXT_POINTER_TYPE_HSA);
	FINE(hsa_amd_memory_unlock(pool));
	assert_int_equal(info_of(pool).type, HSA_EXT_POINTER_TYPE_HSA);

	IS(INVALID_ARGUMENT, hsa_amd_memory_lock(NULL, 10, NULL, 0, &at));
	IS(INVALID_ARGUMENT, hsa_amd_memory_lock(p, 0, NULL, 0, &at));
	IS(INVALID_ARGUMENT, hsa_amd_memory_lock(p, 10, NULL, 0, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_memory_lock(p, 10, NULL, 1, &at));
	IS(INVALID_ARGUMENT, hsa_amd_memory_lock(p, 10, &cpu, 0, &at));
	IS(INVALID_ARGUMENT, hsa_amd_memory_lock(p, 10, &cpu, -1, &at));
	IS(INVALID_ARGUMENT, hsa_amd_memory_lock(pool, 8193, NULL, 0, &at));
	IS(INVALID_AGENT, hsa_amd_memory_lock(p, 10, &(hsa_agent_t){ .handle = 5 }, 1, &at));
	assert_null(at);
	/* A hole in it. */
	{
		char *hole = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_int_equal(munmap(hole + 4096, 4096), 0);
		IS(OUT_OF_RESOURCES, hsa_amd_memory_lock(hole, 3 * 4096, NULL, 0, &at));
		assert_null(at);
		munmap(hole, 3 * 4096);
	}
	FINE(hsa_amd_memory_pool_free(pool));
	free(p);
}

/* The CPU's pool is the driver's, so no process's children see it; HIP's managed memory is of it. */
void managed(void **state)
{
	hipPointerAttribute_t attributes;
	hsa_amd_pointer_info_t info;
	unsigned char back[8];
	char *p = NULL, *host = NULL;
	void *pitched;
	size_t pitch;

	if (!gpus)
		skip();
	assert_int_equal(hipMallocManaged((void **)&p, 5000, hipMemAttachGlobal), hipSuccess);
	assert_int_equal(hipHostMalloc((void **)&host, 100, hipHostMallocDefault), hipSuccess);
	info = info_of(p);
	assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_HSA);
	assert_int_equal(info.agentOwner.handle, cpu.handle);
	assert_int_equal(hipMemset(p, 0x21, 5000), hipSuccess);
	assert_int_equal(p[4999], 0x21);
	assert_int_equal(hipMemcpy(host, p, 100, hipMemcpyDefault), hipSuccess);
	assert_int_equal(hipMemcpy(back, host + 92, 8, hipMemcpyDeviceToHost), hipSuccess);
	assert_int_equal(back[7], 0x21);
	assert_int_equal(hipPointerGetAttributes(&attributes, p + 9), hipSuccess);
	assert_int_equal(attributes.type, hipMemoryTypeManaged);
	assert_true(attributes.isManaged);
	assert_ptr_equal(attributes.devicePointer, p + 9);
	assert_int_equal(hipPointerGetAttributes(&attributes, host), hipSuccess);
	assert_int_equal(attributes.type, hipMemoryTypeHost);
	assert_int_equal(hipPointerGetAttributes(&attributes, back), hipSuccess);
	assert_int_equal(attributes.type, hipMemoryTypeUnregistered);
	assert_int_equal(hipMallocPitch(&pitched, &pitch, 5, 8), hipSuccess);
	assert_int_equal(pitch, 256);
	assert_int_equal(hipPointerGetAttributes(&attributes, (char *)pitched + pitch * 8 - 1), hipSuccess);
	assert_int_equal(attributes.type, hipMemoryTypeDevice);
	assert_int_equal(attributes.device, 0);
	assert_int_equal(hipFree(pitched), hipSuccess);
	assert_int_equal(hipMallocPitch(&pitched, &pitch, SIZE_MAX, 8), hipErrorInvalidValue);
	assert_int_equal(hipMallocManaged((void **)&p, 5000, 9), hipErrorInvalidValue);
	assert_int_equal(hipMallocManaged(NULL, 5000, hipMemAttachHost), hipErrorInvalidValue);
	assert_int_equal(hipFree(p), hipSuccess);
	assert_int_equal(hipHostFree(host), hipSuccess);
}
