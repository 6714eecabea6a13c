// SPDX-License-Identifier: MIT
/* hsa_copy.c - asynchronous copies. */
#include <dirent.h>
#include <sys/mman.h>

#include "hsa_test.h"

void copies(void **state)
{
	hsa_signal_t done = signal_of(1), first = signal_of(1), second = signal_of(2);
	const hsa_signal_t both[] = { first, second }, bad[] = { first, { .handle = 3 } };
	char *from = memory(true, 70000), *to = memory(false, 70000), local[300];
	hsa_agent_t owner = gpus ? gpu : cpu;

	for (int i = 0; i < 70000; i++)
		from[i] = (char)(i * 7);
	FINE(hsa_amd_memory_async_copy(to, cpu, from, owner, 70000, 0, NULL, done));
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, BLOCKED), 0);
	assert_memory_equal(to, from, 70000);
	/* Not before its dependencies are 0, and one after it does not wait for them. */
	memset(to, 0, 70000);
	hsa_signal_store_relaxed(done, 5);
	FINE(hsa_amd_memory_async_copy(to, cpu, from, owner, 70000, 2, both, done));
	FINE(hsa_amd_memory_async_copy(local, cpu, from + 69700, owner, 300, 0, NULL, done));
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 5, UINT64_MAX, BLOCKED), 4);
	assert_memory_equal(local, from + 69700, 300);
	hsa_signal_store_screlease(second, 0);
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 4, 50 * MS, BLOCKED), 4);
	assert_int_equal(to[1], 0);
	hsa_signal_subtract_screlease(first, 1);
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 4, UINT64_MAX, BLOCKED), 3);
	assert_memory_equal(to, from, 70000);
	/* The later one's end is the earlier one's dependency. */
	hsa_signal_store_relaxed(first, 1);
	hsa_signal_store_relaxed(done, 1);
	FINE(hsa_amd_memory_async_copy(to, cpu, local, cpu, 300, 1, &first, done));
	FINE(hsa_amd_memory_async_copy(local, cpu, from, owner, 300, 0, NULL, first));
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, BLOCKED), 0);
	assert_memory_equal(to, from, 300);
	/* Nothing to do changes nothing. */
	FINE(hsa_amd_memory_async_copy(to, cpu, from, owner, 0, 0, NULL, done));
	usleep(1000);
	assert_int_equal(hsa_signal_load_relaxed(done), 0);

	IS(INVALID_ARGUMENT, hsa_amd_memory_async_copy(NULL, cpu, from, owner, 1, 0, NULL, done));
	IS(INVALID_ARGUMENT, hsa_amd_memory_async_copy(to, cpu, NULL, owner, 1, 0, NULL, done));
	IS(INVALID_ARGUMENT, hsa_amd_memory_async_copy(to, cpu, from, owner, 1, 1, NULL, done));
	IS(INVALID_ARGUMENT, hsa_amd_memory_async_copy(to, cpu, from, owner, 1, 0, both, done));
	IS(INVALID_AGENT, hsa_amd_memory_async_copy(to, (hsa_agent_t){ 4 }, from, owner, 1, 0, NULL, done));
	IS(INVALID_AGENT, hsa_amd_memory_async_copy(to, cpu, from, (hsa_agent_t){ 4 }, 1, 0, NULL, done));
	IS(INVALID_SIGNAL, hsa_amd_memory_async_copy(to, cpu, from, owner, 1, 2, bad, done));
	IS(INVALID_SIGNAL, hsa_amd_memory_async_copy(to, cpu, from, owner, 1, 0, NULL, (hsa_signal_t){ 0 }));
	/* Past an end: nothing is touched. */
	to[69999] = 42;
	IS(INVALID_ARGUMENT, hsa_amd_memory_async_copy(to + 69999, cpu, from, owner, 2, 0, NULL, done));
	IS(INVALID_ARGUMENT, hsa_amd_memory_async_copy(to, cpu, from + 1, owner, 70000, 0, NULL, done));
	IS(INVALID_ARGUMENT, hsa_memory_copy(to + 69999, from, 2));
	IS(INVALID_ARGUMENT, hsa_memory_copy(to, from, SIZE_MAX));
	IS(INVALID_ARGUMENT, hsa_amd_memory_fill(to + 69996, 7, 2));
	IS(INVALID_ARGUMENT, hsa_amd_memory_fill(to, 7, SIZE_MAX / 2));
	assert_int_equal(to[69999], 42);
	assert_int_equal(hsa_signal_load_relaxed(done), 0);
	FINE(hsa_amd_memory_fill(to + 69996, 0x01010101, 1));
	assert_int_equal(to[69999], 1);
	FINE(hsa_amd_memory_pool_free(from));
	FINE(hsa_amd_memory_pool_free(to));
	FINE(hsa_signal_destroy(done));
	FINE(hsa_signal_destroy(first));
	FINE(hsa_signal_destroy(second));
}

