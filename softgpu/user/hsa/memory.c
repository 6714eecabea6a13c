// SPDX-License-Identifier: MIT
/*
 * memory.c - memory of pools, and what a pointer is.
 *
 * A GPU's memory is mapped for the CPU where it stands.  It is unmapped before it is
 * freed, so what is freed elsewhere meanwhile never finds this in its place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hsa_int.h"

struct memory {
	struct memory *next;
	char *base;
	size_t length;		/* whole pages */
	int agent;		/* -1: the CPU */
	void *userdata;
};

static struct memory *all;

static struct memory *find(const void *ptr)
{
	struct memory *m = all;

	while (m && ((const char *)ptr < m->base || (const char *)ptr >= m->base + m->length))
		m = m->next;
	return m;
}

/* Nobody touches these addresses, and no new mapping gets them, until the driver gives them out again. */
static void hide(struct memory *m)
{
	if (m->agent < 0)
		munmap(m->base, m->length);
	else if (sgu_reserve(m->base, m->length, MAP_FIXED) != MAP_FAILED)
		madvise(m->base, m->length, MADV_DONTFORK);
}

static int alloc_device(struct memory *m, size_t length)
{
	struct softgpu_mem_alloc alloc = { .size = sizeof(alloc), .ctx = hsa_gpus[m->agent].ctx, .length = length };
	struct softgpu_set_attr attr = { .size = sizeof(attr), .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .value = 1 };
	struct softgpu_va va = { .size = sizeof(va), .flags = SOFTGPU_FREE_VISIBLE };
	int err = sgu_call(m->agent, SOFTGPU_MEM_ALLOC, &alloc);

	if (err)
		return err == -EINVAL ? -ENOSPC : err;
	m->base = (char *)(uintptr_t)alloc.va;
	/* What a call here has done, devices see. */
	attr.va = alloc.va;
	err = sgu_call(m->agent, SOFTGPU_SET_ATTR, &attr);
	if (!err)
		err = sgu_show(m->agent, m->base, length);
	if (err) {
		va.va = alloc.va;
		sgu_call(m->agent, SOFTGPU_MEM_FREE, &va);
	}
	return err;
}

static int alloc_host(struct memory *m, size_t length)
{
	m->base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return m->base == MAP_FAILED ? -ENOMEM : 0;
}

SGU_EXPORT hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
						     void **ptr)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	size_t length = (size + HSA_PAGE - 1) & ~(HSA_PAGE - 1);
	struct memory *m = calloc(1, sizeof(*m));
	int err;

	(void)flags;
	if (!m)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!size || !ptr || !hsa_pool_number(pool, &m->agent))
		goto out;
	status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	if (length < size)
		goto out;
	err = m->agent < 0 ? alloc_host(m, length) : alloc_device(m, length);
	status = hsa_status_of(err);
	if (err)
		goto out;
	m->length = length;
	m->next = all;
	all = m;
	*ptr = m->base;
	m = NULL;
out:
	pthread_mutex_unlock(&hsa_lock);
	free(m);
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_memory_pool_free(void *ptr)
{
	struct softgpu_va va = { .size = sizeof(va), .flags = SOFTGPU_FREE_VISIBLE, .va = (uintptr_t)ptr };
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct memory **at = &all, *m = NULL;

	if (!ptr)
		return HSA_STATUS_SUCCESS;
	pthread_mutex_lock(&hsa_lock);
	if (hsa_ready()) {
		while (*at && (*at)->base != ptr)
			at = &(*at)->next;
		m = *at;
		status = m ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
	}
	if (m) {
		*at = m->next;
		hide(m);
	}
	pthread_mutex_unlock(&hsa_lock);
	/* It waits for who has the memory pinned: others may go on. */
	if (m && m->agent >= 0)
		status = hsa_status_of(sgu_call(m->agent, SOFTGPU_MEM_FREE, &va));
	free(m);
	return status;
}

/* The driver frees it with its contexts, which comes next. */
void hsa_memory_end(void)
{
	while (all) {
		struct memory *m = all;

		all = m->next;
		hide(m);
		free(m);
	}
}

