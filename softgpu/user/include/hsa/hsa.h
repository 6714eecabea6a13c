/* SPDX-License-Identifier: MIT */
/*
 * hsa.h - the part of the HSA runtime's interface that softgpu's libhsa-runtime64
 * offers: agents and memory.  Names, values and layouts are those of HSA 1.x; there
 * are no queues and no code.
 */
#ifndef HSA_RUNTIME_INC_HSA_H_
#define HSA_RUNTIME_INC_HSA_H_

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HSA_API

typedef enum {
	HSA_STATUS_SUCCESS = 0x0,
	HSA_STATUS_INFO_BREAK = 0x1,
	HSA_STATUS_ERROR = 0x1000,
	HSA_STATUS_ERROR_INVALID_ARGUMENT = 0x1001,
	HSA_STATUS_ERROR_INVALID_ALLOCATION = 0x1003,
	HSA_STATUS_ERROR_INVALID_AGENT = 0x1004,
	HSA_STATUS_ERROR_OUT_OF_RESOURCES = 0x1008,
	HSA_STATUS_ERROR_NOT_INITIALIZED = 0x100b,
} hsa_status_t;

typedef struct hsa_agent_s {
	uint64_t handle;
} hsa_agent_t;

typedef enum {
	HSA_DEVICE_TYPE_CPU = 0,
	HSA_DEVICE_TYPE_GPU = 1,
	HSA_DEVICE_TYPE_DSP = 2,
} hsa_device_type_t;

/* Of what hsa_agent_get_info tells: the first two are text of 64 bytes, the rest numbers of 32 bits. */
typedef enum {
	HSA_AGENT_INFO_NAME = 0,
	HSA_AGENT_INFO_VENDOR_NAME = 1,
	HSA_AGENT_INFO_NODE = 16,
	HSA_AGENT_INFO_DEVICE = 17,
} hsa_agent_info_t;

/* Counted: each needs an hsa_shut_down, and the last one frees all memory. */
hsa_status_t hsa_init(void);
hsa_status_t hsa_shut_down(void);
hsa_status_t hsa_status_string(hsa_status_t status, const char **text);

/* Ends with what the callback returns when that is not HSA_STATUS_SUCCESS. */
hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void *data), void *data);
hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void *value);

/* Between any two addresses; returns when it is done. */
hsa_status_t hsa_memory_copy(void *dst, const void *src, size_t size);

#ifdef __cplusplus
}
#endif
#endif