/* Freed while the copy waits: it fails, and says so. */
void copy_of_what_went(void **state)
{
	hsa_signal_t done = signal_of(9), go = signal_of(1);
	char *from = memory(true, 4096), local[16];
	hsa_agent_t owner = gpus ? gpu : cpu;

	FINE(hsa_amd_memory_async_copy(local, cpu, from, owner, 16, 1, &go, done));
	FINE(hsa_amd_memory_pool_free(from));
	hsa_signal_store_screlease(go, 0);
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 9, UINT64_MAX, BLOCKED), -1);
	/* And the next one does not. */
	from = memory(true, 4096);
	hsa_signal_store_relaxed(done, 1);
	FINE(hsa_amd_memory_async_copy(local, cpu, from, owner, 16, 0, NULL, done));
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_NE, 1, UINT64_MAX, BLOCKED), 0);
	FINE(hsa_amd_memory_pool_free(from));
	FINE(hsa_signal_destroy(done));
	FINE(hsa_signal_destroy(go));
}

/* Other memory at the address of what was freed; own: of the program's. */
static char *replace(char *freed, bool own, size_t size)
{
	char *p = own ? mmap(freed, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) :
		memory(true, size);

	assert_ptr_equal(p, freed);
	memset(p, 3, size);
	return p;
}

/* Freed while the copy waits, and something else lies there: the copy fails, and changes nothing. */
void copy_of_what_was_replaced(void **state)
{
	const size_t size = 65536;

	for (int side = 0; side < 2; side++) {
		hsa_signal_t done = signal_of(9), go = signal_of(1);
		char *kept = calloc(1, size), *freed = memory(true, size), *there;

		FINE(hsa_amd_memory_async_copy(side ? kept : freed, cpu, side ? freed : kept, cpu, size, 1, &go, done));
		FINE(hsa_amd_memory_pool_free(freed));
		/* The driver gives the address out again; without it the kernel may, to any caller. */
		there = replace(freed, !gpus, size);
		hsa_signal_store_screlease(go, 0);
		assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 9, UINT64_MAX, BLOCKED), -1);
		for (size_t i = 0; i < size; i++)
			assert_true(there[i] == 3 && !kept[i]);
		if (gpus)
			FINE(hsa_amd_memory_pool_free(there));
		else
			munmap(there, size);
		free(kept);
		FINE(hsa_signal_destroy(done));
		FINE(hsa_signal_destroy(go));
	}
}

/* Of no allocation when it was asked for: an allocation that takes the place is not what was meant. */
void copy_over_an_allocation(void **state)
{
	char *own = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte = 1, *p = NULL, *all[1000];
	hsa_signal_t done = signal_of(9), go = signal_of(1);
	int n = 0;

	FINE(hsa_amd_memory_async_copy(own, cpu, &byte, cpu, 1, 1, &go, done));
	munmap(own, 65536);
	/* The driver's are elsewhere; else it is the kernel that says where. */
	while (!gpus && p != own && n < 1000)
		all[n++] = p = memory(false, 65536);
	hsa_signal_store_screlease(go, 0);
	if (p == own) {
		assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 9, UINT64_MAX, BLOCKED), -1);
		assert_int_equal(p[0], 0);
	} else {
		hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 9, UINT64_MAX, BLOCKED);
	}
	while (n)
		FINE(hsa_amd_memory_pool_free(all[--n]));
	FINE(hsa_signal_destroy(done));
	FINE(hsa_signal_destroy(go));
	if (p != own)
		skip();
}