SGU_EXPORT hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t *agents,
						    const uint32_t *flags, const void *ptr)
{
	hsa_status_t status = HSA_STATUS_SUCCESS;
	int number;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	else if (!num_agents || !agents || flags || !find(ptr))
		status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	for (uint32_t i = 0; i < num_agents && !status; i++) {
		if (!hsa_agent_number(agents[i], &number))
			status = HSA_STATUS_ERROR_INVALID_AGENT;
	}
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* ---- what a pointer is ---- */

/* Every agent reaches everything; the array is made by the program's own function. */
static hsa_status_t list_agents(void *(*alloc)(size_t), uint32_t *n, hsa_agent_t **agents)
{
	uint32_t count = (uint32_t)hsa_gpu_count + 1;

	if (!n || !agents)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	*agents = alloc(count * sizeof(**agents));
	if (!*agents)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	for (uint32_t i = 0; i < count; i++)
		(*agents)[i] = hsa_agent_of((int)i - 1);
	*n = count;
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info, void *(*alloc)(size_t),
					     uint32_t *num_agents_accessible, hsa_agent_t **accessible)
{
	hsa_amd_pointer_info_t told = { .size = sizeof(told) };
	const struct memory *m;
	bool ready;

	if (!info || !info->size)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&hsa_lock);
	ready = hsa_ready();
	m = ready ? find(ptr) : NULL;
	if (m) {
		told.type = HSA_EXT_POINTER_TYPE_HSA;
		told.agentBaseAddress = m->base;
		told.hostBaseAddress = m->agent < 0 ? m->base : NULL;
		told.sizeInBytes = m->length;
		told.userData = m->userdata;
		told.agentOwner = hsa_agent_of(m->agent);
		told.global_flags = m->agent < 0 ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED :
			HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
	}
	pthread_mutex_unlock(&hsa_lock);
	if (!ready)
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	/* The caller's struct may be an older, shorter one. */
	if (info->size < told.size)
		told.size = info->size;
	memcpy(info, &told, told.size);
	return alloc && told.type ? list_agents(alloc, num_agents_accessible, accessible) : HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_pointer_info_set_userdata(const void *ptr, void *userdata)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct memory *m;

	pthread_mutex_lock(&hsa_lock);
	if (hsa_ready()) {
		m = find(ptr);
		status = m ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
		if (m)
			m->userdata = userdata;
	}
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* ---- copies ---- */

/* The GPU, and its context, that the first one of these is on; false: none is on any. */
static bool gpu_of(const void *a, const void *b, int *gpu, uint32_t *ctx)
{
	const struct memory *m;

	pthread_mutex_lock(&hsa_lock);
	m = hsa_ready() ? find(a) : NULL;
	if (!m || m->agent < 0)
		m = hsa_ready() && b ? find(b) : NULL;
	*gpu = m ? m->agent : -1;
	*ctx = *gpu >= 0 ? hsa_gpus[*gpu].ctx : 0;
	pthread_mutex_unlock(&hsa_lock);
	return *gpu >= 0;
}

SGU_EXPORT hsa_status_t hsa_memory_copy(void *dst, const void *src, size_t size)
{
	struct softgpu_copy copy = {
		.size = sizeof(copy), .flags = SOFTGPU_OP_SYNC, .dst = (uintptr_t)dst, .src = (uintptr_t)src,
		.width = size, .height = 1,
	};
	int gpu;

	if (!dst || !src)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!size)
		return HSA_STATUS_SUCCESS;
	if (gpu_of(dst, src, &gpu, &copy.ctx))
		return hsa_status_of(sgu_call(gpu, SOFTGPU_COPY, &copy));
	memcpy(dst, src, size);
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_memory_fill(void *ptr, uint32_t value, size_t count)
{
	struct softgpu_fill fill = {
		.size = sizeof(fill), .flags = SOFTGPU_OP_SYNC, .dst = (uintptr_t)ptr, .width = count, .height = 1,
		.value = value, .elem = sizeof(value),
	};
	int gpu;

	if (!ptr || (uintptr_t)ptr % sizeof(value))
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!count)
		return HSA_STATUS_SUCCESS;
	if (gpu_of(ptr, NULL, &gpu, &fill.ctx))
		return hsa_status_of(sgu_call(gpu, SOFTGPU_FILL, &fill));
	for (size_t i = 0; i < count; i++)
		((uint32_t *)ptr)[i] = value;
	return HSA_STATUS_SUCCESS;
}

/* ---- dma-bufs ---- */

SGU_EXPORT hsa_status_t hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *dmabuf, uint64_t *offset)
{
	struct softgpu_dmabuf export = { .size = sizeof(export) };
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	const struct memory *m;

	if (!ptr || !size || !dmabuf || !offset)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	m = find(ptr);
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	if (!m || size > m->length - (size_t)((const char *)ptr - m->base))
		goto out;
	status = HSA_STATUS_ERROR_INVALID_AGENT;
	if (m->agent < 0)
		goto out;
	export.va = (uintptr_t)m->base;
	export.length = m->length;
	status = hsa_status_of(sgu_call(m->agent, SOFTGPU_DMABUF, &export));
	if (!status) {
		*dmabuf = export.fd;
		*offset = (uint64_t)((const char *)ptr - m->base);
	}
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf)
{
	return close(dmabuf) ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_SUCCESS;
}
