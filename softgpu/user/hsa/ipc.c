// SPDX-License-Identifier: MIT
/*
 * ipc.c - shares memory and signals with other processes.
 *
 * The driver's memory is opened by the driver's key, which becomes invalid when the allocation is
 * freed or its process ends. Signals, and memory without a driver, are memfds, which are found
 * through the process that has them open: file.h.
 */
#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#include "file.h"
#include "hsa_int.h"

enum { OF_DRIVER = 0x31475348, OF_FILE = 0x31465348, OF_SIGNAL = 0x31535348 };
enum { IN_SYSTEM = SOFTGPU_MAX_GPUS };

/* The content of a handle. */
struct handle {
	uint32_t kind;
	uint32_t where; /* the N of /dev/softgpuN; IN_SYSTEM: the CPU's pool; or a process */
	uint64_t id;		/* the driver's id, or a descriptor of that process */
	uint64_t key[2];
};

_Static_assert(sizeof(struct handle) == sizeof(hsa_amd_ipc_memory_t), "a handle's size");

static uint32_t mask_of(int agent)
{
	return agent == HSA_CPU ? 0 : 1u << agent;
}

/* ---- memory ---- */

static hsa_status_t export_driver(const struct hsa_memory *m, struct handle *h)
{
	struct softgpu_ipc_export export = {
		.size = sizeof(export), .flags = SOFTGPU_IPC_VISIBLE, .va = (uintptr_t)m->base,
	};

	if (sgu_call(m->gpu, SOFTGPU_IPC_EXPORT, &export))
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	h->kind = OF_DRIVER;
	h->where = m->agent == HSA_CPU ? IN_SYSTEM : hsa_gpus[m->agent].info.index;
	h->id = export.id;
	memcpy(h->key, export.key, sizeof(h->key));
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_ipc_memory_create(void *ptr, size_t len,
						  hsa_amd_ipc_memory_t *handle)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	const struct hsa_memory *m;
	struct handle h = { 0 };

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	m = hsa_memory_at(ptr);
	/* Memory of another process must be exported by that process. */
	if (!handle || !m || m->base != ptr || m->size != len || m->attached || m->phys)
		goto out;
	status = HSA_STATUS_SUCCESS;
	if (m->gpu >= 0) {
		status = export_driver(m, &h);
	} else {
		h = (struct handle){ .kind = OF_FILE,
				     .where = (uint32_t)getpid(),
				     .id = (uint32_t)m->fd };
		memcpy(h.key, m->key, sizeof(h.key));
	}
	if (!status)
		memcpy(handle, &h, sizeof(*handle));
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* Sets the context in which the memory is opened. False: this process does not have the GPU. */
static bool place_for(const struct handle *h, struct hsa_memory *m)
{
	m->agent = h->where == IN_SYSTEM ? HSA_CPU : sgu_gpu_of_index(h->where);
	m->gpu = h->where == IN_SYSTEM ? 0 : m->agent;
	if (m->gpu >= 0)
		m->ctx = m->agent == HSA_CPU ? hsa_system_ctx : hsa_gpus[m->gpu].ctx;
	return m->ctx;
}

/* Opens the driver's memory, and adds it to the table or counts it there. */
static hsa_status_t attach_driver(const struct handle *h, size_t len, uint32_t mapped,
				  void **mapped_ptr)
{
	struct softgpu_ipc_open open = { .size = sizeof(open),
					 .id = h->id,
					 .key = { h->key[0], h->key[1] } };
	struct softgpu_va close = { .size = sizeof(close), .flags = SOFTGPU_FREE_VISIBLE };
	struct softgpu_query query = { .size = sizeof(query) };
	hsa_status_t status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	struct hsa_memory *m = calloc(1, sizeof(*m)), *there;

	if (!m)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	if (!place_for(h, m))
		goto fail;
	open.ctx = m->ctx;
	switch (hsa_status_of(sgu_call(m->gpu, SOFTGPU_IPC_OPEN, &open))) {
	case HSA_STATUS_SUCCESS:
		break;
	case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
		status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
		goto fail;
	default:
		goto fail;
	}
	close.va = query.va = open.va;
	if (sgu_call(m->gpu, SOFTGPU_QUERY, &query) || query.length != len ||
	    (m->agent != HSA_CPU && sgu_gpu_of_index(query.gpu) != m->agent))
		goto close;
	there = hsa_memory_at((void *)(uintptr_t)open.va);
	if (there) {
		there->attached++;
		there->mapped |= mapped;
		*mapped_ptr = there->base;
		free(m);
		return HSA_STATUS_SUCCESS;
	}
	m->fd = -1;
	m->base = (char *)(uintptr_t)open.va;
	m->size = len;
	m->length = (len + HSA_PAGE - 1) & ~(HSA_PAGE - 1);
	m->attached = 1;
	m->mapped = mapped | mask_of(m->agent);
	status = hsa_status_of(hsa_memory_show(m));
	if (status)
		goto close;
	hsa_memory_add(m);
	*mapped_ptr = m->base;
	return HSA_STATUS_SUCCESS;
close:
	sgu_call(m->gpu, SOFTGPU_IPC_CLOSE, &close);
fail:
	free(m);
	return status;
}

static hsa_status_t attach_file(const struct handle *h, size_t len, void **mapped_ptr)
{
	char name[HSA_FILE_NAME];
	struct hsa_memory *m;
	size_t size = 0;
	int fd = -ENOENT;

	hsa_file_name(name, "hsa-memory", h->key, h->where);
	/* This process's own memory cannot be attached, as with the driver's memory. */
	if (h->where != (uint32_t)getpid() && h->id <= INT32_MAX)
		fd = hsa_file_open(h->where, (uint32_t)h->id, name, &size);
	if (fd < 0)
		return hsa_file_status(fd);
	m = size == len ? hsa_memory_attached(h->key) : NULL;
	if (size != len || m) {
		hsa_file_close(fd);
		if (!m)
			return HSA_STATUS_ERROR_INVALID_ARGUMENT;
		m->attached++;
		*mapped_ptr = m->base;
		return HSA_STATUS_SUCCESS;
	}
	m = calloc(1, sizeof(*m));
	if (m) {
		m->agent = HSA_CPU;
		m->gpu = -1;
		m->fd = fd;
		m->size = size;
		m->length = (size + HSA_PAGE - 1) & ~(HSA_PAGE - 1);
		m->attached = 1;
		memcpy(m->key, h->key, sizeof(m->key));
		m->base = hsa_file_map(fd, m->length);
	}
	if (!m || !m->base) {
		free(m);
		hsa_file_close(fd);
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	}
	hsa_memory_add(m);
	*mapped_ptr = m->base;
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t *handle, size_t len,
						  uint32_t num_agents,
						  const hsa_agent_t *mapping_agents,
						  void **mapped_ptr)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	uint32_t mapped = 0;
	struct handle h;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!handle || !mapped_ptr || (num_agents && !mapping_agents))
		goto out;
	status = hsa_agents_mask(num_agents, mapping_agents, &mapped);
	if (status)
		goto out;
	memcpy(&h, handle, sizeof(h));
	if (h.kind == OF_DRIVER)
		status = attach_driver(&h, len, num_agents ? mapped : hsa_all_gpus(), mapped_ptr);
	else
		status = h.kind == OF_FILE ? attach_file(&h, len, mapped_ptr) :
					     HSA_STATUS_ERROR_INVALID_ARGUMENT;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* Caller holds hsa_lock. *m is NULL on an error. */
