// SPDX-License-Identifier: MIT
/*
 * memory.c - memory of pools.
 *
 * A GPU's memory is mapped for the CPU at its own address. So is the CPU's pool, which is memory of
 * the driver, too. Memory is unmapped before it is freed, so no memory that the driver allocates at
 * the address later is unmapped by mistake. Without a driver, the CPU's pool consists of memfds,
 * which other processes can map.
 *
 * The table is changed under hsa_lock and table_lock together, so a thread that holds either may
 * read it. A copy takes only table_lock, and not while it copies: hsa_shut_down() holds hsa_lock
 * and waits for copies. A copy holds its allocations, and a thread that ends an allocation waits
 * until no copy holds it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"
#include "hook.h"
#include "hsa_int.h"
#include "softgpu_hsa.h"
#include "uncancelled.h"

#define ALLOC_FLAGS (HSA_AMD_MEMORY_POOL_PCIE_FLAG | HSA_AMD_MEMORY_POOL_CONTIGUOUS_FLAG | \
		     HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG | HSA_AMD_MEMORY_POOL_UNCACHED_FLAG)

/*
 * Like SGU_HOOKED, for functions that return an HSA status. Interposers patch these two functions.
 */
#define HSA_HOOKED(name, ...)							\
	__attribute__((visibility("hidden"))) hsa_status_t hooked_##name(__VA_ARGS__);	\
	SGU_STUB(name, name);							\
	__attribute__((used)) hsa_status_t hooked_##name(__VA_ARGS__)

static struct hsa_memory *all;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
/* signalled when no copy holds an allocation any more */
static pthread_cond_t let_go = PTHREAD_COND_INITIALIZER;
static uint64_t last_id;	/* addresses are reused, ids are not */

struct hsa_memory *hsa_memory_at(const void *ptr)
{
	struct hsa_memory *m = all;

	while (m &&
	       ((const char *)ptr < m->base || (size_t)((const char *)ptr - m->base) >= m->size))
		m = m->next;
	return m;
}

bool hsa_memory_covers(const void *ptr, size_t size)
{
	const struct hsa_memory *m = hsa_memory_at(ptr);
	const char *at = ptr;
	size_t left;

	if (!m)
		return true;
	/* Mappings side by side are one range to programs. */
	for (; m; m = m->phys ? hsa_memory_at(at) : NULL) {
		left = m->size - (size_t)(at - m->base);
		if (size <= left)
			return true;
		size -= left;
		at += left;
	}
	return false;
}

bool hsa_mapping_in(const char *base, size_t size)
{
	const struct hsa_memory *m = all;

	while (m && (m->base >= base + size || base >= m->base + m->length))
		m = m->next;
	return m;
}

struct hsa_memory *hsa_memory_attached(const uint64_t key[2])
{
	struct hsa_memory *m = all;

	while (m && (!m->attached || m->fd < 0 || memcmp(m->key, key, sizeof(m->key))))
		m = m->next;
	return m;
}

void hsa_memory_add(struct hsa_memory *m)
{
	pthread_mutex_lock(&table_lock);
	m->id = ++last_id;
	m->next = all;
	all = m;
	pthread_mutex_unlock(&table_lock);
}

bool hsa_memory_hold(const void *ptr, uint64_t id, struct hsa_memory **held)
{
	struct hsa_memory *m;
	bool same;

	pthread_mutex_lock(&table_lock);
	m = hsa_memory_at(ptr);
	same = (m ? m->id : 0) == id;
	if (m && same)
		m->copies++;
	pthread_mutex_unlock(&table_lock);
	*held = same ? m : NULL;
	return same;
}

void hsa_memory_let_go(struct hsa_memory *held)
{
	if (!held)
		return;
	pthread_mutex_lock(&table_lock);
	if (!--held->copies)
		pthread_cond_broadcast(&let_go);
	pthread_mutex_unlock(&table_lock);
}

/*
 * Keeps the driver's addresses reserved, so that no other mapping gets them before the driver
 * reuses them.
 */
static void hide(struct hsa_memory *m)
{
	if (m->gpu < 0) {
		munmap(m->base, m->length);
		hsa_file_close(m->fd);
	} else {
		sgu_reserve(m->base, m->length, MAP_FIXED);
	}
}

bool hsa_memory_drop(struct hsa_memory *m)
{
	SGU_UNCANCELLED;
	struct hsa_memory **at = &all;

	pthread_mutex_lock(&table_lock);
	if (m->copies) {
		/*
		 * Release hsa_lock during the wait. Another thread may end the allocation
		 * meanwhile.
		 */
		pthread_mutex_unlock(&hsa_lock);
		pthread_cond_wait(&let_go, &table_lock);
		pthread_mutex_unlock(&table_lock);
		pthread_mutex_lock(&hsa_lock);
		return false;
	}
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	pthread_mutex_unlock(&table_lock);
	hide(m);
	return true;
}

