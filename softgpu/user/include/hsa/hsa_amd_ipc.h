/* SPDX-License-Identifier: MIT */
/*
 * hsa_amd_ipc.h - memory and signals of other processes, and what an address is, under the
 * names that AMD's runtime had for them first.
 *
 * libhsa-amd-ipc offers them over the functions of hsa_ext_amd.h, softgpu's or AMD's own.
 * A handle has 8 bytes and may go by any channel to processes of the same user on the same
 * machine and in the same PID namespace.  It is good until it is closed, the allocation or
 * the signal ends, or its process does; what was opened by then stays.
 *
 * Before hsa_init() all return HSA_STATUS_ERROR_NOT_INITIALIZED; for what is NULL, for a
 * handle that is none, or none any more, HSA_STATUS_ERROR_INVALID_ARGUMENT.
 */
#ifndef HSA_AMD_IPC_H
#define HSA_AMD_IPC_H

#include "hsa_ext_amd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hsa_amd_ipc_memory_handle_s {
	uint64_t handle;
} hsa_amd_ipc_memory_handle_t;

typedef struct hsa_amd_ipc_signal_handle_s {
	uint64_t handle;
} hsa_amd_ipc_signal_handle_t;

/* ptr: the first byte of an allocation. */
hsa_status_t hsa_amd_ipc_get_memory_handle(void *ptr, hsa_amd_ipc_memory_handle_t *ipc_handle);
/* In the process that got it. */
hsa_status_t hsa_amd_ipc_close_memory_handle(hsa_amd_ipc_memory_handle_t ipc_handle);
/* Ends with hsa_amd_memory_pool_free(), for each time it was opened; see below. */
hsa_status_t hsa_amd_ipc_open_memory_handle(hsa_amd_ipc_memory_handle_t ipc_handle, void **ptr);

/* Of a signal made with HSA_AMD_SIGNAL_IPC. */
hsa_status_t hsa_amd_ipc_get_signal_handle(hsa_signal_t signal,
					   hsa_amd_ipc_signal_handle_t *ipc_handle);
hsa_status_t hsa_amd_ipc_close_signal_handle(hsa_amd_ipc_signal_handle_t ipc_handle);
/* Ends with hsa_signal_destroy(), for each time it was opened. */
hsa_status_t hsa_amd_ipc_open_signal_handle(hsa_amd_ipc_signal_handle_t ipc_handle,
					    hsa_signal_t *signal);

typedef enum hsa_amd_address_info_s {
	HSA_AMD_ADDRESS_HSA_ALLOCATED = 0x1,	/* uint32_t: 0 or 1 */
	HSA_AMD_ADDRESS_AGENT = 0x2,		/* hsa_agent_t */
	HSA_AMD_ADDRESS_POOL = 0x3,		/* hsa_amd_memory_pool_t */
	HSA_AMD_ADDRESS_ALLOC_SIZE = 0x4,	/* size_t */
} hsa_amd_address_info_t;

/* INVALID_ALLOCATION: an address that HSA did not allocate, asked for more than that. */
hsa_status_t hsa_amd_get_address_info(void *ptr, hsa_amd_address_info_t attribute, void *value);

/* What frees both; today's runtime has a call for each, so it stands in for the one. */
hsa_status_t hsa_amd_ipc_memory_pool_free(void *ptr);
#define hsa_amd_memory_pool_free(ptr) hsa_amd_ipc_memory_pool_free(ptr)

#ifdef __cplusplus
}

static inline hsa_status_t hsa_amd_ipc_open_signal_handle(hsa_amd_ipc_signal_handle_t ipc_handle,
							  hsa_signal_t &signal)
{
	return hsa_amd_ipc_open_signal_handle(ipc_handle, &signal);
}
#endif
#endif
