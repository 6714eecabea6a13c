// SPDX-License-Identifier: MIT
/* runtime.c - hsa_init and agents. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "hsa_int.h"
#include "window.h"

#define AGENT_FIRST	0x100u		/* the CPU; GPUs follow */

pthread_mutex_t hsa_lock = PTHREAD_MUTEX_INITIALIZER;
struct hsa_gpu hsa_gpus[SOFTGPU_MAX_GPUS];
int hsa_gpu_count;
uint32_t hsa_system_ctx;

static unsigned int users;	/* hsa_init less hsa_shut_down */
static bool starting;		/* a thread opens the driver's files */
static bool opened;		/* they are open: once, for good */
static bool is_forked;
static bool told_of_forks;

bool hsa_ready(void)
{
	return users && !is_forked;
}

/*
 * In the child.  A GPU's address space belongs to the process that made it, so every call
 * is refused from here on, and nothing is used that the lock guards.  A thread that is
 * not in the child may have held the lock: a new one takes its place.
 */
static void forked(void)
{
	hsa_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (is_forked || !(opened || starting))
		return;
	is_forked = true;
	/* Those that are open already, too. */
	sgu_forget();
}

static void __attribute__((constructor)) begin(void)
{
	told_of_forks = !pthread_atfork(NULL, NULL, forked);
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
	case -EAGAIN:
	case -EMFILE:
	case -ENFILE:
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	default:
		return HSA_STATUS_ERROR;
	}
}

static int open_gpus(void)
{
	int n = sgu_open(), err;

	/* Nothing that HSA could show: the CPU alone, nocore.c. */
	if (n == -EOPNOTSUPP)
		return 0;
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
		hsa_gpu_count = n;
	return err;
}

static int make_context(int gpu, uint32_t flags, uint32_t *ctx)
{
	struct softgpu_ctx_create create = { .size = sizeof(create), .flags = flags };
	int err = sgu_call(gpu, SOFTGPU_CTX_CREATE, &create);

	if (!err)
		*ctx = create.ctx;
	return err;
}

static int make_contexts(void)
{
	int err = 0;

	for (int i = 0; i < hsa_gpu_count && !err; i++) {
		if (hsa_gpus[i].has_pool)
			err = make_context(i, SOFTGPU_CTX_VISIBLE, &hsa_gpus[i].ctx);
	}
	/* A GPU in exclusive mode has no second one: then the CPU's pool is files, as without a driver. */
	if (!err && hsa_gpu_count && make_context(0, SOFTGPU_CTX_VISIBLE | SOFTGPU_CTX_SYSTEM, &hsa_system_ctx))
		sgu_log("the CPU's pool does not use the driver: GPU 0 gave it no context");
	return err;
}

static void end_context(int gpu, uint32_t *ctx)
{
	struct softgpu_handle handle = { .size = sizeof(handle), .handle = *ctx };

	if (handle.handle)
		sgu_call(gpu, SOFTGPU_CTX_DESTROY, &handle);
	*ctx = 0;
}

static void end_contexts(void)
{
	end_context(0, &hsa_system_ctx);
	for (int i = 0; i < hsa_gpu_count; i++)
		end_context(i, &hsa_gpus[i].ctx);
}

static int start(void)
{
	int err = 0;

	if (!opened) {
		starting = true;
		err = told_of_forks ? open_gpus() : -ENOMEM;
		if (err)
			sgu_forget();
		opened = !err;
		starting = false;
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
		hsa_copy_end();
		hsa_memory_end();
		hsa_locked_end();
		hsa_signal_end();
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
		{ HSA_STATUS_ERROR_INVALID_SIGNAL, "not such a signal" },
		{ (hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL, "not such a pool" },
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

SGU_EXPORT hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void *value)
{
	struct timespec now;

	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!value)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	switch (attribute) {
	case HSA_SYSTEM_INFO_VERSION_MAJOR:
	case HSA_SYSTEM_INFO_VERSION_MINOR:
		*(uint16_t *)value = 1;
		break;
	case HSA_SYSTEM_INFO_TIMESTAMP:
		clock_gettime(CLOCK_MONOTONIC, &now);
		*(uint64_t *)value = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
		break;
	case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
		*(uint64_t *)value = 1000000000;
		break;
	case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
		*(uint64_t *)value = UINT64_MAX;
		break;
	default:
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	}
	return HSA_STATUS_SUCCESS;
}

/* ---- agents ---- */

bool hsa_agent_number(hsa_agent_t agent, int *number)
{
	if (agent.handle < AGENT_FIRST || agent.handle - AGENT_FIRST > (unsigned int)hsa_gpu_count)
		return false;
	*number = (int)(agent.handle - AGENT_FIRST) - 1;
	return true;
}

hsa_agent_t hsa_agent_of(int number)
{
	return (hsa_agent_t){ .handle = AGENT_FIRST + 1u + (unsigned int)number };
}

hsa_status_t hsa_agents_mask(uint32_t n, const hsa_agent_t *agents, uint32_t *mask)
{
	int number;

	*mask = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!hsa_agent_number(agents[i], &number))
			return HSA_STATUS_ERROR_INVALID_AGENT;
		if (number != HSA_CPU)
			*mask |= 1u << number;
	}
	return HSA_STATUS_SUCCESS;
}

uint32_t hsa_all_gpus(void)
{
	return (1u << hsa_gpu_count) - 1;
}

bool hsa_enter(void)
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

	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!callback)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	for (int i = HSA_CPU; i < hsa_gpu_count && !status; i++)
		status = callback(hsa_agent_of(i), data);
	return status;
}

static void text64(void *value, const char *text)
{
	memset(value, 0, 64);
	snprintf(value, 64, "%s", text);
}

/* As AMD's runtime writes it: the first half of what names the GPU. */
static void uuid(char *value, const struct softgpu_info *info)
{
	size_t at = 4;

	strcpy(value, info ? "GPU-" : "CPU-XX");
	for (size_t i = 0; info && i < 8; i++, at += 2)
		snprintf(value + at, 3, "%02x", info->uuid[i]);
}

SGU_EXPORT hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void *value)
{
	const struct softgpu_info *info;
	uint32_t *word = value;
	int i;

	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!hsa_agent_number(agent, &i))
		return HSA_STATUS_ERROR_INVALID_AGENT;
	if (!value)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	info = i == HSA_CPU ? NULL : &hsa_gpus[i].info;
	switch ((unsigned int)attribute) {
	case HSA_AGENT_INFO_NAME:
	case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
		text64(value, info ? info->name : "CPU");
		break;
	case HSA_AGENT_INFO_VENDOR_NAME:
		text64(value, info ? "softgpu" : "CPU");
		break;
	case HSA_AGENT_INFO_NODE:
	case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
		*word = (uint32_t)(i + 1);
		break;
	case HSA_AGENT_INFO_DEVICE:
		*word = info ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU;
		break;
	case HSA_AMD_AGENT_INFO_CHIP_ID:
		*word = 0;
		break;
	case HSA_AMD_AGENT_INFO_BDFID:
		*word = info ? info->pci_bus << 8 | info->pci_device << 3 | info->pci_function : 0;
		break;
	case HSA_AMD_AGENT_INFO_DOMAIN:
		*word = info ? info->pci_domain : 0;
		break;
	case HSA_AMD_AGENT_INFO_UUID:
		uuid(value, info);
		break;
	default:
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	}
	return HSA_STATUS_SUCCESS;
}
