// SPDX-License-Identifier: MIT
/* agent.c - checks that HSA is initialized, and finds agents by their handles. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hsa_int.h"

#define AGENT_FIRST	0x100u		/* the CPU; GPUs follow */

pthread_mutex_t hsa_lock = PTHREAD_MUTEX_INITIALIZER;
struct hsa_gpu hsa_gpus[SOFTGPU_MAX_GPUS];
int hsa_gpu_count;
uint32_t hsa_system_ctx;

unsigned int hsa_users;
bool hsa_forked;

bool hsa_ready(void)
{
	return hsa_users && !hsa_forked;
}

bool hsa_enter(void)
{
	bool ready;

	pthread_mutex_lock(&hsa_lock);
	ready = hsa_ready();
	pthread_mutex_unlock(&hsa_lock);
	return ready;
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

SGU_EXPORT hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void *data),
					   void *data)
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

/* Writes the UUID like AMD's runtime: the first half of the GPU's UUID. */
static void uuid(char *value, const struct softgpu_info *info)
{
	size_t at = 4;

	strcpy(value, info ? "GPU-" : "CPU-XX");
	for (size_t i = 0; info && i < 8; i++, at += 2)
		snprintf(value + at, 3, "%02x", info->uuid[i]);
}

/* As the driver has it now. */
static hsa_status_t memory_available(int number, uint64_t *bytes)
{
	struct softgpu_info info = { .size = sizeof(info) };
	int err;

	if (number == HSA_CPU)
		return HSA_STATUS_ERROR_INVALID_AGENT;
	err = sgu_call(number, SOFTGPU_INFO, &info);
	if (!err)
		*bytes = info.vram_free;
	return hsa_status_of(err);
}

SGU_EXPORT hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute,
					   void *value)
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
	/* Neither compute units nor clocks, caches or revisions: nothing runs kernels. */
	case HSA_AGENT_INFO_FEATURE:
	case HSA_AGENT_INFO_PROFILE:
	case HSA_AGENT_INFO_QUEUES_MAX:
	case HSA_AMD_AGENT_INFO_CHIP_ID:
	case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
	case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
	case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
	case HSA_AMD_AGENT_INFO_MEMORY_WIDTH:
	case HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY:
	case HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU:
	case HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU:
	case HSA_AMD_AGENT_INFO_ASIC_REVISION:
	case HSA_AMD_AGENT_INFO_NUM_SDMA_XGMI_ENG:
		*word = 0;
		break;
	case HSA_AGENT_INFO_WAVEFRONT_SIZE:
		*word = info ? 64 : 0;
		break;
	case HSA_AGENT_INFO_MACHINE_MODEL:
		*word = HSA_MACHINE_MODEL_LARGE;
		break;
	case HSA_AGENT_INFO_VERSION_MAJOR:
	case HSA_AGENT_INFO_VERSION_MINOR:
		*(uint16_t *)value = 1;
		break;
	case HSA_AMD_AGENT_INFO_HDP_FLUSH:
		*(hsa_amd_hdp_flush_t *)value = (hsa_amd_hdp_flush_t){ NULL, NULL };
		break;
	case HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES:
	case HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS:
		*(bool *)value = false;
		break;
	case HSA_AMD_AGENT_INFO_NUM_SDMA_ENG:
		*word = info ? 2 : 0;
		break;
	case HSA_AMD_AGENT_INFO_NEAREST_CPU:
		*(hsa_agent_t *)value = hsa_agent_of(HSA_CPU);
		break;
	case HSA_AMD_AGENT_INFO_MEMORY_AVAIL:
		return memory_available(i, value);
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
