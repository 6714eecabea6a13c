// SPDX-License-Identifier: MIT
/* hsa_region.c - regions, functions that are called when memory is freed, and threads that are cancelled. */
#include "hsa_test.h"

static hsa_status_t see_region(hsa_region_t region, void *data)
{
	*(hsa_region_t *)data = region;
	return HSA_STATUS_INFO_BREAK;
}

void regions(void **state)
{
	const hsa_region_t none = { .handle = 9 };
	hsa_region_segment_t segment = HSA_REGION_SEGMENT_GROUP;
	hsa_region_t region = none;
	bool allowed = false;
	size_t size, all;
	uint32_t flags;
	char *p = NULL;
	void *base = &p;

	assert_int_equal(hsa_agent_iterate_regions(gpus ? gpu : cpu, see_region, &region), HSA_STATUS_INFO_BREAK);
	assert_int_equal(region.handle, gpus ? gpu_pool.handle : cpu_pool.handle);
	IS(INVALID_ARGUMENT, hsa_agent_iterate_regions(cpu, NULL, NULL));
	IS(INVALID_AGENT, hsa_agent_iterate_regions((hsa_agent_t){ .handle = 9 }, see_region, &region));

	FINE(hsa_region_get_info(region, HSA_REGION_INFO_SEGMENT, &segment));
	assert_int_equal(segment, HSA_REGION_SEGMENT_GLOBAL);
	FINE(hsa_region_get_info(region, HSA_REGION_INFO_GLOBAL_FLAGS, &flags));
	assert_int_equal(flags, gpus ? HSA_REGION_GLOBAL_FLAG_COARSE_GRAINED : HSA_REGION_GLOBAL_FLAG_FINE_GRAINED);
	FINE(hsa_region_get_info(region, HSA_REGION_INFO_SIZE, &all));
	FINE(hsa_region_get_info(region, HSA_REGION_INFO_ALLOC_MAX_SIZE, &size));
	assert_true(size >= MIB && size <= all);
	FINE(hsa_region_get_info(region, HSA_REGION_INFO_RUNTIME_ALLOC_ALLOWED, &allowed));
	assert_true(allowed);
	FINE(hsa_region_get_info(region, (hsa_region_info_t)HSA_AMD_REGION_INFO_BASE, &base));
	assert_null(base);
	IS(INVALID_ARGUMENT, hsa_region_get_info(region, (hsa_region_info_t)99, &size));
	IS(INVALID_ARGUMENT, hsa_region_get_info(region, HSA_REGION_INFO_SIZE, NULL));
	IS(INVALID_REGION, hsa_region_get_info(none, HSA_REGION_INFO_SIZE, &size));
	IS(INVALID_REGION, hsa_region_get_info(none, (hsa_region_info_t)99, &size));

	IS(INVALID_REGION, hsa_memory_allocate(none, 4096, (void **)&p));
	IS(INVALID_ARGUMENT, hsa_memory_allocate(region, 0, (void **)&p));
	FINE(hsa_memory_allocate(region, 5000, (void **)&p));
	assert_int_equal(info_of(p + 4999).type, HSA_EXT_POINTER_TYPE_HSA);
	assert_int_equal(info_of(p).agentOwner.handle, gpus ? gpu.handle : cpu.handle);
	FINE(hsa_memory_assign_agent(p, cpu, HSA_ACCESS_PERMISSION_RW));
	IS(INVALID_ARGUMENT, hsa_memory_assign_agent(p, cpu, HSA_ACCESS_PERMISSION_NONE));
	IS(INVALID_AGENT, hsa_memory_assign_agent(p, (hsa_agent_t){ .handle = 9 }, HSA_ACCESS_PERMISSION_RO));
	FINE(hsa_memory_register(&p, sizeof(p)));
	IS(INVALID_ARGUMENT, hsa_memory_register(&p, 0));
	FINE(hsa_memory_deregister(&p, sizeof(p)));
	/* Either name frees what either has made. */
	IS(INVALID_ALLOCATION, hsa_memory_free(p + 1));
	FINE(hsa_amd_memory_pool_free(p));
	IS(INVALID_ALLOCATION, hsa_memory_free(p));
	FINE(hsa_memory_free(NULL));
	FINE(hsa_amd_memory_pool_allocate(cpu_pool, 100, 0, (void **)&p));
	FINE(hsa_memory_free(p));
}

/* ---- functions that are called when memory is freed ---- */

static char called[16];	/* who was, in that order */
static char *expected;	/* the ptr of all */

static void note(char who)
{
	called[strlen(called)] = who;
}

static void first(void *ptr, void *user_data)
{
	assert_ptr_equal(ptr, expected);
	assert_ptr_equal(user_data, &called);
	note('1');
}

