// SPDX-License-Identifier: MIT
/*
 * hsa.c - HSA's signals, pools, pointers, locks and asynchronous copies, and memory and
 * signals of other processes, under both sets of names.
 *
 * With SOFTGPU_INPROCESS=1 there is the CPU's agent alone; on softgpu.ko the same tests
 * take a GPU's memory as well.  A second process is this program once more: one that
 * uses HSA cannot be forked.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

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

static hsa_agent_t cpu, gpu;		/* gpu.handle 0: there is none */
static hsa_amd_memory_pool_t cpu_pool, gpu_pool;
static int gpus;

static hsa_status_t see_pool(hsa_amd_memory_pool_t pool, void *data)
{
	*(hsa_amd_memory_pool_t *)data = pool;
	return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t see_agent(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;

	(void)data;
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

static int up(void **state)
{
	(void)state;
	gpus = 0;
	return hsa_init() || hsa_iterate_agents(see_agent, NULL);
}

static int down(void **state)
{
	(void)state;
	return hsa_shut_down();
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static hsa_signal_t signal_of(hsa_signal_value_t value)
{
	hsa_signal_t s = { 0 };

	FINE(hsa_signal_create(value, 0, NULL, &s));
	assert_true(s.handle);
	return s;
}

/* Of a GPU where there is one. */
static void *memory(bool of_gpu, size_t size)
{
	void *p = NULL;

	FINE(hsa_amd_memory_pool_allocate(of_gpu && gpus ? gpu_pool : cpu_pool, size, 0, &p));
	assert_non_null(p);
	return p;
}

/* ---- a second process ---- */

struct child {
	pid_t pid;
	int fd;
};

static struct child start(const char *role)
{
	int fds[2];
	struct child c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (!c.pid) {
		dup2(fds[1], 3);
		fcntl(3, F_SETFD, 0);
		execl("/proc/self/exe", "user_hsa", "--role", role, (char *)NULL);
		_exit(99);
	}
	close(fds[1]);
	c.fd = fds[0];
	return c;
}

static bool in_role;

/* The other side is gone: what did not hold there is its exit status. */
static void alone(void)
{
	int status = 0;

	if (in_role)
		_exit(98);
	wait(&status);
	print_error("the other process ended with %#x\n", status);
	fail();
}

static void tell(int fd, const void *what, size_t size)
{
	if (send(fd, what, size, MSG_NOSIGNAL) != (ssize_t)size)
		alone();
}

static void hear(int fd, void *what, size_t size)
{
	if (recv(fd, what, size, 0) != (ssize_t)size)
		alone();
}

/* Its exit status, or -signal. */
static int end(struct child *c)
{
	int status;

	close(c->fd);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void kill_it(struct child *c)
{
	assert_int_equal(kill(c->pid, SIGKILL), 0);
	assert_int_equal(end(c), -SIGKILL);
}

/* In the other process. */
#define HOLDS(what)									\
	do {										\
		if (!(what)) {								\
			print_error("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);	\
			_exit(1);							\
		}									\
	} while (0)

struct message {
	hsa_amd_ipc_signal_t signal;
	hsa_amd_ipc_memory_t memory;
	hsa_amd_ipc_signal_handle_t short_signal;
	hsa_amd_ipc_memory_handle_t short_memory;
	size_t length;
};

/* Waits for 5, sets 6; then for 7. */
static void role_signal(int fd)
{
	struct message m;
	hsa_signal_t s, again;

	hear(fd, &m, sizeof(m));
	HOLDS(!hsa_amd_ipc_signal_attach(&m.signal, &s) && !hsa_amd_ipc_signal_attach(&m.signal, &again));
	HOLDS(s.handle == again.handle);
	HOLDS(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 5, UINT64_MAX, BLOCKED) == 5);
	hsa_signal_store_screlease(s, 6);
	HOLDS(!hsa_signal_destroy(again));
	HOLDS(hsa_signal_wait_relaxed(s, HSA_SIGNAL_CONDITION_GTE, 7, UINT64_MAX, BLOCKED) == 7);
	HOLDS(!hsa_signal_destroy(s) && hsa_signal_destroy(s) == HSA_STATUS_ERROR_INVALID_SIGNAL);
	/* Its maker has destroyed it. */
	hear(fd, &m, sizeof(m));
	HOLDS(hsa_amd_ipc_signal_attach(&m.signal, &s) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

static void role_waits(int fd)
{
	struct message m;
	hsa_signal_t s;

	hear(fd, &m, sizeof(m));
	HOLDS(!hsa_amd_ipc_signal_attach(&m.signal, &s));
	tell(fd, &m, sizeof(m));
	hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 1, UINT64_MAX, BLOCKED);
}

/* Attaches memory with 1 in every byte, and leaves 2. */
static void role_memory(int fd)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	const hsa_agent_t nobody = { .handle = 1 };
	unsigned char byte = 0;
	struct message m;
	char *p, *again;
	void *none;

	hear(fd, &m, sizeof(m));
	HOLDS(hsa_amd_ipc_memory_attach(&m.memory, m.length + 1, 0, NULL, &none) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(hsa_amd_ipc_memory_attach(&m.memory, m.length - 1, 0, NULL, &none) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(hsa_amd_ipc_memory_attach(&m.memory, m.length, 1, &nobody, &none) == HSA_STATUS_ERROR_INVALID_AGENT);
	HOLDS(hsa_amd_ipc_memory_attach(&m.memory, m.length, 1, NULL, &none) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(!hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, (void **)&p));
	HOLDS(!hsa_amd_ipc_memory_attach(&m.memory, m.length, 1, &cpu, (void **)&again) && again == p);
	for (size_t i = 0; i < m.length; i++)
		HOLDS(p[i] == 1);
	HOLDS(!hsa_memory_copy(&byte, p + m.length - 1, 1) && byte == 1);
	HOLDS(!hsa_amd_pointer_info(p + m.length - 1, &info, NULL, NULL, NULL));
	HOLDS(info.type == HSA_EXT_POINTER_TYPE_IPC && info.agentBaseAddress == p && info.sizeInBytes == m.length);
	HOLDS(!hsa_amd_pointer_info(p + m.length, &info, NULL, NULL, NULL) && !info.type);
	HOLDS(hsa_amd_memory_pool_free(p) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(hsa_amd_ipc_memory_create(p, m.length, &m.memory) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(!hsa_amd_agents_allow_access(1, &cpu, NULL, p));
	memset(p, 2, m.length);
	HOLDS(!hsa_amd_ipc_memory_detach(again) && p[0] == 2);
	tell(fd, &m, sizeof(m));
	/* Its maker has freed it: it is there, but opens no more. */
	hear(fd, &m, sizeof(m));
	HOLDS(p[0] == 2 && p[m.length - 1] == 2);
	HOLDS(hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, &none) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(hsa_amd_ipc_memory_detach(p + 1) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(!hsa_amd_ipc_memory_detach(p));
	HOLDS(hsa_amd_ipc_memory_detach(p) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(!hsa_amd_pointer_info(p, &info, NULL, NULL, NULL) && !info.type);
}

/* Makes both, and waits to be killed. */
static void role_exporter(int fd)
{
	struct message m = { .length = 5000 };
	hsa_signal_t s;
	void *p;

	HOLDS(!hsa_amd_signal_create(3, 0, NULL, HSA_AMD_SIGNAL_IPC, &s) && !hsa_amd_ipc_signal_create(s, &m.signal));
	HOLDS(!hsa_amd_memory_pool_allocate(gpus ? gpu_pool : cpu_pool, m.length, 0, &p));
	memset(p, 9, m.length);
	HOLDS(!hsa_amd_ipc_memory_create(p, m.length, &m.memory));
	HOLDS(!hsa_amd_ipc_get_memory_handle(p, &m.short_memory) && !hsa_amd_ipc_get_signal_handle(s, &m.short_signal));
	tell(fd, &m, sizeof(m));
	hear(fd, &m, sizeof(m));
}

/* The first names. */
static void role_first_names(int fd)
{
	struct message m, other;
	uint32_t allocated = 7;
	hsa_signal_t s;
	size_t size;
	char *p;
	void *none;

	hear(fd, &m, sizeof(m));
	HOLDS(!hsa_amd_ipc_open_memory_handle(m.short_memory, (void **)&p) && p[0] == 1 && p[m.length - 1] == 1);
	HOLDS(!hsa_amd_get_address_info(p, HSA_AMD_ADDRESS_HSA_ALLOCATED, &allocated) && allocated == 1);
	HOLDS(!hsa_amd_get_address_info(p + 9, HSA_AMD_ADDRESS_ALLOC_SIZE, &size) && size == m.length);
	HOLDS(!hsa_amd_ipc_open_signal_handle(m.short_signal, &s));
	p[1] = 3;
	hsa_signal_add_scacq_screl(s, 1);
	HOLDS(!hsa_signal_destroy(s));
	/* Not the one for the other, nor somebody else's to close, nor a bit wrong. */
	HOLDS(hsa_amd_ipc_open_memory_handle((hsa_amd_ipc_memory_handle_t){ m.short_signal.handle }, &none) ==
	      HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(hsa_amd_ipc_close_memory_handle(m.short_memory) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	for (int bit = 0; bit < 64; bit++) {
		other.short_memory.handle = m.short_memory.handle ^ UINT64_C(1) << bit;
		HOLDS(hsa_amd_ipc_open_memory_handle(other.short_memory, &none) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	}
	tell(fd, &m, sizeof(m));
	/* Closed by who got it. */
	hear(fd, &m, sizeof(m));
	HOLDS(hsa_amd_ipc_open_memory_handle(m.short_memory, &none) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(hsa_amd_ipc_open_signal_handle(m.short_signal, &s) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(p[1] == 3 && !hsa_amd_ipc_memory_pool_free(p));
	HOLDS(hsa_amd_ipc_memory_pool_free(p) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

/* Copies into attached memory until it is killed. */
static void role_copies(int fd)
{
	struct message m;
	hsa_signal_t s;
	char *p;

	hear(fd, &m, sizeof(m));
	HOLDS(!hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, (void **)&p) && !hsa_signal_create(0, 0, NULL, &s));
	tell(fd, &m, sizeof(m));
	for (;;) {
		hsa_signal_store_relaxed(s, 1);
		HOLDS(!hsa_amd_memory_async_copy(p, cpu, p + m.length / 2, cpu, m.length / 2, 0, NULL, s));
		HOLDS(!hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX, BLOCKED));
	}
}

static int role(const char *name)
{
	static const struct {
		const char *name;
		void (*run)(int fd);
	} roles[] = {
		{ "signal", role_signal }, { "waits", role_waits }, { "memory", role_memory }, { "exporter", role_exporter },
		{ "first names", role_first_names }, { "copies", role_copies },
	};

	in_role = true;
	if (up(NULL))
		return 96;
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (!strcmp(roles[i].name, name)) {
			roles[i].run(3);
			return down(NULL);
		}
	}
	return 95;
}

/* ---- before hsa_init ---- */

static void uninitialized(void **state)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	hsa_amd_ipc_memory_t handle = { { 0 } };
	hsa_signal_t s = { .handle = 8 };
	hsa_agent_t a = { .handle = 8 };
	hsa_amd_memory_pool_t pool = { .handle = 8 };
	uint64_t value, there[2] = { 0 };
	void *p;

	(void)state;
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

/* ---- signals ---- */

static void signal_life(void **state)
{
	const hsa_agent_t two[] = { cpu, cpu }, none = { .handle = 77 };
	hsa_signal_t s = signal_of(-5);

	(void)state;
	assert_int_equal(hsa_signal_load_scacquire(s), -5);
	FINE(hsa_signal_destroy(s));
	IS(INVALID_SIGNAL, hsa_signal_destroy(s));
	IS(INVALID_SIGNAL, hsa_signal_destroy((hsa_signal_t){ .handle = 1 }));
	IS(INVALID_ARGUMENT, hsa_signal_destroy((hsa_signal_t){ .handle = 0 }));
	IS(INVALID_ARGUMENT, hsa_signal_create(0, 0, NULL, NULL));
	IS(INVALID_ARGUMENT, hsa_signal_create(0, 1, NULL, &s));
	IS(INVALID_ARGUMENT, hsa_signal_create(0, 2, two, &s));
	IS(INVALID_AGENT, hsa_signal_create(0, 1, &none, &s));
	IS(INVALID_ARGUMENT, hsa_amd_signal_create(0, 0, NULL, 4, &s));
	FINE(hsa_signal_create(1, 1, &cpu, &s));
	FINE(hsa_signal_destroy(s));
	FINE(hsa_amd_signal_create(INT64_MIN, 0, NULL, HSA_AMD_SIGNAL_AMD_GPU_ONLY, &s));
	assert_true(hsa_signal_load_relaxed(s) == INT64_MIN);
	FINE(hsa_signal_destroy(s));
}

#define CHANGES(order)									\
	hsa_signal_store_relaxed(s, 6);							\
	hsa_signal_add_##order(s, INT64_C(1) << 40);					\
	assert_true(hsa_signal_load_relaxed(s) == (INT64_C(1) << 40) + 6);		\
	hsa_signal_subtract_##order(s, (INT64_C(1) << 40) + 7);				\
	assert_int_equal(hsa_signal_load_scacquire(s), -1);				\
	hsa_signal_and_##order(s, 0xff0);						\
	assert_int_equal(hsa_signal_load_acquire(s), 0xff0);				\
	hsa_signal_or_##order(s, 0xf);							\
	assert_int_equal(hsa_signal_load_acquire(s), 0xfff);				\
	hsa_signal_xor_##order(s, 0xf0f);						\
	assert_int_equal(hsa_signal_exchange_##order(s, 11), 0x0f0);			\
	assert_int_equal(hsa_signal_cas_##order(s, 12, 13), 11);			\
	assert_int_equal(hsa_signal_cas_##order(s, 11, 14), 11);			\
	assert_int_equal(hsa_signal_load_relaxed(s), 14);

static void values(void **state)
{
	hsa_signal_t kinds[2] = { signal_of(0) };

	(void)state;
	FINE(hsa_amd_signal_create(0, 0, NULL, HSA_AMD_SIGNAL_IPC, &kinds[1]));
	for (int i = 0; i < 2; i++) {
		hsa_signal_t s = kinds[i];

		HSA_SIGNAL_ORDERS(CHANGES)
		hsa_signal_store_release(s, 1);
		assert_int_equal(hsa_signal_load_relaxed(s), 1);
		hsa_signal_store_screlease(s, 2);
		assert_int_equal(hsa_signal_load_relaxed(s), 2);
		hsa_signal_silent_store_relaxed(s, 3);
		assert_int_equal(hsa_signal_load_relaxed(s), 3);
		hsa_signal_silent_store_screlease(s, 4);
		assert_int_equal(hsa_signal_load_relaxed(s), 4);
		FINE(hsa_signal_destroy(s));
	}
}

static void conditions(void **state)
{
	hsa_signal_t s = signal_of(-3);
	uint64_t before, frequency, stamps[2];

	(void)state;
	/* What holds is seen at once, whatever the timeout. */
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, -3, 0, BLOCKED), -3);
	assert_int_equal(hsa_signal_wait_relaxed(s, HSA_SIGNAL_CONDITION_NE, 3, UINT64_MAX, BLOCKED), -3);
	assert_int_equal(hsa_signal_wait_acquire(s, HSA_SIGNAL_CONDITION_LT, -2, UINT64_MAX, HSA_WAIT_STATE_ACTIVE), -3);
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_GTE, -3, UINT64_MAX, BLOCKED), -3);
	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency));
	for (int active = 0; active < 2; active++) {
		FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &stamps[0]));
		before = now_ns(CLOCK_THREAD_CPUTIME_ID);
		assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_LT, -3, frequency / 5,
							   active ? HSA_WAIT_STATE_ACTIVE : BLOCKED), -3);
		FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &stamps[1]));
		assert_true(stamps[1] - stamps[0] >= frequency / 5);
		/* It slept. */
		assert_true(now_ns(CLOCK_THREAD_CPUTIME_ID) - before < 50 * MS);
	}
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_GTE, -2, 0, BLOCKED), -3);
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_NE, -3, 1, BLOCKED), -3);
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 0, 1, BLOCKED), -3);
	FINE(hsa_signal_destroy(s));
}

struct pingpong {
	hsa_signal_t s;
	int rounds;
};

/* Turns odd values into the next even one. */
static void *answer(void *arg)
{
	struct pingpong *p = arg;

	for (int i = 0; i < p->rounds; i++) {
		hsa_signal_wait_scacquire(p->s, HSA_SIGNAL_CONDITION_EQ, 2 * i + 1, UINT64_MAX, BLOCKED);
		hsa_signal_add_relaxed(p->s, 1);
	}
	return NULL;
}

/* No wake is lost, whichever side sleeps. */
static void wakes(void **state)
{
	hsa_signal_t kinds[2] = { signal_of(0) };
	pthread_t id;

	(void)state;
	FINE(hsa_amd_signal_create(0, 0, NULL, HSA_AMD_SIGNAL_IPC, &kinds[1]));
	for (int k = 0; k < 2; k++) {
		struct pingpong p = { .s = kinds[k], .rounds = 3000 };

		assert_int_equal(pthread_create(&id, NULL, answer, &p), 0);
		for (int i = 0; i < p.rounds; i++) {
			if (i % 100 == 0)
				usleep(1000);
			hsa_signal_store_relaxed(p.s, 2 * i + 1);
			assert_int_equal(hsa_signal_wait_scacquire(p.s, HSA_SIGNAL_CONDITION_EQ, 2 * i + 2, 60000 * MS,
								   i % 2 ? BLOCKED : HSA_WAIT_STATE_ACTIVE), 2 * i + 2);
		}
		pthread_join(id, NULL);
		FINE(hsa_signal_destroy(p.s));
	}
}

/* ---- pools and links ---- */

static void pools(void **state)
{
	hsa_amd_memory_pool_link_info_t link = { .link_type = HSA_AMD_LINK_INFO_TYPE_XGMI, .min_latency = 7 };
	const hsa_amd_memory_pool_t none = { .handle = 9 };
	const hsa_agent_t nobody = { .handle = 9 };
	hsa_amd_memory_pool_location_t location;
	hsa_amd_memory_pool_access_t access;
	uint32_t flags, hops = 9;
	char text[64];
	size_t size;
	bool all;
	void *p;

	(void)state;
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
	IS(INVALID_AGENT, hsa_amd_agent_memory_pool_get_info(nobody, cpu_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
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

/* ---- pointers ---- */

static hsa_amd_pointer_info_t info_of(const void *p)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };

	FINE(hsa_amd_pointer_info(p, &info, NULL, NULL, NULL));
	return info;
}

static void *counted(size_t size)
{
	return malloc(size);
}

static void *nothing(size_t size)
{
	(void)size;
	return NULL;
}

static void pointer_info(void **state)
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

	(void)state;
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

	/* The list: only with all three; who has it mapped, and nobody else. */
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

static void locked(void **state)
{
	char *p = aligned_alloc(4096, 16384), *pool = memory(true, 8192);
	hsa_amd_pointer_info_t info;
	void *at = &at;

	(void)state;
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

/* ---- copies ---- */

static void copies(void **state)
{
	hsa_signal_t done = signal_of(1), first = signal_of(1), second = signal_of(2);
	const hsa_signal_t both[] = { first, second }, bad[] = { first, { .handle = 3 } };
	char *from = memory(true, 70000), *to = memory(false, 70000), local[300];
	hsa_agent_t owner = gpus ? gpu : cpu;

	(void)state;
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
static void copy_of_what_went(void **state)
{
	hsa_signal_t done = signal_of(9), go = signal_of(1);
	char *from = memory(true, 4096), local[16];

	(void)state;
	if (!gpus)
		skip();
	FINE(hsa_amd_memory_async_copy(local, cpu, from, gpu, 16, 1, &go, done));
	FINE(hsa_amd_memory_pool_free(from));
	hsa_signal_store_screlease(go, 0);
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 9, UINT64_MAX, BLOCKED), -1);
	/* And the next one does not. */
	from = memory(true, 4096);
	hsa_signal_store_relaxed(done, 1);
	FINE(hsa_amd_memory_async_copy(local, cpu, from, gpu, 16, 0, NULL, done));
	assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_NE, 1, UINT64_MAX, BLOCKED), 0);
	FINE(hsa_amd_memory_pool_free(from));
	FINE(hsa_signal_destroy(done));
	FINE(hsa_signal_destroy(go));
}

