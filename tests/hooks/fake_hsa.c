// SPDX-License-Identifier: MIT
/*
 * fake_hsa.c - a stand-in for AMD's HSA runtime: as much of it as shows whether calls
 * get through, and what is told of them.  Its memory is the host's.
 */
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 0x1001 };

struct handle {
	uint64_t handle;
};

struct pointer_info {
	uint32_t size, type;
	void *agent_base, *host_base;
	size_t length;
};

/* One allocation at a time is enough. */
static char *base;
static size_t length;

/* Of the host's, known to a GPU at another address. */
#define LOCKED_HOST	0x200000UL
#define LOCKED_GPU	0x900000UL
#define LOCKED_LENGTH	0x3000UL

static int get(size_t size, void **p)
{
	if (base || !size)
		return INVALID_ARGUMENT;
	base = malloc(size);
	length = size;
	*p = base;
	return SUCCESS;
}

static int end(void *p)
{
	if (!p || p != base)
		return INVALID_ARGUMENT;
	free(base);
	base = NULL;
	return SUCCESS;
}

EXPORT int hsa_memory_allocate(struct handle region, size_t size, void **p)
{
	return region.handle == 7 ? get(size, p) : INVALID_ARGUMENT;
}

EXPORT int hsa_amd_memory_pool_allocate(struct handle pool, size_t size, uint32_t flags, void **p)
{
	return pool.handle == 8 && !flags ? get(size, p) : INVALID_ARGUMENT;
}

EXPORT int hsa_amd_ipc_memory_attach(const uint32_t *handle, size_t size, uint32_t n, const struct handle *agents, void **p)
{
	return *handle == 9 && n == 1 && agents->handle == 6 ? get(size, p) : INVALID_ARGUMENT;
}

EXPORT int hsa_memory_free(void *p)
{
	return end(p);
}

EXPORT int hsa_amd_memory_pool_free(void *p)
{
	return end(p);
}

EXPORT int hsa_amd_ipc_memory_detach(void *p)
{
	return end(p);
}

EXPORT int hsa_amd_vmem_map(void *p, size_t size, size_t offset, struct handle memory, uint64_t flags)
{
	return p && size && !offset && memory.handle == 10 && !flags ? SUCCESS : INVALID_ARGUMENT;
}

EXPORT int hsa_amd_vmem_unmap(void *p, size_t size)
{
	return p && size ? SUCCESS : INVALID_ARGUMENT;
}

EXPORT int hsa_amd_memory_unlock(void *p)
{
	return (uintptr_t)p - LOCKED_HOST < LOCKED_LENGTH ? SUCCESS : INVALID_ARGUMENT;
}

EXPORT int hsa_shut_down(void)
{
	return SUCCESS;
}

EXPORT int hsa_amd_pointer_info(const void *p, struct pointer_info *info, void *(*alloc)(size_t), uint32_t *n, void **agents)
{
	const char *at = p;

	if (info->size < sizeof(*info) || alloc || n || agents)
		return INVALID_ARGUMENT;
	*info = (struct pointer_info){ .size = sizeof(*info) };
	if ((uintptr_t)p - LOCKED_HOST < LOCKED_LENGTH) {
		info->type = 2;
		info->agent_base = (void *)LOCKED_GPU;
		info->host_base = (void *)LOCKED_HOST;
		info->length = LOCKED_LENGTH;
	} else if (base && at >= base && at < base + length) {
		info->type = 1;
		info->agent_base = base;
		info->length = length;
	}
	return SUCCESS;
}
