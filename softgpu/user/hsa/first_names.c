// SPDX-License-Identifier: MIT
/*
 * first_names.c - libhsa-amd-ipc: include/hsa/hsa_amd_ipc.h.
 *
 * A handle contains a process, a descriptor of that process, and some bits of the file's name. The
 * file is a memfd that contains the runtime's own handle. Closing the handle closes the file.
 */
#include <errno.h>
#include <unistd.h>

#include "hsa/hsa_amd_ipc.h"
#undef hsa_amd_memory_pool_free

#include "file.h"
#include "uncancelled.h"

#define SGU_EXPORT __attribute__((visibility("default")))

/*
 * Bits of a handle from the low end: descriptor, process, part of the name. The widths suffice for
 * Linux's limits.
 */
#define FD_BITS		20
#define PID_BITS	22

/* The content of the file. */
struct content {
	hsa_amd_ipc_memory_t handle;
	uint64_t length;		/* of memory */
};

static bool ready(void)
{
	uint16_t version;

	return hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &version) !=
	       HSA_STATUS_ERROR_NOT_INITIALIZED;
}

static uint32_t fd_of(uint64_t handle)
{
	return (uint32_t)(handle & ((1u << FD_BITS) - 1));
}

static uint32_t pid_of(uint64_t handle)
{
	return (uint32_t)(handle >> FD_BITS & ((1u << PID_BITS) - 1));
}

/* Memory and signals have different names. */
static void name_of(char name[HSA_FILE_NAME], const char *kind, uint64_t bits, uint32_t pid)
{
	hsa_file_name(name, kind, (uint64_t[2]){ bits, 0 }, pid);
}

static hsa_status_t get(const char *kind, const struct content *content, uint64_t *handle)
{
	SGU_UNCANCELLED;
	char name[HSA_FILE_NAME];
	uint64_t key[2];
	int fd;

	if (hsa_file_key(key))
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	key[0] >>= FD_BITS + PID_BITS;
	name_of(name, kind, key[0], (uint32_t)getpid());
	fd = hsa_file_make(name, sizeof(*content));
	if (fd < 0)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	if (fd >> FD_BITS || write(fd, content, sizeof(*content)) != sizeof(*content)) {
		close(fd);
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	}
	*handle = key[0] << (FD_BITS + PID_BITS) | (uint64_t)getpid() << FD_BITS | (uint64_t)fd;
	return HSA_STATUS_SUCCESS;
}

/* Opens the file of a handle. Returns a descriptor, or -errno. */
static int find(const char *kind, uint64_t handle)
{
	char name[HSA_FILE_NAME];
	size_t size = 0;
	int fd;

	name_of(name, kind, handle >> (FD_BITS + PID_BITS), pid_of(handle));
	fd = hsa_file_open(pid_of(handle), fd_of(handle), name, &size);
	if (fd >= 0 && size != sizeof(struct content)) {
		close(fd);
		fd = -ENOENT;
	}
	return fd;
}

static hsa_status_t open_file(const char *kind, uint64_t handle, struct content *content)
{
	SGU_UNCANCELLED;
	int fd = find(kind, handle);
	ssize_t got;

	if (fd < 0)
		return hsa_file_status(fd);
	got = pread(fd, content, sizeof(*content), 0);
	close(fd);
	return got == sizeof(*content) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

static hsa_status_t close_file(const char *kind, uint64_t handle)
{
	SGU_UNCANCELLED;
	int fd;

	if (!ready())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	fd = pid_of(handle) == (uint32_t)getpid() ? find(kind, handle) : -ENOENT;
	if (fd < 0)
		return hsa_file_status(fd);
	close(fd);
	close((int)fd_of(handle));
	return HSA_STATUS_SUCCESS;
}

/* ---- memory ---- */

static const char memory_kind[] = "hsa-memory-handle", signal_kind[] = "hsa-signal-handle";

SGU_EXPORT hsa_status_t hsa_amd_ipc_get_memory_handle(void *ptr,
						      hsa_amd_ipc_memory_handle_t *ipc_handle)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	struct content content = { .length = 0 };
	hsa_status_t status = hsa_amd_pointer_info(ptr, &info, NULL, NULL, NULL);

	if (!status && !ipc_handle)
		status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!status)
		status = hsa_amd_ipc_memory_create(ptr, info.sizeInBytes, &content.handle);
	content.length = info.sizeInBytes;
	return status ? status : get(memory_kind, &content, &ipc_handle->handle);
}

