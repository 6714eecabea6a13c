// SPDX-License-Identifier: MIT
/*
 * vmem.c - virtual memory management: reserved addresses, memory without an address, and mappings
 * of the one at the other.
 *
 * A mapping is in the table of memory.c, like an allocation. The CPU sees it as soon as an agent
 * has access. hsa_lock protects the lists here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hsa_int.h"
#include "uncancelled.h"
#include "window.h"

struct reservation {
	struct reservation *next;
	char *base;
	size_t size;
};

/* Memory without an address. It ends when it has neither a handle nor a mapping. */
struct hsa_phys {
	struct hsa_phys *next;
	uint64_t id;		/* the program's handle */
	int gpu;
	uint32_t handle;	/* the driver's */
	size_t size;
	hsa_amd_memory_type_t type;
	unsigned int retained, mapped;
};

static struct reservation *reservations;
static struct hsa_phys *all_phys;
/*
 * Mappings that are no longer in the table, but still in the driver, which waits for clients. When
 * HSA is shut down meanwhile, their memory ends, and `phys' becomes NULL.
 */
static struct hsa_memory *leaving;
static uint64_t last_id;

static bool whole_pages(uint64_t a, uint64_t b)
{
	return !((a | b) % SGU_PAGE);
}

/* ---- addresses ---- */

static struct reservation *reservation_of(const char *at, size_t size)
{
	struct reservation *r = reservations;

	while (r && (at < r->base || size > r->size || (size_t)(at - r->base) > r->size - size))
		r = r->next;
	return r;
}

bool hsa_is_reserved(const void *ptr)
{
	return reservation_of(ptr, 1);
}

