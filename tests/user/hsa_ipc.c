// SPDX-License-Identifier: MIT
/* hsa_ipc.c - memory and signals of other processes, under both sets of names. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "hsa_test.h"

void signals_elsewhere(void **state)
{
	struct message m = { .length = 0 };
	struct child c = child_start("signal");
	hsa_signal_t s, same, plain = signal_of(0);

	FINE(hsa_amd_signal_create(0, 0, NULL, HSA_AMD_SIGNAL_IPC, &s));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_create(plain, &m.signal));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_create(s, NULL));
	IS(INVALID_SIGNAL, hsa_amd_ipc_signal_create((hsa_signal_t){ 3 }, &m.signal));
	FINE(hsa_amd_ipc_signal_create(s, &m.signal));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(NULL, &same));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(&m.signal, NULL));
	/* Here it is the signal itself, once more. */
	FINE(hsa_amd_ipc_signal_attach(&m.signal, &same));
	assert_int_equal(same.handle, s.handle);
	FINE(hsa_signal_destroy(same));
	tell(c.fd, &m, sizeof(m));
	usleep(20000);
	hsa_signal_store_screlease(s, 5);
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 6, 60000 * MS, BLOCKED), 6);
	usleep(20000);
	hsa_signal_add_relaxed(s, 1);
	FINE(hsa_signal_destroy(s));
	tell(c.fd, &m, sizeof(m));
	assert_int_equal(child_end(&c), 0);
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(&m.signal, &s));
	FINE(hsa_signal_destroy(plain));
}

/* One that waits can be killed, and the others go on. */
void killed_waiter(void **state)
{
	struct message m = { .length = 0 };
	struct child c = child_start("waits");
	hsa_signal_t s;

	FINE(hsa_amd_signal_create(0, 0, NULL, HSA_AMD_SIGNAL_IPC, &s));
	FINE(hsa_amd_ipc_signal_create(s, &m.signal));
	tell(c.fd, &m, sizeof(m));
	hear(c.fd, &m, sizeof(m));
	usleep(20000);
	child_kill(&c);
	hsa_signal_store_relaxed(s, 1);
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_NE, 1, MS, BLOCKED), 1);
	FINE(hsa_signal_destroy(s));
}

static void share(bool of_gpu)
{
	struct message m = { .length = 70000 };
	struct child c = child_start("memory");
	char *p = memory(of_gpu, m.length);
	void *none;

	memset(p, 1, m.length);
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(NULL, m.length, &m.memory));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(p, m.length, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(p + 1, m.length - 1, &m.memory));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(p, m.length - 1, &m.memory));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(p, m.length + 1, &m.memory));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(&m, sizeof(m), &m.memory));
	FINE(hsa_amd_ipc_memory_create(p, m.length, &m.memory));
	/* Not in its own process. */
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, &none));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(NULL, m.length, 0, NULL, &none));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach(NULL));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach(p));
	tell(c.fd, &m, sizeof(m));
	hear(c.fd, &m, sizeof(m));
	FINE(hsa_amd_ipc_memory_create(p, m.length, &m.memory));
	for (size_t i = 0; i < m.length; i++)
		assert_int_equal(p[i], 2);
	FINE(hsa_amd_memory_pool_free(p));
	tell(c.fd, &m, sizeof(m));
	assert_int_equal(child_end(&c), 0);
}

void memory_elsewhere(void **state)
{
	share(false);
	if (gpus)
		share(true);
}

/* What a process had is there for as long as a process has it open, and opens no more. */
void dead_exporter(void **state)
{
	struct child c = child_start("exporter");
	struct message m;
	hsa_signal_t s, none;
	void *nothing_there;
	char *p;

	hear(c.fd, &m, sizeof(m));
	FINE(hsa_amd_ipc_signal_attach(&m.signal, &s));
	FINE(hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, (void **)&p));
	assert_int_equal(hsa_signal_load_relaxed(s), 3);
	assert_int_equal(p[4999], 9);
	child_kill(&c);
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(&m.signal, &none));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, &nothing_there));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_open_signal_handle(m.short_signal, &none));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_open_memory_handle(m.short_memory, &nothing_there));
	assert_int_equal(p[4999], 9);
	hsa_signal_add_relaxed(s, 1);
	assert_int_equal(hsa_signal_load_relaxed(s), 4);
	FINE(hsa_amd_ipc_memory_detach(p));
	FINE(hsa_signal_destroy(s));
}