SGU_EXPORT hsa_status_t hsa_amd_ipc_close_memory_handle(hsa_amd_ipc_memory_handle_t ipc_handle)
{
	return close_file(memory_kind, ipc_handle.handle);
}

SGU_EXPORT hsa_status_t hsa_amd_ipc_open_memory_handle(hsa_amd_ipc_memory_handle_t ipc_handle,
						       void **ptr)
{
	struct content content;
	hsa_status_t status = ready() ? open_file(memory_kind, ipc_handle.handle, &content) :
		HSA_STATUS_ERROR_NOT_INITIALIZED;

	return status ? status :
			hsa_amd_ipc_memory_attach(&content.handle, content.length, 0, NULL, ptr);
}

SGU_EXPORT hsa_status_t hsa_amd_ipc_memory_pool_free(void *ptr)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };

	if (ptr && !hsa_amd_pointer_info(ptr, &info, NULL, NULL, NULL) &&
	    info.type == HSA_EXT_POINTER_TYPE_IPC)
		return hsa_amd_ipc_memory_detach(ptr);
	return hsa_amd_memory_pool_free(ptr);
}

/* ---- signals ---- */

SGU_EXPORT hsa_status_t hsa_amd_ipc_get_signal_handle(hsa_signal_t signal,
						      hsa_amd_ipc_signal_handle_t *ipc_handle)
{
	struct content content = { .length = 0 };
	hsa_status_t status = hsa_amd_ipc_signal_create(signal,
							ipc_handle ? &content.handle : NULL);

	return status ? status : get(signal_kind, &content, &ipc_handle->handle);
}

SGU_EXPORT hsa_status_t hsa_amd_ipc_close_signal_handle(hsa_amd_ipc_signal_handle_t ipc_handle)
{
	return close_file(signal_kind, ipc_handle.handle);
}

SGU_EXPORT hsa_status_t hsa_amd_ipc_open_signal_handle(hsa_amd_ipc_signal_handle_t ipc_handle,
						       hsa_signal_t *signal)
{
	struct content content;
	hsa_status_t status = ready() ? open_file(signal_kind, ipc_handle.handle, &content) :
		HSA_STATUS_ERROR_NOT_INITIALIZED;

	return status ? status : hsa_amd_ipc_signal_attach(&content.handle, signal);
}

/* ---- queries of addresses ---- */

struct search {
	uint32_t flags;		/* required flags of the pool */
	hsa_amd_memory_pool_t pool;
};

static hsa_status_t take_pool(hsa_amd_memory_pool_t pool, void *data)
{
	struct search *search = data;
	uint32_t flags = 0;

	if (hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags) ||
	    (flags & search->flags) != search->flags)
		return HSA_STATUS_SUCCESS;
	search->pool = pool;
	return HSA_STATUS_INFO_BREAK;
}

/* The runtime does not report the pool. Returns the owner's first pool with these flags. */
static hsa_status_t pool_of(const hsa_amd_pointer_info_t *info, hsa_amd_memory_pool_t *pool)
{
	struct search search = { .flags = info->global_flags };

	if (hsa_amd_agent_iterate_memory_pools(info->agentOwner, take_pool, &search) !=
	    HSA_STATUS_INFO_BREAK)
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	*pool = search.pool;
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_get_address_info(void *ptr, hsa_amd_address_info_t attribute,
						 void *value)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	hsa_status_t status = hsa_amd_pointer_info(ptr, &info, NULL, NULL, NULL);
	bool allocated = info.type == HSA_EXT_POINTER_TYPE_HSA ||
			 info.type == HSA_EXT_POINTER_TYPE_IPC;

	if (status || !value)
		return status ? status : HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (attribute == HSA_AMD_ADDRESS_HSA_ALLOCATED) {
		*(uint32_t *)value = allocated;
		return HSA_STATUS_SUCCESS;
	}
	if (attribute != HSA_AMD_ADDRESS_AGENT && attribute != HSA_AMD_ADDRESS_POOL &&
	    attribute != HSA_AMD_ADDRESS_ALLOC_SIZE)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!allocated)
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	if (attribute == HSA_AMD_ADDRESS_AGENT)
		*(hsa_agent_t *)value = info.agentOwner;
	else if (attribute == HSA_AMD_ADDRESS_ALLOC_SIZE)
		*(size_t *)value = info.sizeInBytes;
	else
		status = pool_of(&info, value);
	return status;
}
