// SPDX-License-Identifier: MIT
/* fake_hsa.c - see fake_hsa.h. */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_hsa.h"

enum { INVALID_ARGUMENT = 0x1001 };
enum { SIGNALS = 64 };

struct handle {
	uint64_t handle;
};

struct bytes {
	uint32_t words[8];
};

struct fake_hsa fake_hsa;

static int64_t *values;
static _Atomic unsigned int *used;

void fake_hsa_share(void)
{
	values = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	used = (_Atomic unsigned int *)(void *)&values[SIGNALS];
}

static int64_t *at(struct handle signal)
{
	if (fake_hsa.looking)
		fake_hsa.looking();
	return (int64_t *)(uintptr_t)signal.handle;
}

int hsa_amd_pointer_info(const void *ptr, void *info, void *alloc, uint32_t *n, void *agents);
int hsa_amd_pointer_info(const void *ptr, void *info, void *alloc, uint32_t *n, void *agents)
{
	return INVALID_ARGUMENT;
}

int hsa_agent_get_info(struct handle agent, int attribute, void *value);
int hsa_agent_get_info(struct handle agent, int attribute, void *value)
{
	return INVALID_ARGUMENT;
}

int hsa_amd_ipc_memory_create(void *ptr, size_t length, struct bytes *handle);
int hsa_amd_ipc_memory_create(void *ptr, size_t length, struct bytes *handle)
{
	return INVALID_ARGUMENT;
}

int hsa_amd_ipc_memory_attach(const struct bytes *handle, size_t length, uint32_t n, const struct handle *agents, void **ptr);
int hsa_amd_ipc_memory_attach(const struct bytes *handle, size_t length, uint32_t n, const struct handle *agents, void **ptr)
{
	return INVALID_ARGUMENT;
}

int hsa_amd_ipc_memory_detach(void *ptr);
int hsa_amd_ipc_memory_detach(void *ptr)
{
	return INVALID_ARGUMENT;
}

int hsa_memory_copy(void *to, const void *from, size_t length);
int hsa_memory_copy(void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
	return 0;
}

int hsa_amd_signal_create(int64_t value, uint32_t n, const struct handle *consumers, uint64_t attributes, struct handle *signal);
int hsa_amd_signal_create(int64_t value, uint32_t n, const struct handle *consumers, uint64_t attributes, struct handle *signal)
{
	int error = fake_hsa.creating ? fake_hsa.creating() : 0;
	int64_t *made = &values[(*used)++ % SIGNALS];

	if (error || n || attributes != 2)
		return error ? error : INVALID_ARGUMENT;
	*made = value;
	signal->handle = (uintptr_t)made;
	return 0;
}

int hsa_amd_ipc_signal_create(struct handle signal, struct bytes *handle);
int hsa_amd_ipc_signal_create(struct handle signal, struct bytes *handle)
{
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &signal, sizeof(signal));
	return 0;
}

int hsa_amd_ipc_signal_attach(const struct bytes *handle, struct handle *signal);
int hsa_amd_ipc_signal_attach(const struct bytes *handle, struct handle *signal)
{
	int error = fake_hsa.attaching ? fake_hsa.attaching() : 0;

	if (error)
		return error;
	memcpy(signal, handle, sizeof(*signal));
	fake_hsa.attached++;
	return 0;
}

int hsa_signal_destroy(struct handle signal);
int hsa_signal_destroy(struct handle signal)
{
	if (fake_hsa.destroying)
		fake_hsa.destroying();
	fake_hsa.attached--;
	return 0;
}

int64_t hsa_signal_load_scacquire(struct handle signal);
int64_t hsa_signal_load_scacquire(struct handle signal)
{
	return __atomic_load_n(at(signal), __ATOMIC_ACQUIRE);
}

void hsa_signal_store_screlease(struct handle signal, int64_t value);
void hsa_signal_store_screlease(struct handle signal, int64_t value)
{
	__atomic_store_n(at(signal), value, __ATOMIC_RELEASE);
}

void hsa_signal_add_screlease(struct handle signal, int64_t value);
void hsa_signal_add_screlease(struct handle signal, int64_t value)
{
	__atomic_fetch_add(at(signal), value, __ATOMIC_RELEASE);
}
