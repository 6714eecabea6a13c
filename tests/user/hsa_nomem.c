// SPDX-License-Identifier: MIT
/*
 * hsa_nomem.c - the first, second, third ... host allocation of each sequence of HSA's and HIP's calls fails, and then the
 * first, second ... of the driver's calls that may, until the sequence needs no more.
 *
 * The call that needed it says so, no other call fails, and all is as before: device memory, what the libraries have
 * allocated, and the open files. Then the sequence works.
 */
#include <dirent.h>

#include "../lib/failing_malloc.h"
#include "device.h"
#include "hsa_test.h"

#define SIZE	((size_t)70000)
#define MOST	1000
#define THREADS	8	/* of copies: the most that stay without work */

static char bytes[SIZE];
static char *of_cpu, *of_gpu;		/* of all sequences */

static hsa_status_t first_of(hsa_status_t a, hsa_status_t b)
{
	return a ? a : b;
}

static hsa_status_t plain_signal(void)
{
	hsa_signal_t s;
	hsa_status_t r = hsa_signal_create(5, 0, NULL, &s);

	return r ? r : hsa_signal_destroy(s);
}

/* A handle of it is attached here, and so it is the signal itself. */
static hsa_status_t shared_signal(void)
{
	hsa_amd_ipc_signal_handle_t name;
	hsa_amd_ipc_signal_t handle;
	hsa_signal_t s, same;
	hsa_status_t r = hsa_amd_signal_create(5, 0, NULL, HSA_AMD_SIGNAL_IPC, &s);

	if (r)
		return r;
	r = hsa_amd_ipc_signal_create(s, &handle);
	if (!r)
		r = hsa_amd_ipc_signal_attach(&handle, &same);
	if (!r)
		r = hsa_signal_destroy(same);
	if (!r)
		r = hsa_amd_ipc_get_signal_handle(s, &name);
	if (!r) {
		r = hsa_amd_ipc_open_signal_handle(name, &same);
		if (!r)
			r = hsa_signal_destroy(same);
		r = first_of(r, hsa_amd_ipc_close_signal_handle(name));
	}
	return first_of(r, hsa_signal_destroy(s));
}

static hsa_status_t pool_memory(hsa_amd_memory_pool_t pool)
{
	hsa_amd_ipc_memory_handle_t name;
	hsa_amd_ipc_memory_t handle;
	hsa_status_t r;
	void *p;

	r = hsa_amd_memory_pool_allocate(pool, SIZE, 0, &p);
	if (r)
		return r;
	r = hsa_amd_memory_fill(p, 7, SIZE / 4);
	if (!r)
		r = hsa_amd_ipc_memory_create(p, SIZE, &handle);
	/* HSA's word for a failure of the driver's there. */
	if (r == HSA_STATUS_ERROR_INVALID_ARGUMENT)
		r = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	if (!r) {
		r = hsa_amd_ipc_get_memory_handle(p, &name);
		if (r == HSA_STATUS_ERROR_INVALID_ARGUMENT)
			r = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
		if (!r)
			r = hsa_amd_ipc_close_memory_handle(name);
	}
	return first_of(r, hsa_amd_memory_pool_free(p));
}

static hsa_status_t cpu_memory(void)
{
	return pool_memory(cpu_pool);
}

static hsa_status_t gpu_memory(void)
{
	return pool_memory(gpu_pool);
}

static hsa_status_t lock_and_unlock(void)
{
	void *at;
	hsa_status_t r = hsa_amd_memory_lock(bytes, SIZE, NULL, 0, &at);

	if (r) {
		assert_null(at);
		return r;
	}
	return hsa_amd_memory_unlock(bytes);
}

/* What is refused leaves its signal alone. */
static hsa_status_t two_copies(void)
{
	hsa_signal_t done, first;
	hsa_status_t r = hsa_signal_create(1, 0, NULL, &done), later;

	if (r)
		return r;
	r = hsa_signal_create(1, 0, NULL, &first);
	if (r)
		return first_of(r, hsa_signal_destroy(done));
	r = hsa_amd_memory_async_copy(of_cpu, cpu, bytes, cpu, SIZE, 1, &first, done);
	later = hsa_amd_memory_async_copy(bytes, cpu, of_gpu, gpu, 100, 0, NULL, first);
	/* Of one that the driver refuses later the value is -1, for which no other copy waits. */
	if (!later && hsa_signal_wait_scacquire(first, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, BLOCKED))
		later = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	if (later)
		hsa_signal_store_screlease(first, 0);
	if (!r && hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, BLOCKED))
		r = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	r = first_of(r, later);
	if (!r)
		r = hsa_memory_copy(of_gpu, of_cpu, SIZE);
	return first_of(first_of(r, hsa_signal_destroy(first)), hsa_signal_destroy(done));
}

static void *agents_of(size_t size)
{
	return malloc(size);
}

static hsa_status_t questions(void)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	hsa_agent_t *agents;
	uint32_t n;
	hsa_status_t r = hsa_amd_pointer_info(of_gpu, &info, agents_of, &n, &agents);

	free(agents);
	return r;
}

static hsa_status_t of_hip(hipError_t error)
{
	return error == hipErrorOutOfMemory ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : error ? HSA_STATUS_ERROR : HSA_STATUS_SUCCESS;
}

