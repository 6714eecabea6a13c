// SPDX-License-Identifier: MIT
/*
 * lock.c - hsa_amd_memory_lock(): memory of the program for access by GPUs. Software GPUs reach all
 * memory, so it is only recorded.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "hsa_int.h"

#define STEP ((size_t)1 << 24)

static struct hsa_locked *all;	/* newest first */

struct hsa_locked *hsa_locked_at(const void *ptr)
{
	struct hsa_locked *l = all;

	while (l &&
	       ((const char *)ptr < l->base || (size_t)((const char *)ptr - l->base) >= l->size))
		l = l->next;
	return l;
}

/* Whether the whole range is mapped; unmapped memory cannot be locked. */
static bool is_mapped(const char *ptr, size_t size)
{
	char *at = (char *)((uintptr_t)ptr & ~(HSA_PAGE - 1)), *end = (char *)(uintptr_t)ptr + size;
	unsigned char there[STEP / HSA_PAGE];

	if (end < ptr)
		return false;
	for (; at < end; at += STEP) {
		size_t left = (size_t)(end - at);

		if (mincore(at, left < STEP ? left : STEP, there))
			return false;
	}
	return true;
}

static hsa_status_t add_locked(void *ptr, size_t size, uint32_t mask)
{
	struct hsa_locked *l = all;

	while (l && (l->base != ptr || l->size != size))
		l = l->next;
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
		l->base = ptr;
		l->size = size;
		l->next = all;
		all = l;
	}
	l->count++;
	l->mapped |= mask;
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_memory_lock(void *host_ptr, size_t size, hsa_agent_t *agents,
					    int num_agent, void **agent_ptr)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	uint32_t mask = 0;

	if (agent_ptr)
		*agent_ptr = NULL;
	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!host_ptr || !size || !agent_ptr || num_agent < 0 || !num_agent != !agents)
		goto out;
	status = hsa_agents_mask((uint32_t)num_agent, agents, &mask);
	if (!num_agent)
		mask = hsa_all_gpus();
	if (!status && !hsa_memory_covers(host_ptr, size))
		status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!status && !is_mapped(host_ptr, size))
		status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	/* The driver's memory is already accessible, and the CPU alone needs no lock. */
	if (!status && mask && !hsa_memory_at(host_ptr))
		status = add_locked(host_ptr, size, mask);
	if (!status)
		*agent_ptr = host_ptr;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t hsa_amd_memory_lock_to_pool(void *host_ptr, size_t size,
						    hsa_agent_t *agents, int num_agent,
						    hsa_amd_memory_pool_t pool, uint32_t flags,
						    void **agent_ptr)
{
	int number;

	if (agent_ptr)
		*agent_ptr = NULL;
	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!hsa_pool_number(pool, &number))
		return (hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
	if (flags)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	/* Host memory is not a GPU's. */
	if (number != HSA_CPU)
		return HSA_STATUS_ERROR;
	return hsa_amd_memory_lock(host_ptr, size, agents, num_agent, agent_ptr);
}

SGU_EXPORT hsa_status_t hsa_amd_memory_unlock(void *host_ptr)
{
	struct hsa_locked **at = &all, *l;
	bool ready;

	pthread_mutex_lock(&hsa_lock);
	ready = hsa_ready();
	while (*at && (!ready || (*at)->base != host_ptr))
		at = &(*at)->next;
	l = *at;
	if (l && !--l->count) {
		*at = l->next;
		free(l);
	}
	pthread_mutex_unlock(&hsa_lock);
	return ready ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

void hsa_locked_end(void)
{
	while (all) {
		struct hsa_locked *l = all;

		all = l->next;
		free(l);
	}
}