/* Caller holds hsa_lock. */
static hsa_status_t reserve(void **va, size_t size, uint64_t address, uint64_t alignment)
{
	struct softgpu_va_reserve reserve = {
		.size = sizeof(reserve), .length = size, .hint = address,
		.align = alignment > SGU_PAGE ? alignment : 0,
	};
	struct reservation *r;
	int err;

	if (!hsa_ready())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!va || !size || !whole_pages(size, address) || alignment & (alignment - 1))
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	r = calloc(1, sizeof(*r));
	if (!r)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	err = sgu_call_any(SOFTGPU_VA_RESERVE, &reserve);
	if (err) {
		free(r);
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	}
	r->base = (char *)(uintptr_t)reserve.va;
	r->size = size;
	r->next = reservations;
	reservations = r;
	*va = r->base;
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_address_reserve_align(void **va, size_t size, uint64_t address,
							   uint64_t alignment, uint64_t flags)
{
	hsa_status_t status;

	(void)flags;
	pthread_mutex_lock(&hsa_lock);
	status = reserve(va, size, address, alignment);
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_address_reserve(void **va, size_t size, uint64_t address,
						     uint64_t flags)
{
	return hsa_amd_vmem_address_reserve_align(va, size, address, 0, flags);
}

/* Caller holds hsa_lock. */
static bool is_leaving(const struct reservation *r)
{
	const struct hsa_memory *m = leaving;

	while (m && (m->base < r->base || m->base >= r->base + r->size))
		m = m->next;
	return m;
}

static void release_addresses(struct reservation *r)
{
	struct softgpu_va release = { .size = sizeof(release), .va = (uintptr_t)r->base };

	sgu_call_any(SOFTGPU_VA_RELEASE, &release);
	free(r);
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_address_free(void *va, size_t size)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct reservation **at = &reservations, *r;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	while (*at && ((*at)->base != va || (*at)->size != size))
		at = &(*at)->next;
	r = *at;
	if (!r)
		goto out;
	status = (hsa_status_t)HSA_STATUS_ERROR_RESOURCE_FREE;
	if (hsa_mapping_in(r->base, r->size) || is_leaving(r))
		goto out;
	*at = r->next;
	release_addresses(r);
	status = HSA_STATUS_SUCCESS;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* ---- memory ---- */

static struct hsa_phys *phys_of(hsa_amd_vmem_alloc_handle_t handle)
{
	struct hsa_phys *p = all_phys;

	while (p && (p->id != handle.handle || !p->retained))
		p = p->next;
	return p;
}

static hsa_status_t add_phys(int gpu, uint32_t handle, size_t size, hsa_amd_memory_type_t type,
			     hsa_amd_vmem_alloc_handle_t *out)
{
	struct softgpu_handle release = { .size = sizeof(release), .handle = handle };
	struct hsa_phys *p = calloc(1, sizeof(*p));

	if (!p) {
		sgu_call(gpu, SOFTGPU_PHYS_RELEASE, &release);
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	}
	*p = (struct hsa_phys){ .next = all_phys, .id = ++last_id, .gpu = gpu, .handle = handle,
				.size = size, .type = type, .retained = 1 };
	all_phys = p;
	out->handle = p->id;
	return HSA_STATUS_SUCCESS;
}

/* Ends the memory if nothing refers to it. */
static void put_phys(struct hsa_phys *p)
{
	struct softgpu_handle release = { .size = sizeof(release), .handle = p->handle };
	struct hsa_phys **at = &all_phys;

	if (p->retained || p->mapped)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	sgu_call(p->gpu, SOFTGPU_PHYS_RELEASE, &release);
	free(p);
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size,
						   hsa_amd_memory_type_t type, uint64_t flags,
						   hsa_amd_vmem_alloc_handle_t *memory_handle)
{
	struct softgpu_phys_create create = { .size = sizeof(create), .length = size };
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	int gpu;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!memory_handle || !size || size % SGU_PAGE || flags ||
	    (type != MEMORY_TYPE_NONE && type != MEMORY_TYPE_PINNED))
		goto out;
	/* The CPU's pool cannot be mapped elsewhere. */
	status = (hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
	if (!hsa_pool_number(pool, &gpu) || gpu == HSA_CPU)
		goto out;
	status = hsa_status_of(sgu_call(gpu, SOFTGPU_PHYS_CREATE, &create));
	if (!status)
		status = add_phys(gpu, create.handle, size, type, memory_handle);
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t memory_handle)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_phys *p;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	p = phys_of(memory_handle);
	if (!p)
		goto out;
	p->retained--;
	put_phys(p);
	status = HSA_STATUS_SUCCESS;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_retain_alloc_handle(hsa_amd_vmem_alloc_handle_t *memory_handle,
							 void *addr)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	const struct hsa_memory *m;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!memory_handle || !addr)
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	m = hsa_memory_at(addr);
	if (!m || !m->phys)
		goto out;
	m->phys->retained++;
	memory_handle->handle = m->phys->id;
	status = HSA_STATUS_SUCCESS;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t
hsa_amd_vmem_get_alloc_properties_from_handle(hsa_amd_vmem_alloc_handle_t memory_handle,
					      hsa_amd_memory_pool_t *pool,
					      hsa_amd_memory_type_t *type)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	const struct hsa_phys *p;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!pool || !type)
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	p = phys_of(memory_handle);
	if (!p)
		goto out;
	*pool = hsa_pool_of(p->gpu);
	*type = p->type;
	status = HSA_STATUS_SUCCESS;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* ---- mappings ---- */

/* Caller holds hsa_lock. */
static hsa_status_t map(char *va, size_t size, struct hsa_phys *p)
{
	struct softgpu_map map = { .size = sizeof(map), .ctx = hsa_gpus[p->gpu].ctx,
				   .handle = p->handle, .va = (uintptr_t)va, .length = size };
	struct hsa_memory *m;
	int err;

	if (hsa_mapping_in(va, size))
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	m = calloc(1, sizeof(*m));
	if (!m)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	err = sgu_call(p->gpu, SOFTGPU_MAP, &map);
	if (err) {
		free(m);
		return hsa_status_of(err);
	}
	m->base = va;
	m->size = m->length = size;
	m->agent = m->gpu = p->gpu;
	m->ctx = hsa_gpus[p->gpu].ctx;
	m->fd = -1;
	m->phys = p;
	p->mapped++;
	hsa_memory_add(m);
	return HSA_STATUS_SUCCESS;
}

