// SPDX-License-Identifier: MIT
/* runtime.c - hsa_init, agents and pools. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hsa_int.h"
#include "window.h"

#define CPU		(-1)
#define AGENT_FIRST	0x100u		/* the CPU; GPUs follow */
#define POOL_FIRST	0x200u

pthread_mutex_t hsa_lock = PTHREAD_MUTEX_INITIALIZER;
struct hsa_gpu hsa_gpus[SOFTGPU_MAX_GPUS];
int hsa_gpu_count;

static unsigned int users;	/* hsa_init less hsa_shut_down */
static bool opened;		/* the driver's files are: once, for good */
static bool is_forked;

bool hsa_ready(void)
{
	return users && !is_forked;
}

/* A GPU's address space belongs to the process that made it.  It touches no lock. */
static void forked(void)
{
	if (is_forked || !opened)
		return;
	is_forked = true;
	sgu_forget();
}

hsa_status_t hsa_status_of(int err)
{
	switch (err) {
	case 0:
		return HSA_STATUS_SUCCESS;
	case -EINVAL:
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	case -ENOENT:
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	case -ENOMEM:
	case -ENOSPC:
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	default:
		return HSA_STATUS_ERROR;
	}
}

static int open_gpus(void)
{
	int n = sgu_open(), err;

	if (n <= 0)
		return n ? n : -ENODEV;
	for (int i = 0; i < n; i++) {
		struct softgpu_info *info = &hsa_gpus[i].info;

		memset(info, 0, sizeof(*info));
		info->size = sizeof(*info);
		err = sgu_call(i, SOFTGPU_INFO, info);
		if (err)
			return err;
		if (info->abi != SOFTGPU_ABI) {
			sgu_log("the driver speaks interface %u, this library %u: install both from one build",
				info->abi, SOFTGPU_ABI);
			return -EPROTO;
		}
		hsa_gpus[i].has_pool = info->bar1_total >= info->vram_total;
		if (!hsa_gpus[i].has_pool)
			sgu_log("GPU %d has no memory for HSA and HIP: its BAR shows %" PRIu64 " of %" PRIu64
				" MiB, and must show all (softgpu.ko without bar1=)", i, (uint64_t)info->bar1_total >> 20,
				(uint64_t)info->vram_total >> 20);
	}
	err = sgu_window_open(n);
	if (!err)
		err = -pthread_atfork(NULL, NULL, forked);
	if (!err)
		hsa_gpu_count = n;
	return err;
}

static int make_contexts(void)
{
	for (int i = 0; i < hsa_gpu_count; i++) {
		struct softgpu_ctx_create create = { .size = sizeof(create), .flags = SOFTGPU_CTX_VISIBLE };
		int err;

		if (!hsa_gpus[i].has_pool)
			continue;
		err = sgu_call(i, SOFTGPU_CTX_CREATE, &create);
		if (err)
			return err;
		hsa_gpus[i].ctx = create.ctx;
	}
	return 0;
}

static void end_contexts(void)
{
	for (int i = 0; i < hsa_gpu_count; i++) {
		struct softgpu_handle handle = { .size = sizeof(handle), .handle = hsa_gpus[i].ctx };

		if (handle.handle)
			sgu_call(i, SOFTGPU_CTX_DESTROY, &handle);
		hsa_gpus[i].ctx = 0;
	}
}

static int start(void)
{
	int err = 0;

	if (!opened) {
		err = open_gpus();
		if (err)
			sgu_forget();
		opened = !err;
	}
	if (!err)
		err = make_contexts();
	if (err && opened)
		end_contexts();
	return err;
}

SGU_EXPORT hsa_status_t hsa_init(void)
{
	int err = 0;

	pthread_mutex_lock(&hsa_lock);
	if (is_forked)
		err = -EPERM;
	else if (!users)
		err = start();
	users += !err;
	pthread_mutex_unlock(&hsa_lock);
	return hsa_status_of(err);
}