/* Detached while a copy waits: it fails, and leaves alone what lies there then. */
void detached_before_a_copy(void **state)
{
	struct child c = child_start("exporter");
	hsa_signal_t done = signal_of(9), go = signal_of(1);
	char bytes[100] = { 0 }, *p, *there;
	struct message m;

	hear(c.fd, &m, sizeof(m));
	FINE(hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, (void **)&p));
	FINE(hsa_amd_memory_async_copy(p, cpu, bytes, cpu, sizeof(bytes), 1, &go, done));
	FINE(hsa_amd_ipc_memory_detach(p));
	/* The same once more, or memory of the program's: neither is what the copy was of. */
	if (gpus) {
		FINE(hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, (void **)&there));
	} else {
		there = mmap(p, m.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		assert_ptr_equal(there, p);
		memset(there, 9, m.length);
	}
	hsa_signal_store_screlease(go, 0);
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 9, UINT64_MAX, BLOCKED), -1);
	for (size_t i = 0; i < sizeof(bytes); i++)
		assert_int_equal(there[i], 9);
	if (gpus)
		FINE(hsa_amd_ipc_memory_detach(there));
	else
		munmap(there, m.length);
	child_kill(&c);
	FINE(hsa_signal_destroy(done));
	FINE(hsa_signal_destroy(go));
}

/* Any bit of a handle wrong, and handles that name files of other kinds: nothing opens, nothing hangs. */
void wrong_handles(void **state)
{
	struct child c = child_start("exporter");
	hsa_amd_ipc_memory_t wrong;
	struct message m;
	hsa_signal_t s;
	int fds[2];
	void *p;

	hear(c.fd, &m, sizeof(m));
	for (int bit = 0; bit < 256; bit++) {
		wrong = m.memory;
		wrong.handle[bit / 32] ^= 1u << bit % 32;
		IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&wrong, m.length, 0, NULL, &p));
		wrong = m.signal;
		wrong.handle[bit / 32] ^= 1u << bit % 32;
		IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(&wrong, &s));
	}
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(&m.memory, &s));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&m.signal, m.length, 0, NULL, &p));
	/* A pipe, which would block a process that opens it. */
	assert_int_equal(pipe(fds), 0);
	wrong = m.signal;
	wrong.handle[1] = (uint32_t)getpid();
	wrong.handle[2] = (uint32_t)fds[0];
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(&wrong, &s));
	close(fds[0]);
	close(fds[1]);
	child_kill(&c);
}

/* No descriptor is left, or one where two are needed: that, and not the handle, is what is wrong. */
void no_descriptors(void **state)
{
	struct child c = child_start("exporter");
	hsa_amd_ipc_memory_handle_t name;
	struct rlimit before, few;
	hsa_status_t said[5];
	struct message m;
	hsa_signal_t s;
	int lowest;
	char *own = memory(true, 5000);
	void *p;

	hear(c.fd, &m, sizeof(m));
	FINE(hsa_amd_ipc_get_memory_handle(own, &name));
	lowest = open("/dev/null", O_RDONLY);
	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (int left = 0; left < 2; left++) {
		few = before;
		few.rlim_cur = (rlim_t)(lowest + left);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		said[0] = hsa_amd_ipc_signal_attach(&m.signal, &s);
		said[1] = hsa_amd_ipc_open_signal_handle(m.short_signal, &s);
		said[2] = hsa_amd_ipc_open_memory_handle(m.short_memory, &p);
		said[3] = hsa_amd_ipc_close_memory_handle(name);
		said[4] = hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, &p);
		setrlimit(RLIMIT_NOFILE, &before);
		for (int i = 0; i < 4; i++)
			IS(OUT_OF_RESOURCES, said[i]);
		/* The driver's needs none. */
		if (gpus) {
			FINE(said[4]);
			FINE(hsa_amd_ipc_memory_detach(p));
		} else {
			IS(OUT_OF_RESOURCES, said[4]);
		}
	}
	FINE(hsa_amd_ipc_signal_attach(&m.signal, &s));
	FINE(hsa_signal_destroy(s));
	FINE(hsa_amd_ipc_open_memory_handle(m.short_memory, &p));
	FINE(hsa_amd_ipc_memory_pool_free(p));
	FINE(hsa_amd_ipc_close_memory_handle(name));
	FINE(hsa_amd_memory_pool_free(own));
	child_kill(&c);
}

