// SPDX-License-Identifier: MIT
/* hsa.c - HSA before hsa_init, and all of its tests: hsa_test.h. */
#include "hsa_test.h"

static hsa_status_t see_no_region(hsa_region_t region, void *data)
{
	return HSA_STATUS_SUCCESS;
}

static void on_free(void *ptr, void *user_data)
{
}

static void uninitialized(void **state)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	hsa_amd_ipc_memory_t handle = { { 0 } };
	hsa_signal_t s = { .handle = 8 };
	hsa_agent_t a = { .handle = 8 };
	hsa_amd_memory_pool_t pool = { .handle = 8 };
	hsa_region_t region = { .handle = 8 };
	uint64_t value, there[2] = { 0 };
	void *p;

	IS(NOT_INITIALIZED, hsa_shut_down());
	IS(NOT_INITIALIZED, hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &value));
	IS(NOT_INITIALIZED, hsa_iterate_agents(see_agent, NULL));
	IS(NOT_INITIALIZED, hsa_agent_get_info(a, HSA_AGENT_INFO_DEVICE, &value));
	IS(NOT_INITIALIZED, hsa_memory_copy(&value, there, 1));
	IS(NOT_INITIALIZED, hsa_signal_create(0, 0, NULL, &s));
	IS(NOT_INITIALIZED, hsa_amd_signal_create(0, 0, NULL, 0, &s));
	IS(NOT_INITIALIZED, hsa_signal_destroy(s));
	IS(NOT_INITIALIZED, hsa_amd_agent_iterate_memory_pools(a, see_pool, &pool));
	IS(NOT_INITIALIZED, hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &value));
	IS(NOT_INITIALIZED, hsa_amd_agent_memory_pool_get_info(a, pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &value));
	IS(NOT_INITIALIZED, hsa_amd_memory_pool_allocate(pool, 8, 0, &p));
	IS(NOT_INITIALIZED, hsa_amd_memory_pool_free(&p));
	IS(NOT_INITIALIZED, hsa_agent_iterate_regions(a, see_no_region, NULL));
	IS(NOT_INITIALIZED, hsa_region_get_info(region, HSA_REGION_INFO_SIZE, &value));
	IS(NOT_INITIALIZED, hsa_memory_allocate(region, 8, &p));
	IS(NOT_INITIALIZED, hsa_memory_free(&p));
	IS(NOT_INITIALIZED, hsa_memory_register(&p, 8));
	IS(NOT_INITIALIZED, hsa_memory_deregister(&p, 8));
	IS(NOT_INITIALIZED, hsa_memory_assign_agent(&p, a, HSA_ACCESS_PERMISSION_RW));
	IS(NOT_INITIALIZED, hsa_amd_register_deallocation_callback(there, on_free, NULL));
	IS(NOT_INITIALIZED, hsa_amd_deregister_deallocation_callback(there, on_free));
	IS(NOT_INITIALIZED, hsa_amd_memory_lock_to_pool(there, 8, NULL, 0, pool, 0, &p));
	IS(NOT_INITIALIZED, hsa_amd_agents_allow_access(1, &a, NULL, &p));
	IS(NOT_INITIALIZED, hsa_amd_memory_fill(&value, 0, 1));
	IS(NOT_INITIALIZED, hsa_amd_memory_lock(there, 8, NULL, 0, &p));
	IS(NOT_INITIALIZED, hsa_amd_memory_unlock(there));
	IS(NOT_INITIALIZED, hsa_amd_pointer_info(there, &info, NULL, NULL, NULL));
	IS(NOT_INITIALIZED, hsa_amd_pointer_info_set_userdata(there, NULL));
	IS(NOT_INITIALIZED, hsa_amd_memory_async_copy(&value, a, there, a, 8, 0, NULL, s));
	IS(NOT_INITIALIZED, hsa_amd_ipc_memory_create(there, 8, &handle));
	IS(NOT_INITIALIZED, hsa_amd_ipc_memory_attach(&handle, 8, 0, NULL, &p));
	IS(NOT_INITIALIZED, hsa_amd_ipc_memory_detach(there));
	IS(NOT_INITIALIZED, hsa_amd_ipc_signal_create(s, &handle));
	IS(NOT_INITIALIZED, hsa_amd_ipc_signal_attach(&handle, &s));
	IS(NOT_INITIALIZED, hsa_amd_portable_export_dmabuf(there, 8, (int *)&value, there));
	{
		hsa_amd_ipc_memory_handle_t m = { 8 };
		hsa_amd_ipc_signal_handle_t h = { 8 };

		IS(NOT_INITIALIZED, hsa_amd_ipc_get_memory_handle(there, &m));
		IS(NOT_INITIALIZED, hsa_amd_ipc_open_memory_handle(m, &p));
		IS(NOT_INITIALIZED, hsa_amd_ipc_close_memory_handle(m));
		IS(NOT_INITIALIZED, hsa_amd_ipc_get_signal_handle(s, &h));
		IS(NOT_INITIALIZED, hsa_amd_ipc_open_signal_handle(h, &s));
		IS(NOT_INITIALIZED, hsa_amd_ipc_close_signal_handle(h));
		IS(NOT_INITIALIZED, hsa_amd_get_address_info(there, HSA_AMD_ADDRESS_AGENT, &value));
	}
}

int main(int argc, char **argv)
{
#define T(test) cmocka_unit_test_setup_teardown(test, up, down),
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uninitialized), cmocka_unit_test(forked_early), HSA_TESTS(T)
	};
	const struct CMUnitTest alone[] = { cmocka_unit_test(uninitialized), cmocka_unit_test(forked_early), HSA_ALONE(T) };

	if (argc > 2 && !strcmp(argv[1], "--role"))
		return role(argv[2]);
	if (argc > 1 && !strcmp(argv[1], "--alone"))
		return cmocka_run_group_tests(alone, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
