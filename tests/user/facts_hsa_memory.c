// SPDX-License-Identifier: MIT
/* facts_hsa_memory.c - what HSA says of memory: of other processes, as dma-bufs, and of whom it is mapped for. */
#include "facts.h"

/* Memory of other processes: of the driver's handle each part counts, and what is attached is not the owner's to free. */
CASE(attached)
{
	struct handle {
		uint32_t kind, where;
		uint64_t id, key[2];
	} h, wrong;
	struct softgpu_ipc_export e = { .size = sizeof(e), .flags = SOFTGPU_IPC_VISIBLE };
	struct softgpu_mem_alloc alloc = { .size = sizeof(alloc), .length = 10000 };
	const hsa_agent_t second = { gpu.handle + 1 };
	hsa_amd_ipc_memory_t handle;
	hsa_agent_t *agents = NULL;
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	struct sg_client *client;
	void *mine, *p = NULL, *again;
	unsigned int sync = 0;
	uint32_t n;
	int fd;
	uint64_t offset;

	FINE(hsa_amd_memory_pool_allocate(gpu_pool, 10000, 0, &mine));
	/* What a call has done with it, devices see. */
	OK(cuPointerGetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (uintptr_t)mine + 9999));
	assert_int_equal(sync, 1);
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(mine, 9999, &handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(mine, 10001, &handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(mine, 10000, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create((char *)mine + 1, 10000, &handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(&h, 10000, &handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach(mine));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach(NULL));
	FINE(hsa_amd_ipc_memory_create(mine, 10000, &handle));
	memcpy(&h, &handle, sizeof(h));
	assert_int_equal(h.where, 1);
	client = device_other(1, SOFTGPU_CTX_VISIBLE, &alloc.ctx);
	assert_int_equal(sg_call(client, _IOC_NR(SOFTGPU_MEM_ALLOC), &alloc, sizeof(alloc)), 0);
	e.va = alloc.va;
	assert_int_equal(sg_call(client, _IOC_NR(SOFTGPU_IPC_EXPORT), &e, sizeof(e)), 0);
	h.id = e.id;
	memcpy(h.key, e.key, sizeof(h.key));
	for (int i = 0; i < 7; i++) {
		wrong = h;
		wrong.kind += i == 0;
		wrong.where = i == 1 ? 0 : i == 2 ? 2 : i == 3 ? SOFTGPU_MAX_GPUS : wrong.where;
		wrong.id += i == 4;
		wrong.key[0] ^= i == 5;
		wrong.key[1] ^= i == 6;
		memcpy(&handle, &wrong, sizeof(handle));
		IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
		assert_null(p);
	}
	memcpy(&handle, &h, sizeof(handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 9999, 0, NULL, &p));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(NULL, 10000, 0, NULL, &p));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 1, NULL, &p));
	IS(INVALID_AGENT, hsa_amd_ipc_memory_attach(&handle, 10000, 1, &(hsa_agent_t){ 5 }, &p));
	device_fail(SOFTGPU_IPC_OPEN, 1, ENOMEM);
	IS(OUT_OF_RESOURCES, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	device_fail(SOFTGPU_QUERY, 1, EINVAL);
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	device_fail(DEVICE_MMAP, 1, ENOMEM);
	IS(OUT_OF_RESOURCES, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	assert_null(p);

	/* With no list all GPUs have it mapped; else those of it, and its own. */
	FINE(hsa_amd_ipc_memory_attach(&handle, 10000, 1, &cpu, &p));
	FINE(hsa_amd_pointer_info((char *)p + 9999, &info, malloc, &n, &agents));
	assert_int_equal(n, 1);
	assert_int_equal(agents[0].handle, gpu.handle);
	free(agents);
	assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_IPC);
	assert_true(info.agentBaseAddress == p && info.sizeInBytes == 10000 && info.registered);
	assert_int_equal(info.agentOwner.handle, gpu.handle);
	assert_int_equal(info_of((char *)p + 10000).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	FINE(hsa_amd_ipc_memory_attach(&handle, 10000, 1, &second, &again));
	assert_ptr_equal(again, p);
	FINE(hsa_amd_pointer_info(p, &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	assert_true(agents[0].handle == gpu.handle && agents[1].handle == second.handle);
	free(agents);
	FINE(hsa_amd_agents_allow_access(1, &cpu, NULL, p));
	FINE(hsa_amd_pointer_info(p, &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	free(agents);
	((char *)p)[9999] = 5;
	IS(INVALID_ARGUMENT, hsa_amd_memory_pool_free(p));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(p, 10000, &handle));
	IS(INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(p, 10, &fd, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach((char *)p + 1));
	FINE(hsa_amd_ipc_memory_detach(p));
	assert_int_equal(((char *)p)[9999], 5);
	FINE(hsa_amd_ipc_memory_detach(p));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach(p));
	memcpy(&handle, &h, sizeof(handle));
	FINE(hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	assert_int_equal(((char *)p)[9999], 5);
	FINE(hsa_amd_pointer_info(p, &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	free(agents);
	FINE(hsa_amd_ipc_memory_detach(p));
	sg_client_close(client);
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	FINE(hsa_amd_memory_pool_free(mine));
}

/* All that is the GPU's, from the first byte to the last of its page. */
CASE(dmabufs)
{
	char *p, *host;
	uint64_t offset = 7;
	int fd;

	FINE(hsa_amd_memory_pool_allocate(gpu_pool, 10000, 0, (void **)&p));
	FINE(hsa_amd_memory_pool_allocate(cpu_pool, 10000, 0, (void **)&host));
	FINE(hsa_amd_portable_export_dmabuf(p, 12288, &fd, &offset));
	assert_int_equal(offset, 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 12288);
	FINE(hsa_amd_portable_close_dmabuf(fd));
	IS(INVALID_ARGUMENT, hsa_amd_portable_close_dmabuf(fd));
	FINE(hsa_amd_portable_export_dmabuf(p + 9999, 2289, &fd, &offset));
	assert_int_equal(offset, 9999);
	assert_int_equal(lseek(fd, 0, SEEK_END), 12288);
	FINE(hsa_amd_portable_close_dmabuf(fd));
	IS(INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(p, 12289, &fd, &offset));
	IS(INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(p + 10000, 1, &fd, &offset));
	IS(INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(&fd, 1, &fd, &offset));
	IS(INVALID_AGENT, hsa_amd_portable_export_dmabuf(host, 1, &fd, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(NULL, 1, &fd, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(p, 0, &fd, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(p, 1, NULL, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(p, 1, &fd, NULL));
	for (size_t i = 0; i < error_count; i++) {
		device_fail(SOFTGPU_DMABUF, 1, errors[i].error);
		assert_int_equal(hsa_amd_portable_export_dmabuf(p, 1, &fd, &offset), errors[i].hsa);
	}
	FINE(hsa_amd_memory_pool_free(p));
	FINE(hsa_amd_memory_pool_free(host));
}

/* Who has memory mapped that is the CPU's own, or locked. */
CASE(who_has_it)
{
	const hsa_agent_t both[] = { gpu, { gpu.handle + 1 } };
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	static char bytes[3][4096];
	hsa_agent_t *agents;
	uint32_t n;
	void *at;
	char *p;

	/* No list: all GPUs. The CPU alone: nothing to do. */
	FINE(hsa_amd_memory_lock(bytes[1], 4096, NULL, 0, &at));
	FINE(hsa_amd_pointer_info(bytes[1], &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	assert_true(agents[0].handle == both[0].handle && agents[1].handle == both[1].handle);
	free(agents);
	assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_LOCKED);
	assert_int_equal(info.global_flags, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
	assert_true(info.registered);
	assert_int_equal(info_of(bytes[0] + 4095).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	assert_int_equal(info_of(bytes[1] + 4095).type, HSA_EXT_POINTER_TYPE_LOCKED);
	assert_int_equal(info_of(bytes[2]).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	FINE(hsa_amd_memory_unlock(bytes[1] + 1));
	assert_int_equal(info_of(bytes[1]).type, HSA_EXT_POINTER_TYPE_LOCKED);
	FINE(hsa_amd_memory_unlock(bytes[1]));
	FINE(hsa_amd_memory_lock(bytes[1], 4096, &cpu, 1, &at));
	assert_ptr_equal(at, bytes[1]);
	assert_int_equal(info_of(bytes[1]).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	FINE(hsa_amd_memory_lock(bytes[1], 4096, (hsa_agent_t *)&both[1], 1, &at));
	FINE(hsa_amd_pointer_info(bytes[1], &info, malloc, &n, &agents));
	assert_int_equal(n, 1);
	assert_int_equal(agents[0].handle, both[1].handle);
	free(agents);
	/* Once more with another GPU: both have it. With another size it is a lock of its own, of which the newest counts. */
	FINE(hsa_amd_memory_lock(bytes[1], 4096, (hsa_agent_t *)&both[0], 1, &at));
	FINE(hsa_amd_pointer_info(bytes[1], &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	free(agents);
	FINE(hsa_amd_memory_lock(bytes[1], 100, NULL, 0, &at));
	assert_int_equal(info_of(bytes[1]).sizeInBytes, 100);
	FINE(hsa_amd_memory_unlock(bytes[1]));
	assert_int_equal(info_of(bytes[1]).sizeInBytes, 4096);
	FINE(hsa_amd_memory_unlock(bytes[1]));
	assert_int_equal(info_of(bytes[1]).sizeInBytes, 4096);
	FINE(hsa_amd_memory_unlock(bytes[1]));
	assert_int_equal(info_of(bytes[1]).type, HSA_EXT_POINTER_TYPE_UNKNOWN);

	p = memory(true, 5000);
	FINE(hsa_amd_agents_allow_access(2, both, NULL, p));
	FINE(hsa_amd_pointer_info(p, &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	free(agents);
	FINE(hsa_amd_memory_pool_free(p));
	IS(OUT_OF_RESOURCES, hsa_amd_memory_pool_allocate(gpu_pool, DEVICE_VRAM + 1, 0, &at));
	device_calls[_IOC_NR(SOFTGPU_MEM_ALLOC)] = 0;
	IS(OUT_OF_RESOURCES, hsa_amd_memory_pool_allocate(cpu_pool, ((size_t)sysconf(_SC_PHYS_PAGES) + 1) *
							  (size_t)sysconf(_SC_PAGESIZE), 0, &at));
	assert_int_equal(device_calls[_IOC_NR(SOFTGPU_MEM_ALLOC)], 0);
	/* What the driver does not take for a length is too much. */
	device_fail(SOFTGPU_MEM_ALLOC, 1, EINVAL);
	IS(OUT_OF_RESOURCES, hsa_amd_memory_pool_allocate(gpu_pool, 10, 0, &at));
	device_fail(SOFTGPU_MEM_FREE, 1, ENOENT);
	p = memory(true, 5000);
	IS(INVALID_ALLOCATION, hsa_amd_memory_pool_free(p));
}

/* ---- virtual memory management ---- */

#define PART	((size_t)64 << 10)

static void *reserved;

static void free_addresses(unsigned long cmd)
{
	if (cmd == SOFTGPU_UNMAP)
		assert_int_equal(hsa_amd_vmem_address_free(reserved, PART), HSA_STATUS_ERROR_RESOURCE_FREE);
}

/* The addresses are not free before the mapping has left the driver. */
CASE(freed_in_unmap)
{
	hsa_amd_vmem_alloc_handle_t handle;
	void *again;

	FINE(hsa_amd_vmem_address_reserve(&reserved, PART, 0, 0));
	FINE(hsa_amd_vmem_handle_create(gpu_pool, PART, MEMORY_TYPE_PINNED, 0, &handle));
	FINE(hsa_amd_vmem_map(reserved, PART, 0, handle, 0));
	device_meanwhile = free_addresses;
	FINE(hsa_amd_vmem_unmap(reserved, PART));
	device_meanwhile = NULL;
	FINE(hsa_amd_vmem_address_free(reserved, PART));
	FINE(hsa_amd_vmem_address_reserve(&again, PART, (uintptr_t)reserved, 0));
	assert_ptr_equal(again, reserved);
	FINE(hsa_amd_vmem_address_free(again, PART));
	FINE(hsa_amd_vmem_handle_release(handle));
}

/* Access that could not be given is not there. */
CASE(access_refused)
{
	hsa_amd_memory_access_desc_t all = { HSA_ACCESS_PERMISSION_RW, gpu };
	hsa_access_permission_t now = HSA_ACCESS_PERMISSION_WO;
	hsa_amd_vmem_alloc_handle_t handle;
	char byte = 1;

	FINE(hsa_amd_vmem_address_reserve(&reserved, PART, 0, 0));
	FINE(hsa_amd_vmem_handle_create(gpu_pool, PART, MEMORY_TYPE_PINNED, 0, &handle));
	FINE(hsa_amd_vmem_map(reserved, PART, 0, handle, 0));
	device_fail(DEVICE_MMAP, 1, ENOMEM);
	IS(OUT_OF_RESOURCES, hsa_amd_vmem_set_access(reserved, PART, &all, 1));
	FINE(hsa_amd_vmem_get_access(reserved, &now, gpu));
	assert_int_equal(now, HSA_ACCESS_PERMISSION_NONE);
	assert_int_not_equal(hsa_memory_copy(reserved, &byte, 1), HSA_STATUS_SUCCESS);
	FINE(hsa_amd_vmem_set_access(reserved, PART, &all, 1));
	FINE(hsa_memory_copy(reserved, &byte, 1));
	FINE(hsa_amd_vmem_unmap(reserved, PART));
	FINE(hsa_amd_vmem_handle_release(handle));
	FINE(hsa_amd_vmem_address_free(reserved, PART));
}