/* As in AMD's runtime, a mapping is of the whole memory. */
SGU_EXPORT hsa_status_t hsa_amd_vmem_map(void *va, size_t size, size_t in_offset,
					 hsa_amd_vmem_alloc_handle_t memory_handle, uint64_t flags)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_phys *p;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	p = phys_of(memory_handle);
	if (!p || !reservation_of(va, size))
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!whole_pages((uintptr_t)va, size) || in_offset || flags || size != p->size)
		goto out;
	status = map(va, size, p);
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* Caller holds hsa_lock. The mapping that is exactly this range. */
static struct hsa_memory *mapping_of(const void *va, size_t size)
{
	struct hsa_memory *m = hsa_memory_at(va);

	return m && m->phys && m->base == va && m->size == size ? m : NULL;
}

/* Caller holds hsa_lock. */
static void left(struct hsa_memory *m)
{
	struct hsa_memory **at = &leaving;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	if (m->phys) {
		m->phys->mapped--;
		put_phys(m->phys);
	}
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_unmap(void *va, size_t size)
{
	struct softgpu_va_range unmap = {
		.size = sizeof(unmap), .va = (uintptr_t)va, .length = size,
	};
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_memory *m = NULL;

	pthread_mutex_lock(&hsa_lock);
	if (hsa_ready()) {
		do {
			m = mapping_of(va, size);
		} while (m && !hsa_memory_drop(m));
		status = m ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
	}
	if (m) {
		m->next = leaving;
		leaving = m;
	}
	pthread_mutex_unlock(&hsa_lock);
	if (!m)
		return status;
	/* Without hsa_lock, because the driver waits until no client has the memory pinned. */
	status = hsa_status_of(sgu_call(m->gpu, SOFTGPU_UNMAP, &unmap));
	pthread_mutex_lock(&hsa_lock);
	left(m);
	pthread_mutex_unlock(&hsa_lock);
	free(m);
	return status;
}

static uint8_t *access_of(struct hsa_memory *m, int agent)
{
	return &m->access[agent == HSA_CPU ? SOFTGPU_MAX_GPUS : agent];
}

/* Caller holds hsa_lock. Sets the access of copies, and shows the memory to the CPU. */
static hsa_status_t apply_access(struct hsa_memory *m)
{
	struct softgpu_va_range range = {
		.size = sizeof(range), .va = (uintptr_t)m->base, .length = m->size,
	};
	uint32_t any = 0;
	int err;

	m->mapped = 0;
	for (int i = 0; i <= SOFTGPU_MAX_GPUS; i++) {
		any |= m->access[i];
		if (i < SOFTGPU_MAX_GPUS && m->access[i])
			m->mapped |= 1u << i;
	}
	range.access = any == HSA_ACCESS_PERMISSION_RO ? 1 : any ? 3 : 0;
	err = sgu_call(m->gpu, SOFTGPU_ACCESS, &range);
	if (!err && any && !m->shown) {
		err = hsa_memory_show(m);
		m->shown = !err;
	}
	return hsa_status_of(err);
}

/* Caller holds hsa_lock. After an error, the mapping has the access of before. */
static hsa_status_t change_access(struct hsa_memory *m, const hsa_amd_memory_access_desc_t *desc,
				  size_t count)
{
	uint8_t before[sizeof(m->access)];
	hsa_status_t status;
	int agent;

	memcpy(before, m->access, sizeof(before));
	for (size_t i = 0; i < count; i++) {
		hsa_agent_number(desc[i].agent_handle, &agent);
		*access_of(m, agent) = (uint8_t)desc[i].permissions;
	}
	status = apply_access(m);
	if (status) {
		memcpy(m->access, before, sizeof(before));
		apply_access(m);
	}
	return status;
}

static bool permission_ok(hsa_access_permission_t permission)
{
	return permission == HSA_ACCESS_PERMISSION_NONE ||
	       permission == HSA_ACCESS_PERMISSION_RO || permission == HSA_ACCESS_PERMISSION_RW;
}

/* Caller holds hsa_lock. */
static hsa_status_t check_access(const char *va, size_t size,
				 const hsa_amd_memory_access_desc_t *desc, size_t count)
{
	const struct hsa_memory *m;
	int agent;

	for (size_t i = 0; i < count; i++) {
		if (!hsa_agent_number(desc[i].agent_handle, &agent))
			return HSA_STATUS_ERROR_INVALID_AGENT;
		if (!permission_ok(desc[i].permissions))
			return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	}
	for (size_t done = 0; done < size; done += m->size) {
		m = hsa_memory_at(va + done);
		if (!m || !m->phys || m->base != va + done || m->size > size - done)
			return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	}
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_set_access(void *va, size_t size,
						const hsa_amd_memory_access_desc_t *desc,
						size_t desc_cnt)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_memory *m;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!va || !size || !desc || !desc_cnt)
		goto out;
	status = check_access(va, size, desc, desc_cnt);
	for (size_t done = 0; done < size && !status; done += m->size) {
		m = hsa_memory_at((char *)va + done);
		status = change_access(m, desc, desc_cnt);
	}
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_get_access(void *va, hsa_access_permission_t *perms,
						hsa_agent_t agent_handle)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_memory *m;
	int agent;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!va || !perms)
		goto out;
	status = HSA_STATUS_ERROR_INVALID_AGENT;
	if (!hsa_agent_number(agent_handle, &agent))
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	m = hsa_memory_at(va);
	if (!m || !m->phys)
		goto out;
	*perms = (hsa_access_permission_t)*access_of(m, agent);
	status = HSA_STATUS_SUCCESS;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* ---- other processes: a descriptor is a sealed memfd with the driver's key ---- */

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static const char magic[16] = "softgpu vmem  1";

