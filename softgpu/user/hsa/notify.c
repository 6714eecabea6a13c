// SPDX-License-Identifier: MIT
/* notify.c - functions of the program that run when an allocation is freed. */
#include <stdlib.h>

#include "hsa_int.h"

/* Caller holds hsa_lock. The allocation that contains ptr, unless it is being freed. */
static struct hsa_memory *own_memory_at(const void *ptr)
{
	struct hsa_memory *m = hsa_memory_at(ptr);

	return m && !m->attached && !m->ending && !m->phys ? m : NULL;
}

SGU_EXPORT hsa_status_t
hsa_amd_register_deallocation_callback(void *ptr, hsa_amd_deallocation_callback_t callback,
				       void *user_data)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_notifier *more;
	struct hsa_memory *m;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!ptr || !callback)
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	m = own_memory_at(ptr);
	if (!m)
		goto out;
	status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	more = realloc(m->notifiers, (m->notifier_count + 1) * sizeof(*more));
	if (!more)
		goto out;
	m->notifiers = more;
	more[m->notifier_count++] = (struct hsa_notifier){ ptr, callback, user_data };
	status = HSA_STATUS_SUCCESS;
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

/* As in AMD's runtime, the last one takes the place of the one that is removed. */
SGU_EXPORT hsa_status_t
hsa_amd_deregister_deallocation_callback(void *ptr, hsa_amd_deallocation_callback_t callback)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_memory *m;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	m = ptr && callback ? own_memory_at(ptr) : NULL;
	for (size_t i = 0; m && i < m->notifier_count;) {
		if (m->notifiers[i].ptr != ptr || m->notifiers[i].callback != callback) {
			i++;
			continue;
		}
		m->notifiers[i] = m->notifiers[--m->notifier_count];
		status = HSA_STATUS_SUCCESS;
	}
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}