static hsa_status_t attached_at(const void *ptr, struct hsa_memory **m)
{
	struct hsa_memory *there;

	*m = NULL;
	if (!hsa_ready())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	there = hsa_memory_at(ptr);
	if (!there || there->base != ptr || !there->attached)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	*m = there;
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_ipc_memory_detach(void *mapped_ptr)
{
	struct softgpu_va close = { .size = sizeof(close),
				    .flags = SOFTGPU_FREE_VISIBLE,
				    .va = (uintptr_t)mapped_ptr };
	struct hsa_memory *m;
	hsa_status_t status;
	int gpu = -1;

	pthread_mutex_lock(&hsa_lock);
	do {
		status = attached_at(mapped_ptr, &m);
	} while (m && m->attached == 1 && !hsa_memory_drop(m));
	if (m) {
		gpu = m->gpu;
		if (--m->attached)
			m = NULL;
	}
	pthread_mutex_unlock(&hsa_lock);
	/* Without hsa_lock, because the driver waits until no client has the memory pinned. */
	if (gpu >= 0)
		status = hsa_status_of(sgu_call(gpu, SOFTGPU_IPC_CLOSE, &close));
	free(m);
	return status;
}

/* ---- signals ---- */

SGU_EXPORT hsa_status_t hsa_amd_ipc_signal_create(hsa_signal_t signal, hsa_amd_ipc_signal_t *handle)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct handle h = { .kind = OF_SIGNAL, .where = (uint32_t)getpid() };
	const struct hsa_signal *s;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!handle)
		goto out;
	s = hsa_signal_at(signal);
	status = s ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_ERROR_INVALID_SIGNAL;
	if (!s || s->fd < 0)
		goto out;
	h.id = (uint32_t)s->fd;
	memcpy(h.key, s->key, sizeof(h.key));
	memcpy(handle, &h, sizeof(*handle));
	status = HSA_STATUS_SUCCESS;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_ipc_signal_attach(const hsa_amd_ipc_signal_t *handle,
						  hsa_signal_t *signal)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	char name[HSA_FILE_NAME];
	struct handle h;
	size_t size = 0;
	int fd;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!handle || !signal)
		goto out;
	memcpy(&h, handle, sizeof(h));
	hsa_file_name(name, "hsa-signal", h.key, h.where);
	/* Open it in any case, which shows that its creator still has it. */
	fd = h.kind == OF_SIGNAL && h.id <= INT32_MAX ?
	     hsa_file_open(h.where, (uint32_t)h.id, name, &size) : -ENOENT;
	if (fd < 0)
		status = hsa_file_status(fd);
	else if (size == HSA_PAGE)
		status = hsa_signal_adopt(fd, h.key, signal);
	else
		hsa_file_close(fd);
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}
