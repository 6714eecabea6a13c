/* SPDX-License-Identifier: MIT */
/*
 * hsa_test.h - what the files of HSA's tests share.
 *
 * With SOFTGPU_INPROCESS=1 there is the CPU's agent alone; on softgpu.ko the same tests
 * take a GPU's memory as well.  A second process is this program once more: one that
 * uses HSA cannot be forked.
 */
#pragma once

#include "hip/hip_runtime.h"
#include "hsa/hsa_amd_ipc.h"
#include "test.h"

/* The runtime's own, not what stands in for it. */
#undef hsa_amd_memory_pool_free

#define FINE(call)		assert_int_equal(call, HSA_STATUS_SUCCESS)
#define IS(status, call)	assert_int_equal(call, HSA_STATUS_ERROR_##status)
#define NO_POOL(call)		assert_int_equal((int)(call), (int)HSA_STATUS_ERROR_INVALID_MEMORY_POOL)
#define BLOCKED			HSA_WAIT_STATE_BLOCKED
#define MS			UINT64_C(1000000)

extern hsa_agent_t cpu, gpu;		/* gpu.handle 0: there is none */
extern hsa_amd_memory_pool_t cpu_pool, gpu_pool;
extern int gpus;

/* Callbacks: the first pool is *data, an agent one of the above. */
hsa_status_t see_pool(hsa_amd_memory_pool_t pool, void *data);
hsa_status_t see_agent(hsa_agent_t agent, void *data);

/* A test's setup and teardown: hsa_init and the agents, and hsa_shut_down. */
int up(void **state);
int down(void **state);

uint64_t now_ns(clockid_t clock);
hsa_signal_t signal_of(hsa_signal_value_t value);
/* Of a GPU where there is one. */
void *memory(bool of_gpu, size_t size);
hsa_amd_pointer_info_t info_of(const void *p);

/* ---- a second process: hsa_process.c ---- */

struct child {
	pid_t pid;
	int fd;
};

/* In which a role of hsa_roles.c runs. */
struct child child_start(const char *role);
/* Its exit status, or -signal. */
int child_end(struct child *c);
void child_kill(struct child *c);
void tell(int fd, const void *what, size_t size);
void hear(int fd, void *what, size_t size);

extern bool in_role;	/* this is the second one */
/* Its exit status. */
int role(const char *name);

struct message {
	hsa_amd_ipc_signal_t signal;
	hsa_amd_ipc_memory_t memory;
	hsa_amd_ipc_signal_handle_t short_signal;
	hsa_amd_ipc_memory_handle_t short_memory;
	size_t length;
};

/* ---- the tests, in the order in which they run ---- */

#define HSA_ALONE(T) \
	T(signal_life) T(descriptor_zero) T(values) T(conditions) T(wakes) T(not_woken) T(pools) T(regions) T(deallocation) T(pointer_info) T(locked) T(copies) \
	T(copy_of_what_went) T(copy_of_what_was_replaced) \
	T(copy_over_an_allocation) T(copy_of_nothing) T(chain) T(many_copies) T(shut_down_with_copies) T(managed) T(cancelled) T(forked)
/* Those with a second process, which must be one of the same driver. */
#define HSA_TESTS(T) \
	HSA_ALONE(T) T(signals_elsewhere) T(killed_waiter) T(memory_elsewhere) T(dead_exporter) T(detached_before_a_copy) T(wrong_handles) T(no_descriptors) \
	T(first_names) T(killed_importers)
#define HSA_DECLARE(test) void test(void **state);
HSA_TESTS(HSA_DECLARE)
HSA_DECLARE(forked_early)