struct content {
	char magic[sizeof(magic)];
	uint32_t gpu, type;	/* the N of /dev/softgpuN */
	uint64_t id, key[2];
};

static int write_content(const struct content *content)
{
	SGU_UNCANCELLED;
	int fd = memfd_create("softgpu-vmem", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (write(fd, content, sizeof(*content)) == sizeof(*content) &&
	    !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	close(fd);
	return -1;
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_export_shareable_handle(int *dmabuf_fd,
							     hsa_amd_vmem_alloc_handle_t handle,
							     uint64_t flags)
{
	struct softgpu_phys_export export = { .size = sizeof(export) };
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct content content;
	const struct hsa_phys *p;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!dmabuf_fd || flags)
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	p = phys_of(handle);
	if (!p)
		goto out;
	export.handle = p->handle;
	status = hsa_status_of(sgu_call(p->gpu, SOFTGPU_PHYS_EXPORT, &export));
	if (status)
		goto out;
	memset(&content, 0, sizeof(content));
	memcpy(content.magic, magic, sizeof(magic));
	content.gpu = hsa_gpus[p->gpu].info.index;
	content.type = p->type;
	content.id = export.id;
	memcpy(content.key, export.key, sizeof(content.key));
	*dmabuf_fd = write_content(&content);
	if (*dmabuf_fd < 0)
		status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* The content of a file with all seals can no longer change. */
static bool read_content(int fd, struct content *content)
{
	SGU_UNCANCELLED;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS &&
	       pread(fd, content, sizeof(*content), 0) == sizeof(*content) &&
	       !memcmp(content->magic, magic, sizeof(magic));
}

SGU_EXPORT hsa_status_t hsa_amd_vmem_import_shareable_handle(int dmabuf_fd,
							     hsa_amd_vmem_alloc_handle_t *handle)
{
	struct softgpu_phys_import import = { .size = sizeof(import) };
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct content content;
	int gpu;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!handle || !read_content(dmabuf_fd, &content))
		goto out;
	gpu = sgu_gpu_of_index(content.gpu);
	if (gpu < 0 || !hsa_gpus[gpu].has_pool)
		goto out;
	import.id = content.id;
	memcpy(import.key, content.key, sizeof(import.key));
	if (sgu_call(gpu, SOFTGPU_PHYS_IMPORT, &import))
		goto out;
	status = add_phys(gpu, import.handle, import.length,
			  content.type ? MEMORY_TYPE_PINNED : MEMORY_TYPE_NONE, handle);
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* The contexts' end has unmapped the memory. */
void hsa_vmem_end(void)
{
	for (struct hsa_memory *m = leaving; m; m = m->next)
		m->phys = NULL;
	while (all_phys) {
		all_phys->retained = all_phys->mapped = 0;
		put_phys(all_phys);
	}
	while (reservations) {
		struct reservation *r = reservations;

		reservations = r->next;
		release_addresses(r);
	}
}