static hsa_status_t hip_memory(void)
{
	void *p = bytes, *managed = bytes, *host = bytes;
	hsa_status_t r = of_hip(hipMalloc(&p, SIZE));

	if (r)
		assert_null(p);
	if (!r)
		r = of_hip(hipMallocManaged(&managed, SIZE, hipMemAttachGlobal));
	else
		managed = NULL;
	if (!r)
		r = of_hip(hipHostMalloc(&host, SIZE, 0));
	else
		host = NULL;
	if (!r)
		r = of_hip(hipMemset(p, 3, SIZE));
	if (!r)
		r = of_hip(hipMemcpy(host, p, SIZE, hipMemcpyDefault));
	r = first_of(r, of_hip(hipFree(p)));
	r = first_of(r, of_hip(hipFree(managed)));
	return first_of(r, of_hip(hipHostFree(host)));
}

/* The last hsa_shut_down, and the start after it. What is of the test ends with it. */
static hsa_status_t starts(void)
{
	hsa_status_t r;

	while (!hsa_shut_down())
		;
	r = hsa_init();
	if (r)
		IS(NOT_INITIALIZED, hsa_shut_down());
	else
		FINE(hsa_shut_down());
	return r;
}

static uint64_t vram_free(void)
{
	struct sg_gpu_stats stats;

	assert_int_equal(sg_gpu_stats(device_core, 0, &stats), 0);
	return stats.vram_free;
}

static unsigned int open_files(void)
{
	DIR *all = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(all);
	while (readdir(all))
		n++;
	closedir(all);
	return n;
}

struct before {
	uint64_t vram;
	size_t host;
	unsigned int files;
};

static struct before now(void)
{
	return (struct before){ vram_free(), allocated(), open_files() };
}

/* The end of a copy's job comes after its signal. So may that of the first ones: then it was more before than is needed. */
static void as_before(struct before *b)
{
	for (int i = 0; i < 20000 && allocated() > b->host; i++)
		usleep(100);
	assert_int_equal(vram_free(), b->vram);
	assert_true(allocated() <= b->host);
	b->host = allocated();
	assert_int_equal(open_files(), b->files);
}

/* Those that free or end something do not fail for lack of memory. */
static const unsigned long may_fail[] = {
	SOFTGPU_CTX_CREATE, SOFTGPU_MEM_ALLOC, SOFTGPU_SET_ATTR, SOFTGPU_COPY, SOFTGPU_FILL, SOFTGPU_IPC_EXPORT, DEVICE_MMAP,
};

static void each_fails(void **state)
{
	hsa_status_t (*const sequence)(void) = (hsa_status_t (*)(void))*state;
	struct before before;
	unsigned int n, kind;
	hsa_status_t r;

	/* What it allocates once, for later. */
	FINE(sequence());
	FINE(sequence());
	before = now();
	for (n = 1; n < MOST; n++) {
		failed = false;
		fail_in = n;
		r = sequence();
		fail_in = 0;
		if (!failed)
			break;
		/* A context of the CPU's pool that is not to be had is no error. */
		if (r)
			IS(OUT_OF_RESOURCES, r);
		as_before(&before);
	}
	FINE(r);
	for (kind = 0; kind < sizeof(may_fail) / sizeof(may_fail[0]); kind++) {
		for (n = 1; n < MOST; n++) {
			device_fail(may_fail[kind], n, ENOMEM);
			r = sequence();
			device_fail(0, 0, 0);
			if (!device_failed)
				break;
			if (r)
				IS(OUT_OF_RESOURCES, r);
			as_before(&before);
		}
		FINE(r);
	}
	as_before(&before);
}

/* Copies that wait together have a thread each, and so many threads stay for later ones: none is made in a sequence. */
static void threads_of_copies(void)
{
	hsa_signal_t go = signal_of(1), done = signal_of(THREADS);

	for (int i = 0; i < THREADS; i++)
		FINE(hsa_amd_memory_async_copy(of_cpu, cpu, bytes, cpu, SIZE, 1, &go, done));
	hsa_signal_store_screlease(go, 0);
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX, BLOCKED), 0);
	FINE(hsa_signal_destroy(go));
	FINE(hsa_signal_destroy(done));
}

static int setup(void **state)
{
	if (up(state))
		return -1;
	of_cpu = memory(false, SIZE);
	of_gpu = memory(true, SIZE);
	threads_of_copies();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "plain signal", each_fails, NULL, NULL, (void *)plain_signal },
		{ "shared signal", each_fails, NULL, NULL, (void *)shared_signal },
		{ "memory of the CPU", each_fails, NULL, NULL, (void *)cpu_memory },
		{ "memory of a GPU", each_fails, NULL, NULL, (void *)gpu_memory },
		{ "locks", each_fails, NULL, NULL, (void *)lock_and_unlock },
		{ "copies", each_fails, NULL, NULL, (void *)two_copies },
		{ "questions", each_fails, NULL, NULL, (void *)questions },
		{ "HIP's memory", each_fails, NULL, NULL, (void *)hip_memory },
		{ "start", each_fails, NULL, NULL, (void *)starts },
	};

	return cmocka_run_group_tests_name("hsa nomem", tests, setup, NULL);
}