int hsa_memory_show(const struct hsa_memory *m)
{
	struct softgpu_set_attr attr = {
		.size = sizeof(attr),
		.attr = SOFTGPU_ATTR_SYNC_MEMOPS,
		.va = (uintptr_t)m->base,
		.value = 1,
	};
	/* SYNC_MEMOPS makes the effects of finished calls visible to devices. */
	int err = sgu_call(m->gpu, SOFTGPU_SET_ATTR, &attr);

	return err ? err : sgu_show(m->gpu, m->base, m->length);
}

static int alloc_driver(struct hsa_memory *m)
{
	struct softgpu_mem_alloc alloc = { .size = sizeof(alloc),
					   .ctx = m->ctx,
					   .length = m->size };
	struct softgpu_va va = { .size = sizeof(va), .flags = SOFTGPU_FREE_VISIBLE };
	int err = sgu_call(m->gpu, SOFTGPU_MEM_ALLOC, &alloc);

	if (err)
		return err == -EINVAL ? -ENOSPC : err;
	m->base = (char *)(uintptr_t)alloc.va;
	err = hsa_memory_show(m);
	if (err) {
		va.va = alloc.va;
		sgu_call(m->gpu, SOFTGPU_MEM_FREE, &va);
	}
	return err;
}

static int alloc_file(struct hsa_memory *m)
{
	char name[HSA_FILE_NAME];
	int err = hsa_file_key(m->key);

	if (err)
		return err;
	hsa_file_name(name, "hsa-memory", m->key, (uint32_t)getpid());
	m->fd = hsa_file_make(name, m->size);
	if (m->fd < 0)
		return -ENOMEM;
	m->base = hsa_file_map(m->fd, m->length);
	if (m->base)
		return 0;
	hsa_file_close(m->fd);
	return -ENOMEM;
}

static int alloc(struct hsa_memory *m)
{
	m->fd = -1;
	m->gpu = m->agent;
	m->mapped = 0;
	if (m->agent != HSA_CPU) {
		m->ctx = hsa_gpus[m->agent].ctx;
		m->mapped = 1u << m->agent;
	} else if (hsa_system_ctx) {
		m->gpu = 0;
		m->ctx = hsa_system_ctx;
	}
	return m->gpu < 0 ? alloc_file(m) : alloc_driver(m);
}

HSA_HOOKED(hsa_amd_memory_pool_allocate, hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
	   void **ptr)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_memory *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!size || !ptr || flags & ~(uint32_t)ALLOC_FLAGS)
		goto out;
	status = (hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
	if (!hsa_pool_number(pool, &m->agent))
		goto out;
	m->size = size;
	m->flags = flags;
	m->length = (size + HSA_PAGE - 1) & ~(HSA_PAGE - 1);
	status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	if (size > hsa_pool_size(m->agent))
		goto out;
	err = alloc(m);
	status = hsa_status_of(err);
	if (err)
		goto out;
	hsa_memory_add(m);
	*ptr = m->base;
	m = NULL;
out:
	pthread_mutex_unlock(&hsa_lock);
	free(m);
	return status;
}

/* Caller holds hsa_lock. *m is NULL if there is nothing to free, or on an error. */
static hsa_status_t find_freeable(const void *ptr, struct hsa_memory **m)
{
	struct hsa_memory *there;

	*m = NULL;
	if (!hsa_ready())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!ptr)
		return HSA_STATUS_SUCCESS;
	there = hsa_memory_at(ptr);
	if (!there || there->base != ptr || there->ending || there->phys)
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	if (there->attached)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	*m = there;
	return HSA_STATUS_SUCCESS;
}

/*
 * Caller holds hsa_lock, which is released in between. Calls the notifiers while the memory is
 * still there. hsa_shut_down() may end the allocation meanwhile.
 */
static void notify(struct hsa_memory *m)
{
	struct hsa_notifier *notifiers = m->notifiers;
	size_t count = m->notifier_count;

	m->ending = true;
	m->notifiers = NULL;
	m->notifier_count = 0;
	if (!count)
		return;
	pthread_mutex_unlock(&hsa_lock);
	for (size_t i = 0; i < count; i++)
		notifiers[i].callback(notifiers[i].ptr, notifiers[i].user_data);
	free(notifiers);
	pthread_mutex_lock(&hsa_lock);
}