/* A hundred copies, each after the one before, in no order of their calls; the first signal may go meanwhile. */
static void chain(void **state)
{
	hsa_signal_t steps[101], done;
	char bytes[101] = { 1 };

	(void)state;
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

/* The last hsa_shut_down does not wait for what never comes, and HSA starts anew. */
static void shut_down_with_copies(void **state)
{
	char a[2] = { 1, 1 }, b[2] = { 2, 2 };
	hsa_signal_t never, done;
	hsa_amd_ipc_signal_t handle;

	(void)state;
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

/* ---- other processes ---- */

static void signals_elsewhere(void **state)
{
	struct message m = { .length = 0 };
	struct child c = start("signal");
	hsa_signal_t s, same, plain = signal_of(0);

	(void)state;
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
	assert_int_equal(end(&c), 0);
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(&m.signal, &s));
	FINE(hsa_signal_destroy(plain));
}

/* One that waits can be killed, and the others go on. */
static void killed_waiter(void **state)
{
	struct message m = { .length = 0 };
	struct child c = start("waits");
	hsa_signal_t s;

	(void)state;
	FINE(hsa_amd_signal_create(0, 0, NULL, HSA_AMD_SIGNAL_IPC, &s));
	FINE(hsa_amd_ipc_signal_create(s, &m.signal));
	tell(c.fd, &m, sizeof(m));
	hear(c.fd, &m, sizeof(m));
	usleep(20000);
	kill_it(&c);
	hsa_signal_store_relaxed(s, 1);
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_NE, 1, MS, BLOCKED), 1);
	FINE(hsa_signal_destroy(s));
}