static void second(void *ptr, void *user_data)
{
	note('2');
}

static void third(void *ptr, void *user_data)
{
	note('3');
}

/* The memory is there, and can be read, but it is no longer the program's to free. */
static void looks(void *ptr, void *user_data)
{
	char *p = ptr, byte = 0;
	void *other = NULL;

	assert_int_equal(*p, 0x33);
	FINE(hsa_memory_copy(&byte, p, 1));
	assert_int_equal(byte, 0x33);
	assert_int_equal(info_of(p).type, HSA_EXT_POINTER_TYPE_HSA);
	IS(INVALID_ALLOCATION, hsa_memory_free(p));
	IS(INVALID_ALLOCATION, hsa_amd_register_deallocation_callback(p, second, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_deregister_deallocation_callback(p, looks));
	/* Other memory can be made and freed: no lock is held. */
	FINE(hsa_amd_memory_pool_allocate(cpu_pool, 100, 0, &other));
	FINE(hsa_amd_memory_pool_free(other));
	note('L');
}

static char *fresh(void)
{
	memset(called, 0, sizeof(called));
	expected = memory(true, 10000);
	return expected;
}

void deallocation(void **state)
{
	char *p = fresh();
	int local;

	IS(INVALID_ARGUMENT, hsa_amd_register_deallocation_callback(NULL, first, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_register_deallocation_callback(p, NULL, NULL));
	IS(INVALID_ALLOCATION, hsa_amd_register_deallocation_callback(&local, first, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_deregister_deallocation_callback(p, first));
	IS(INVALID_ARGUMENT, hsa_amd_deregister_deallocation_callback(NULL, first));

	/* In the order in which they were registered, for any ptr in the allocation. */
	FINE(hsa_amd_register_deallocation_callback(p, first, called));
	FINE(hsa_amd_register_deallocation_callback(p + 9999, second, NULL));
	FINE(hsa_amd_register_deallocation_callback(p, third, NULL));
	FINE(hsa_amd_register_deallocation_callback(p, first, called));
	assert_string_equal(called, "");
	FINE(hsa_amd_memory_pool_free(p));
	assert_string_equal(called, "1231");
	IS(INVALID_ALLOCATION, hsa_amd_memory_pool_free(p));
	assert_string_equal(called, "1231");

	/* Where one was removed is the last one. One call removes all of a ptr and function. */
	p = fresh();
	FINE(hsa_amd_register_deallocation_callback(p, first, called));
	FINE(hsa_amd_register_deallocation_callback(p, second, NULL));
	FINE(hsa_amd_register_deallocation_callback(p, first, called));
	FINE(hsa_amd_register_deallocation_callback(p + 5, third, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_deregister_deallocation_callback(p, third));
	FINE(hsa_amd_deregister_deallocation_callback(p, first));
	IS(INVALID_ARGUMENT, hsa_amd_deregister_deallocation_callback(p, first));
	FINE(hsa_memory_free(p));
	assert_string_equal(called, "32");

	p = fresh();
	*p = 0x33;
	FINE(hsa_amd_register_deallocation_callback(p, looks, NULL));
	FINE(hsa_memory_free(p));
	assert_string_equal(called, "L");

	/* The end of HSA calls none. */
	p = fresh();
	FINE(hsa_amd_register_deallocation_callback(p, first, called));
	FINE(hsa_shut_down());
	assert_string_equal(called, "");
	FINE(hsa_init());
}

static void memory_of_the_cpu(void)
{
	char *p = memory(false, 4096);

	FINE(hsa_amd_memory_pool_free(p));
}

static void shared_signal(void)
{
	hsa_amd_ipc_signal_t handle;
	hsa_signal_t signal;

	FINE(hsa_amd_signal_create(1, 0, NULL, HSA_AMD_SIGNAL_IPC, &signal));
	FINE(hsa_amd_ipc_signal_create(signal, &handle));
	FINE(hsa_amd_ipc_signal_attach(&handle, &signal));
	FINE(hsa_signal_destroy(signal));
	FINE(hsa_signal_destroy(signal));
}

static void shut_down(void)
{
	void *p = memory(false, 4096);
	hsa_signal_t done = signal_of(1);

	FINE(hsa_amd_memory_async_copy(p, cpu, (char *)p + 2048, cpu, 2048, 0, NULL, done));
	FINE(hsa_shut_down());
}

/* No call is a cancellation point: the thread would keep a lock for ever. */
void cancelled(void **state)
{
	assert_true(survives(memory_of_the_cpu));
	assert_true(survives(shared_signal));
	assert_true(survives(shut_down));
	FINE(hsa_init());
}