SGU_EXPORT hsa_status_t hsa_shut_down(void)
{
	bool ready;

	pthread_mutex_lock(&hsa_lock);
	ready = hsa_ready();
	if (ready && !--users) {
		hsa_memory_end();
		end_contexts();
	}
	pthread_mutex_unlock(&hsa_lock);
	return ready ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

SGU_EXPORT hsa_status_t hsa_status_string(hsa_status_t status, const char **text)
{
	static const struct {
		hsa_status_t status;
		const char *text;
	} texts[] = {
		{ HSA_STATUS_SUCCESS, "no error" },
		{ HSA_STATUS_INFO_BREAK, "a callback ended the iteration" },
		{ HSA_STATUS_ERROR, "an error" },
		{ HSA_STATUS_ERROR_INVALID_ARGUMENT, "an argument is not valid" },
		{ HSA_STATUS_ERROR_INVALID_ALLOCATION, "not an allocation, or not within one" },
		{ HSA_STATUS_ERROR_INVALID_AGENT, "not such an agent" },
		{ HSA_STATUS_ERROR_OUT_OF_RESOURCES, "not enough memory" },
		{ HSA_STATUS_ERROR_NOT_INITIALIZED, "hsa_init has not been called in this process" },
	};

	for (size_t i = 0; text && i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].status == status) {
			*text = texts[i].text;
			return HSA_STATUS_SUCCESS;
		}
	}
	return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* ---- agents and pools ---- */

static bool number_of(uint64_t handle, uint64_t first, int *number)
{
	if (handle < first || handle - first > (unsigned int)hsa_gpu_count)
		return false;
	*number = (int)(handle - first) - 1;
	return true;
}

bool hsa_agent_number(hsa_agent_t agent, int *number)
{
	return number_of(agent.handle, AGENT_FIRST, number);
}

bool hsa_pool_number(hsa_amd_memory_pool_t pool, int *number)
{
	return number_of(pool.handle, POOL_FIRST, number) && (*number == CPU || hsa_gpus[*number].has_pool);
}

hsa_agent_t hsa_agent_of(int number)
{
	return (hsa_agent_t){ .handle = AGENT_FIRST + 1u + (unsigned int)number };
}

static bool enter(void)
{
	bool ready;

	pthread_mutex_lock(&hsa_lock);
	ready = hsa_ready();
	pthread_mutex_unlock(&hsa_lock);
	return ready;
}

SGU_EXPORT hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void *data), void *data)
{
	hsa_status_t status = HSA_STATUS_SUCCESS;

	if (!enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!callback)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	for (int i = CPU; i < hsa_gpu_count && !status; i++)
		status = callback(hsa_agent_of(i), data);
	return status;
}

static void text64(void *value, const char *text)
{
	memset(value, 0, 64);
	snprintf(value, 64, "%s", text);
}

SGU_EXPORT hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void *value)
{
	const struct softgpu_info *info;
	uint32_t *word = value;
	int i;

	if (!enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!hsa_agent_number(agent, &i))
		return HSA_STATUS_ERROR_INVALID_AGENT;
	if (!value)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	info = i == CPU ? NULL : &hsa_gpus[i].info;
	switch ((unsigned int)attribute) {
	case HSA_AGENT_INFO_NAME:
		text64(value, info ? info->name : "CPU");
		break;
	case HSA_AGENT_INFO_VENDOR_NAME:
		text64(value, info ? "softgpu" : "CPU");
		break;
	case HSA_AGENT_INFO_NODE:
		*word = (uint32_t)(i + 1);
		break;
	case HSA_AGENT_INFO_DEVICE:
		*word = info ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU;
		break;
	case HSA_AMD_AGENT_INFO_BDFID:
		*word = info ? info->pci_bus << 8 | info->pci_device << 3 | info->pci_function : 0;
		break;
	case HSA_AMD_AGENT_INFO_DOMAIN:
		*word = info ? info->pci_domain : 0;
		break;
	default:
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	}
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
		hsa_status_t (*callback)(hsa_amd_memory_pool_t pool, void *data), void *data)
{
	int i;

	if (!enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!hsa_agent_number(agent, &i))
		return HSA_STATUS_ERROR_INVALID_AGENT;
	if (!callback)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (i != CPU && !hsa_gpus[i].has_pool)
		return HSA_STATUS_SUCCESS;
	return callback((hsa_amd_memory_pool_t){ .handle = POOL_FIRST + 1u + (unsigned int)i }, data);
}

SGU_EXPORT hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool,
						     hsa_amd_memory_pool_info_t attribute, void *value)
{
	int i;

	if (!enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!value || !hsa_pool_number(pool, &i))
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	switch (attribute) {
	case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
		*(hsa_amd_segment_t *)value = HSA_AMD_SEGMENT_GLOBAL;
		break;
	case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
		*(uint32_t *)value = i == CPU ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED :
			HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
		break;
	case HSA_AMD_MEMORY_POOL_INFO_SIZE:
		*(size_t *)value = i == CPU ? (size_t)sysconf(_SC_PHYS_PAGES) * HSA_PAGE : hsa_gpus[i].info.vram_total;
		break;
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
	case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
		*(bool *)value = true;
		break;
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
		*(size_t *)value = HSA_PAGE;
		break;
	default:
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	}
	return HSA_STATUS_SUCCESS;
}
