/* SPDX-License-Identifier: MIT */
/*
 * hsa_amd_ipc.h - memory and signals of other processes, and information about addresses, under the
 * names that AMD's runtime first had for them.
 *
 * libhsa-amd-ipc implements these functions with those of hsa_ext_amd.h, in softgpu's or AMD's
 * runtime.  A handle has 8 bytes.  It can be sent in any way to processes of the same user on the
 * same machine and in the same PID namespace.  It can be opened until it is closed, the allocation
 * or signal ends, or the process that made it ends.  Memory and signals that were opened before
 * stay open.
 *
 * Before hsa_init() all functions return HSA_STATUS_ERROR_NOT_INITIALIZED.  For NULL, and for an
 * invalid or closed handle, they return HSA_STATUS_ERROR_INVALID_ARGUMENT.
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
/* Call this in the process that made the handle. */
hsa_status_t hsa_amd_ipc_close_memory_handle(hsa_amd_ipc_memory_handle_t ipc_handle);
/* Call hsa_amd_memory_pool_free() once for each time that the memory was opened; see below. */
hsa_status_t hsa_amd_ipc_open_memory_handle(hsa_amd_ipc_memory_handle_t ipc_handle, void **ptr);

/* The signal must have been made with HSA_AMD_SIGNAL_IPC. */
hsa_status_t hsa_amd_ipc_get_signal_handle(hsa_signal_t signal,
					   hsa_amd_ipc_signal_handle_t *ipc_handle);
hsa_status_t hsa_amd_ipc_close_signal_handle(hsa_amd_ipc_signal_handle_t ipc_handle);
/* Call hsa_signal_destroy() once for each time that the signal was opened. */
hsa_status_t hsa_amd_ipc_open_signal_handle(hsa_amd_ipc_signal_handle_t ipc_handle,
					    hsa_signal_t *signal);

typedef enum hsa_amd_address_info_s {
	HSA_AMD_ADDRESS_HSA_ALLOCATED = 0x1,	/* uint32_t: 0 or 1 */
	HSA_AMD_ADDRESS_AGENT = 0x2,		/* hsa_agent_t */
	HSA_AMD_ADDRESS_POOL = 0x3,		/* hsa_amd_memory_pool_t */
	HSA_AMD_ADDRESS_ALLOC_SIZE = 0x4,	/* size_t */
} hsa_amd_address_info_t;

/* INVALID_ALLOCATION: HSA did not allocate the memory, and the attribute is not HSA_ALLOCATED. */
hsa_status_t hsa_amd_get_address_info(void *ptr, hsa_amd_address_info_t attribute, void *value);

/*
 * Frees allocated memory, and detaches opened memory.  Today's runtime has a separate call for
 * each.
 */
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
