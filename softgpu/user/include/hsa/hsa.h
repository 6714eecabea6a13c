/* SPDX-License-Identifier: MIT */
/*
 * hsa.h - the part of the HSA runtime API that softgpu's libhsa-runtime64 implements: agents,
 * memory and signals.  Names, values and layouts are those of HSA 1.x.  There are no queues and no
 * code objects.
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
	HSA_STATUS_ERROR_INVALID_QUEUE_CREATION = 0x1002,
	HSA_STATUS_ERROR_INVALID_ALLOCATION = 0x1003,
	HSA_STATUS_ERROR_INVALID_AGENT = 0x1004,
	HSA_STATUS_ERROR_INVALID_REGION = 0x1005,
	HSA_STATUS_ERROR_INVALID_SIGNAL = 0x1006,
	HSA_STATUS_ERROR_INVALID_QUEUE = 0x1007,
	HSA_STATUS_ERROR_OUT_OF_RESOURCES = 0x1008,
	HSA_STATUS_ERROR_INVALID_PACKET_FORMAT = 0x1009,
	HSA_STATUS_ERROR_RESOURCE_FREE = 0x100a,
	HSA_STATUS_ERROR_NOT_INITIALIZED = 0x100b,
	HSA_STATUS_ERROR_REFCOUNT_OVERFLOW = 0x100c,
	HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS = 0x100d,
	HSA_STATUS_ERROR_INVALID_INDEX = 0x100e,
} hsa_status_t;

typedef struct hsa_agent_s {
	uint64_t handle;
} hsa_agent_t;

typedef struct hsa_signal_s {
	uint64_t handle;	/* 0 is none */
} hsa_signal_t;

typedef int64_t hsa_signal_value_t;

typedef enum {
	HSA_DEVICE_TYPE_CPU = 0,
	HSA_DEVICE_TYPE_GPU = 1,
	HSA_DEVICE_TYPE_DSP = 2,
} hsa_device_type_t;

/* Attributes of agents.  The first two are text of 64 bytes, the others numbers of 32 bits. */
typedef enum {
	HSA_AGENT_INFO_NAME = 0,
	HSA_AGENT_INFO_VENDOR_NAME = 1,
	HSA_AGENT_INFO_NODE = 16,
	HSA_AGENT_INFO_DEVICE = 17,
} hsa_agent_info_t;

typedef enum {
	HSA_SYSTEM_INFO_VERSION_MAJOR = 0,		/* uint16_t */
	HSA_SYSTEM_INFO_VERSION_MINOR = 1,		/* uint16_t */
	HSA_SYSTEM_INFO_TIMESTAMP = 2,			/* uint64_t: clock of signals' timeouts */
	HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY = 3,	/* uint64_t: 1/s */
	HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT = 4,		/* uint64_t */
} hsa_system_info_t;

/*
 * Calls are counted: each hsa_init() needs an hsa_shut_down().  The last one frees all memory and
 * signals.
 */
hsa_status_t hsa_init(void);
hsa_status_t hsa_shut_down(void);
hsa_status_t hsa_status_string(hsa_status_t status, const char **text);
hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void *value);

/* Stops when the callback does not return HSA_STATUS_SUCCESS, and returns the callback's value. */
hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void *data),
				void *data);
hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void *value);

/* Copies between any two addresses.  Returns when the copy is done. */
hsa_status_t hsa_memory_copy(void *dst, const void *src, size_t size);

/* ---- signals ---- */

typedef enum {
	HSA_SIGNAL_CONDITION_EQ = 0,
	HSA_SIGNAL_CONDITION_NE = 1,
	HSA_SIGNAL_CONDITION_LT = 2,
	HSA_SIGNAL_CONDITION_GTE = 3,
} hsa_signal_condition_t;

typedef enum {
	HSA_WAIT_STATE_BLOCKED = 0,
	HSA_WAIT_STATE_ACTIVE = 1,
} hsa_wait_state_t;

/* consumers: the agents that may wait for the signal.  An empty list means all. */
hsa_status_t hsa_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers,
			       const hsa_agent_t *consumers, hsa_signal_t *signal);
/*
 * A thread that has seen the signal's last value may destroy the signal at once, while other
 * threads are still in calls that set it or wait for it.  No call with the signal may begin after
 * this one.
 */
hsa_status_t hsa_signal_destroy(hsa_signal_t signal);

/*
 * The calls below do not check the signal: one that does not exist has undefined results.  All
 * memory orders are offered, and all are sequentially consistent here.  The silent stores wake no
 * waiter.
 *
 * A wait ends when the condition is true, or when the timeout is over.  It returns the last value
 * that it read.  The timeout is in units of the system's timestamp clock; UINT64_MAX: no timeout.
 */
hsa_signal_value_t hsa_signal_load_scacquire(hsa_signal_t signal);
hsa_signal_value_t hsa_signal_load_relaxed(hsa_signal_t signal);
hsa_signal_value_t hsa_signal_load_acquire(hsa_signal_t signal);
void hsa_signal_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value);
void hsa_signal_store_screlease(hsa_signal_t signal, hsa_signal_value_t value);
void hsa_signal_store_release(hsa_signal_t signal, hsa_signal_value_t value);
void hsa_signal_silent_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value);
void hsa_signal_silent_store_screlease(hsa_signal_t signal, hsa_signal_value_t value);

/* Declared for all memory orders, also under their names in HSA 1.0: acq_rel, acquire, release. */
#define HSA_SIGNAL_ORDERS(declare)						\
	declare(scacq_screl) declare(scacquire) declare(screlease) declare(relaxed)	\
	declare(acq_rel) declare(acquire) declare(release)
#define HSA_SIGNAL_DECLARE(order)						\
	/* both return the value before */					\
	hsa_signal_value_t hsa_signal_exchange_##order(hsa_signal_t signal,	\
						       hsa_signal_value_t value); \
	hsa_signal_value_t hsa_signal_cas_##order(hsa_signal_t signal,		\
						  hsa_signal_value_t expected,	\
						  hsa_signal_value_t value);	\
	void hsa_signal_add_##order(hsa_signal_t signal, hsa_signal_value_t value);	\
	void hsa_signal_subtract_##order(hsa_signal_t signal, hsa_signal_value_t value);	\
	void hsa_signal_and_##order(hsa_signal_t signal, hsa_signal_value_t value);	\
	void hsa_signal_or_##order(hsa_signal_t signal, hsa_signal_value_t value);	\
	void hsa_signal_xor_##order(hsa_signal_t signal, hsa_signal_value_t value);
HSA_SIGNAL_ORDERS(HSA_SIGNAL_DECLARE)
#undef HSA_SIGNAL_DECLARE

hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition,
					     hsa_signal_value_t compare_value,
					     uint64_t timeout_hint,
					     hsa_wait_state_t wait_state_hint);
hsa_signal_value_t hsa_signal_wait_relaxed(hsa_signal_t signal, hsa_signal_condition_t condition,
					   hsa_signal_value_t compare_value, uint64_t timeout_hint,
					   hsa_wait_state_t wait_state_hint);
hsa_signal_value_t hsa_signal_wait_acquire(hsa_signal_t signal, hsa_signal_condition_t condition,
					   hsa_signal_value_t compare_value, uint64_t timeout_hint,
					   hsa_wait_state_t wait_state_hint);

#ifdef __cplusplus
}
#endif
#endif