/* Memory that is not there, or not for writing: the copy fails, and the program goes on. */
void copy_of_nothing(void **state)
{
	char *there = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *gone = there + 4096, *constant = there + 2 * 4096;
	hsa_signal_t done = signal_of(1);
	const struct { char *to, *from; size_t size; } copies[] = {
		{ gone, there, 16 }, { there, gone, 16 }, { there + 4090, constant, 16 }, { constant, there, 16 }, { gone + 1, gone, 8 },
	};

	munmap(gone, 4096);
	mprotect(constant, 4096, PROT_READ);
	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		hsa_signal_store_relaxed(done, 5);
		FINE(hsa_amd_memory_async_copy(copies[i].to, cpu, copies[i].from, cpu, copies[i].size, 0, NULL, done));
		assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_NE, 5, UINT64_MAX, BLOCKED), -1);
		assert_int_not_equal(hsa_memory_copy(copies[i].to, copies[i].from, copies[i].size), HSA_STATUS_SUCCESS);
	}
	/* Ranges that overlap are moved. */
	for (int i = 0; i < 200; i++)
		there[i] = (char)i;
	FINE(hsa_memory_copy(there + 7, there, 150));
	FINE(hsa_memory_copy(there + 2, there + 7, 150));
	for (int i = 0; i < 150; i++)
		assert_int_equal(there[2 + i], (char)i);
	FINE(hsa_memory_copy(there, constant, 4096));
	assert_int_equal(there[9], 0);
	FINE(hsa_signal_destroy(done));
	munmap(there, 4096);
	munmap(constant, 4096);
}

/* A hundred copies, each after the one before, in no order of their calls; the first signal may go meanwhile. */
void chain(void **state)
{
	hsa_signal_t steps[101], done;
	char bytes[101] = { 1 };

	for (int i = 0; i <= 100; i++)
		steps[i] = signal_of(1);
	for (int i = 99; i >= 0; i--)
		FINE(hsa_amd_memory_async_copy(&bytes[i + 1], cpu, &bytes[i], cpu, 1, 1, &steps[i], steps[i + 1]));
	done = steps[100];
	for (int i = 1; i < 100; i++)
		FINE(hsa_signal_destroy(steps[i]));
	assert_int_equal(hsa_signal_load_relaxed(done), 1);
	hsa_signal_store_screlease(steps[0], 0);
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX, BLOCKED), 0);
	for (int i = 0; i <= 100; i++)
		assert_int_equal(bytes[i], 1);
	FINE(hsa_signal_destroy(steps[0]));
	FINE(hsa_signal_destroy(done));
}

static int threads(void)
{
	DIR *all = opendir("/proc/self/task");
	int n = 0;

	assert_non_null(all);
	while (readdir(all))
		n++;
	closedir(all);
	return n;
}

/* Each that waits has a thread; few threads stay. */
void many_copies(void **state)
{
	hsa_signal_t go = signal_of(1), done = signal_of(200);
	char from[200] = { 1 }, to[200];
	int before = threads();

	for (int i = 0; i < 200; i++)
		FINE(hsa_amd_memory_async_copy(&to[i], cpu, &from[i], cpu, 1, 1, &go, done));
	assert_true(threads() >= before + 100);
	hsa_signal_store_screlease(go, 0);
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX, BLOCKED), 0);
	assert_memory_equal(to, from, 200);
	for (uint64_t end = now_ns(CLOCK_MONOTONIC) + 20000 * MS; threads() > before + 20 && now_ns(CLOCK_MONOTONIC) < end; )
		usleep(1000);
	assert_true(threads() <= before + 20);
	FINE(hsa_signal_destroy(go));
	FINE(hsa_signal_destroy(done));
}

/* The last hsa_shut_down does not wait for what never comes, and HSA starts anew. */
void shut_down_with_copies(void **state)
{
	char a[2] = { 1, 1 }, b[2] = { 2, 2 };
	hsa_signal_t never, done;
	hsa_amd_ipc_signal_t handle;

	FINE(hsa_amd_signal_create(1, 0, NULL, HSA_AMD_SIGNAL_IPC, &never));
	done = signal_of(1);
	FINE(hsa_amd_ipc_signal_create(never, &handle));
	for (int i = 0; i < 5; i++)
		FINE(hsa_amd_memory_async_copy(a, cpu, b, cpu, 2, 1, &never, done));
	usleep(1000);
	FINE(hsa_amd_memory_async_copy(a, cpu, b, cpu, 2, 1, &never, done));
	FINE(hsa_shut_down());
	assert_int_equal(a[0], 1);
	FINE(hsa_init());
	IS(INVALID_SIGNAL, hsa_signal_destroy(never));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(&handle, &never));
	done = signal_of(1);
	FINE(hsa_amd_memory_async_copy(a, cpu, b, cpu, 2, 0, NULL, done));
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX, BLOCKED), 0);
	assert_int_equal(a[0], 2);
}