void first_names(void **state)
{
	struct message m = { .length = 5000 };
	struct child c = child_start("first names");
	hsa_amd_memory_pool_t pool;
	hsa_signal_t s, plain = signal_of(0);
	hsa_agent_t owner;
	uint32_t allocated = 9;
	size_t size = 0;
	char *p = memory(true, m.length);

	memset(p, 1, m.length);
	FINE(hsa_amd_signal_create(0, 0, NULL, HSA_AMD_SIGNAL_IPC, &s));
	FINE(hsa_amd_ipc_get_memory_handle(p, &m.short_memory));
	FINE(hsa_amd_ipc_get_signal_handle(s, &m.short_signal));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_get_memory_handle(p + 1, &m.short_memory));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_get_memory_handle(NULL, &m.short_memory));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_get_memory_handle(p, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_get_signal_handle(plain, &m.short_signal));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_get_signal_handle(s, NULL));
	IS(INVALID_SIGNAL, hsa_amd_ipc_get_signal_handle((hsa_signal_t){ 3 }, &m.short_signal));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_open_memory_handle(m.short_memory, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_open_signal_handle(m.short_signal, NULL));
	tell(c.fd, &m, sizeof(m));
	hear(c.fd, &m, sizeof(m));
	assert_int_equal(p[1], 3);
	assert_int_equal(hsa_signal_load_scacquire(s), 1);
	FINE(hsa_amd_ipc_close_memory_handle(m.short_memory));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_close_memory_handle(m.short_memory));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_close_memory_handle((hsa_amd_ipc_memory_handle_t){ m.short_signal.handle }));
	FINE(hsa_amd_ipc_close_signal_handle(m.short_signal));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_close_signal_handle(m.short_signal));
	tell(c.fd, &m, sizeof(m));
	assert_int_equal(child_end(&c), 0);

	FINE(hsa_amd_get_address_info(p + 7, HSA_AMD_ADDRESS_HSA_ALLOCATED, &allocated));
	assert_int_equal(allocated, 1);
	FINE(hsa_amd_get_address_info(p + 7, HSA_AMD_ADDRESS_AGENT, &owner));
	assert_int_equal(owner.handle, gpus ? gpu.handle : cpu.handle);
	FINE(hsa_amd_get_address_info(p + 7, HSA_AMD_ADDRESS_POOL, &pool));
	assert_int_equal(pool.handle, gpus ? gpu_pool.handle : cpu_pool.handle);
	FINE(hsa_amd_get_address_info(p + 7, HSA_AMD_ADDRESS_ALLOC_SIZE, &size));
	assert_int_equal(size, 5000);
	FINE(hsa_amd_get_address_info(&size, HSA_AMD_ADDRESS_HSA_ALLOCATED, &allocated));
	assert_int_equal(allocated, 0);
	IS(INVALID_ALLOCATION, hsa_amd_get_address_info(&size, HSA_AMD_ADDRESS_ALLOC_SIZE, &size));
	IS(INVALID_ARGUMENT, hsa_amd_get_address_info(NULL, HSA_AMD_ADDRESS_HSA_ALLOCATED, &allocated));
	IS(INVALID_ARGUMENT, hsa_amd_get_address_info(p, HSA_AMD_ADDRESS_HSA_ALLOCATED, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_get_address_info(p, (hsa_amd_address_info_t)5, &size));
	FINE(hsa_amd_ipc_memory_pool_free(p));
	FINE(hsa_signal_destroy(s));
	FINE(hsa_signal_destroy(plain));
}

/* Nothing of one that is killed at its work stays behind. */
void killed_importers(void **state)
{
	struct message m = { .length = MIB };
	char *p = memory(true, m.length);

	FINE(hsa_amd_ipc_memory_create(p, m.length, &m.memory));
	for (int i = 0; i < 5; i++) {
		struct child c = child_start("copies");
		struct message answer;

		tell(c.fd, &m, sizeof(m));
		hear(c.fd, &answer, sizeof(answer));
		usleep((useconds_t)(i * 3000));
		child_kill(&c);
	}
	memset(p, 7, m.length);
	assert_int_equal(p[m.length - 1], 7);
	FINE(hsa_amd_memory_pool_free(p));
}