/* Caller holds hsa_lock. The allocation with this id, which begins at ptr. */
static struct hsa_memory *same_memory(const void *ptr, uint64_t id)
{
	struct hsa_memory *m = hsa_memory_at(ptr);

	return m && m->id == id ? m : NULL;
}

HSA_HOOKED(hsa_amd_memory_pool_free, void *ptr)
{
	struct softgpu_va va = { .size = sizeof(va),
				 .flags = SOFTGPU_FREE_VISIBLE,
				 .va = (uintptr_t)ptr };
	struct hsa_memory *m;
	hsa_status_t status;
	uint64_t id = 0;

	pthread_mutex_lock(&hsa_lock);
	status = find_freeable(ptr, &m);
	if (m) {
		id = m->id;
		notify(m);
	}
	do {
		m = id ? same_memory(ptr, id) : NULL;
	} while (m && !hsa_memory_drop(m));
	pthread_mutex_unlock(&hsa_lock);
	/* Without hsa_lock, because the driver waits until no client has the memory pinned. */
	if (m && m->gpu >= 0)
		status = hsa_status_of(sgu_call(m->gpu, SOFTGPU_MEM_FREE, &va));
	free(m);
	return status;
}

hsa_status_t hsa_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags, void **ptr)
{
	return hooked_hsa_amd_memory_pool_allocate(pool, size, flags, ptr);
}

hsa_status_t hsa_pool_free(void *ptr)
{
	return hooked_hsa_amd_memory_pool_free(ptr);
}

/* The driver frees the memory with its contexts, which the caller ends next. */
void hsa_memory_end(void)
{
	SGU_UNCANCELLED;
	struct hsa_memory *m;

	pthread_mutex_lock(&table_lock);
	while ((m = all)) {
		if (m->copies) {
			pthread_cond_wait(&let_go, &table_lock);
			continue;
		}
		all = m->next;
		hide(m);
		free(m->notifiers);
		free(m);
	}
	pthread_mutex_unlock(&table_lock);
}

SGU_EXPORT hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t *agents,
						    const uint32_t *flags, const void *ptr)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_memory *m;
	uint32_t mask;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!num_agents || !agents || flags || !ptr)
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	m = hsa_memory_at(ptr);
	if (!m || m->base != ptr || m->phys)
		goto out;
	status = hsa_agents_mask(num_agents, agents, &mask);
	/* Access to attached memory was set when it was attached. */
	if (!status && !m->attached)
		m->mapped = m->agent == HSA_CPU ? mask : mask | 1u << m->agent;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* ---- dma-bufs ---- */

/*
 * Caller holds hsa_lock. The allocation of a GPU that contains the range. `length' is its size in
 * whole pages.
 */
static hsa_status_t find_exportable(const void *ptr, size_t size, const struct hsa_memory **m)
{
	*m = NULL;
	if (!hsa_ready())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!ptr || !size)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	*m = hsa_memory_at(ptr);
	if (!*m || (*m)->attached ||
	    size > (*m)->length - (size_t)((const char *)ptr - (*m)->base))
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	return (*m)->agent == HSA_CPU ? HSA_STATUS_ERROR_INVALID_AGENT : HSA_STATUS_SUCCESS;
}

static hsa_status_t export_range(int gpu, const void *ptr, size_t size, int *dmabuf)
{
	struct softgpu_dmabuf export = {
		.size = sizeof(export), .va = (uintptr_t)ptr, .length = size,
	};
	hsa_status_t status = hsa_status_of(sgu_call(gpu, SOFTGPU_DMABUF, &export));

	if (!status)
		*dmabuf = export.fd;
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *dmabuf,
						       uint64_t *offset)
{
	const struct hsa_memory *m;
	hsa_status_t status;

	pthread_mutex_lock(&hsa_lock);
	status = find_exportable(ptr, size, &m);
	if (status != HSA_STATUS_ERROR_NOT_INITIALIZED && (!dmabuf || !offset))
		status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!status)
		status = export_range(m->agent, m->base, m->length, dmabuf);
	if (!status)
		*offset = (uint64_t)((const char *)ptr - m->base);
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t softgpu_hsa_export_range(const void *ptr, size_t size, int *dmabuf)
{
	const struct hsa_memory *m;
	hsa_status_t status;

	pthread_mutex_lock(&hsa_lock);
	status = find_exportable(ptr, size, &m);
	if (!status && ((uintptr_t)ptr | size) % HSA_PAGE)
		status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!status)
		status = export_range(m->agent, ptr, size, dmabuf);
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf)
{
	SGU_UNCANCELLED;

	return close(dmabuf) ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_SUCCESS;
}
