// SPDX-License-Identifier: MIT
/* hsa_roles.c - what the second process does. */
#include "hsa_test.h"

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
	const hsa_agent_t no_agent = { .handle = 1 };
	unsigned char byte = 0;
	struct message m;
	char *p, *again;
	void *none;

	hear(fd, &m, sizeof(m));
	HOLDS(hsa_amd_ipc_memory_attach(&m.memory, m.length + 1, 0, NULL, &none) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(hsa_amd_ipc_memory_attach(&m.memory, m.length - 1, 0, NULL, &none) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	HOLDS(hsa_amd_ipc_memory_attach(&m.memory, m.length, 1, &no_agent, &none) == HSA_STATUS_ERROR_INVALID_AGENT);
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
	/* Not the one for the other, nor another process's to close, nor a bit wrong. */
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

int role(const char *name)
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