static void share(bool of_gpu)
{
	struct message m = { .length = 70000 };
	struct child c = start("memory");
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
	assert_int_equal(end(&c), 0);
}

static void memory_elsewhere(void **state)
{
	(void)state;
	share(false);
	if (gpus)
		share(true);
}

/* What a process had is there for as long as somebody has it open, and opens no more. */
static void dead_exporter(void **state)
{
	struct child c = start("exporter");
	struct message m;
	hsa_signal_t s, none;
	void *nothing_there;
	char *p;

	(void)state;
	hear(c.fd, &m, sizeof(m));
	FINE(hsa_amd_ipc_signal_attach(&m.signal, &s));
	FINE(hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, (void **)&p));
	assert_int_equal(hsa_signal_load_relaxed(s), 3);
	assert_int_equal(p[4999], 9);
	kill_it(&c);
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

/* Any bit of a handle wrong, and handles that name files of other kinds: nothing opens, nothing hangs. */
static void wrong_handles(void **state)
{
	struct child c = start("exporter");
	hsa_amd_ipc_memory_t wrong;
	struct message m;
	hsa_signal_t s;
	int fds[2];
	void *p;

	(void)state;
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
	/* A pipe, which would block whoever opens it. */
	assert_int_equal(pipe(fds), 0);
	wrong = m.signal;
	wrong.handle[1] = (uint32_t)getpid();
	wrong.handle[2] = (uint32_t)fds[0];
	IS(INVALID_ARGUMENT, hsa_amd_ipc_signal_attach(&wrong, &s));
	close(fds[0]);
	close(fds[1]);
	kill_it(&c);
}

static void first_names(void **state)
{
	struct message m = { .length = 5000 };
	struct child c = start("first names");
	hsa_amd_memory_pool_t pool;
	hsa_signal_t s, plain = signal_of(0);
	hsa_agent_t owner;
	uint32_t allocated = 9;
	size_t size = 0;
	char *p = memory(true, m.length);

	(void)state;
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
	assert_int_equal(end(&c), 0);

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
static void killed_importers(void **state)
{
	struct message m = { .length = MIB };
	char *p = memory(true, m.length);

	(void)state;
	FINE(hsa_amd_ipc_memory_create(p, m.length, &m.memory));
	for (int i = 0; i < 5; i++) {
		struct child c = start("copies");
		struct message answer;

		tell(c.fd, &m, sizeof(m));
		hear(c.fd, &answer, sizeof(answer));
		usleep((useconds_t)(i * 3000));
		kill_it(&c);
	}
	memset(p, 7, m.length);
	assert_int_equal(p[m.length - 1], 7);
	FINE(hsa_amd_memory_pool_free(p));
}

/* ---- with a GPU ---- */

/* The CPU's pool is the driver's, so it is shown to nobody's children; HIP's managed memory is of it. */
static void managed(void **state)
{
	hipPointerAttribute_t attributes;
	hsa_amd_pointer_info_t info;
	unsigned char back[8];
	char *p = NULL, *host = NULL;
	void *pitched;
	size_t pitch;

	(void)state;
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

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up, down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uninitialized), T(signal_life), T(values), T(conditions), T(wakes), T(pools), T(pointer_info),
		T(locked), T(copies), T(copy_of_what_went), T(chain), T(shut_down_with_copies), T(signals_elsewhere),
		T(killed_waiter), T(memory_elsewhere), T(dead_exporter), T(wrong_handles), T(first_names),
		T(killed_importers), T(managed),
	};

	if (argc > 2 && !strcmp(argv[1], "--role"))
		return role(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
