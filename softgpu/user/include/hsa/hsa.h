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
	HSA_STATUS_ERROR_INVALID_ISA = 0x100f,
	HSA_STATUS_ERROR_INVALID_CODE_OBJECT = 0x1010,
	HSA_STATUS_ERROR_INVALID_EXECUTABLE = 0x1011,
	HSA_STATUS_ERROR_FROZEN_EXECUTABLE = 0x1012,
	HSA_STATUS_ERROR_INVALID_SYMBOL_NAME = 0x1013,
	HSA_STATUS_ERROR_VARIABLE_ALREADY_DEFINED = 0x1014,
	HSA_STATUS_ERROR_VARIABLE_UNDEFINED = 0x1015,
	HSA_STATUS_ERROR_EXCEPTION = 0x1016,
	HSA_STATUS_ERROR_INVALID_ISA_NAME = 0x1017,
	HSA_STATUS_ERROR_INVALID_CODE_SYMBOL = 0x1018,
	HSA_STATUS_ERROR_INVALID_EXECUTABLE_SYMBOL = 0x1019,
	HSA_STATUS_ERROR_INVALID_FILE = 0x1020,
	HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER = 0x1021,
	HSA_STATUS_ERROR_INVALID_CACHE = 0x1022,
	HSA_STATUS_ERROR_INVALID_WAVEFRONT = 0x1023,
	HSA_STATUS_ERROR_INVALID_SIGNAL_GROUP = 0x1024,
	HSA_STATUS_ERROR_INVALID_RUNTIME_STATE = 0x1025,
	HSA_STATUS_ERROR_FATAL = 0x1026,
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

/*
 * Attributes of agents.  The first two are text of 64 bytes, the last two numbers of 16 bits, the
 * others numbers of 32 bits.
 */
typedef enum {
	HSA_AGENT_INFO_NAME = 0,
	HSA_AGENT_INFO_VENDOR_NAME = 1,
	HSA_AGENT_INFO_FEATURE = 2,		/* hsa_agent_feature_t: none */
	HSA_AGENT_INFO_MACHINE_MODEL = 3,
	HSA_AGENT_INFO_PROFILE = 4,
	HSA_AGENT_INFO_WAVEFRONT_SIZE = 6,
	HSA_AGENT_INFO_QUEUES_MAX = 12,		/* 0: there are no queues */
	HSA_AGENT_INFO_NODE = 16,
	HSA_AGENT_INFO_DEVICE = 17,
	HSA_AGENT_INFO_VERSION_MAJOR = 21,
	HSA_AGENT_INFO_VERSION_MINOR = 22,
} hsa_agent_info_t;

typedef enum {
	HSA_AGENT_FEATURE_KERNEL_DISPATCH = 1,
	HSA_AGENT_FEATURE_AGENT_DISPATCH = 2,
} hsa_agent_feature_t;

typedef enum {
	HSA_SYSTEM_INFO_VERSION_MAJOR = 0,		/* uint16_t */
	HSA_SYSTEM_INFO_VERSION_MINOR = 1,		/* uint16_t */
	HSA_SYSTEM_INFO_TIMESTAMP = 2,			/* uint64_t: clock of signals' timeouts */
	HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY = 3,	/* uint64_t: 1/s */
	HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT = 4,		/* uint64_t */
	HSA_SYSTEM_INFO_ENDIANNESS = 5,			/* hsa_endianness_t */
	HSA_SYSTEM_INFO_MACHINE_MODEL = 6,		/* hsa_machine_model_t */
	HSA_AMD_SYSTEM_INFO_BUILD_VERSION = 0x200,	/* const char * */
	HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED = 0x201,	/* bool, as are the next ones */
	HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT = 0x202,
	HSA_AMD_SYSTEM_INFO_MWAITX_ENABLED = 0x203,
	HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED = 0x204,
	HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED = 0x205,
	HSA_AMD_SYSTEM_INFO_XNACK_ENABLED = 0x206,
	HSA_AMD_SYSTEM_INFO_EXT_VERSION_MAJOR = 0x207,	/* uint16_t */
	HSA_AMD_SYSTEM_INFO_EXT_VERSION_MINOR = 0x208,	/* uint16_t */
} hsa_system_info_t;

typedef enum {
	HSA_ENDIANNESS_LITTLE = 0,
	HSA_ENDIANNESS_BIG = 1,
} hsa_endianness_t;

typedef enum {
	HSA_MACHINE_MODEL_SMALL = 0,
	HSA_MACHINE_MODEL_LARGE = 1,	/* 64 bits */
} hsa_machine_model_t;

/*
 * Calls are counted: each hsa_init() needs an hsa_shut_down().  The last one frees all memory and
 * signals.  OUT_OF_RESOURCES: there is no GPU, or HSA could not start for another reason.
 */
hsa_status_t hsa_init(void);
hsa_status_t hsa_shut_down(void);
hsa_status_t hsa_status_string(hsa_status_t status, const char **text);
hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void *value);

/* Stops when the callback does not return HSA_STATUS_SUCCESS, and returns the callback's value. */
hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void *data),
				void *data);
hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void *value);

/* ---- regions: the names of HSA 1.0 for an agent's memory ---- */

/* Each agent with memory has one.  Its handle is that of the pool (hsa_ext_amd.h). */
typedef struct hsa_region_s {
	uint64_t handle;
} hsa_region_t;

typedef enum {
	HSA_REGION_SEGMENT_GLOBAL = 0,
	HSA_REGION_SEGMENT_READONLY = 1,
	HSA_REGION_SEGMENT_PRIVATE = 2,
	HSA_REGION_SEGMENT_GROUP = 3,
	HSA_REGION_SEGMENT_KERNARG = 4,
} hsa_region_segment_t;

typedef enum {
	HSA_REGION_GLOBAL_FLAG_KERNARG = 1,
	HSA_REGION_GLOBAL_FLAG_FINE_GRAINED = 2,
	HSA_REGION_GLOBAL_FLAG_COARSE_GRAINED = 4,
	HSA_REGION_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED = 8,
} hsa_region_global_flag_t;

typedef enum {
	HSA_REGION_INFO_SEGMENT = 0,			/* hsa_region_segment_t */
	HSA_REGION_INFO_GLOBAL_FLAGS = 1,		/* uint32_t */
	HSA_REGION_INFO_SIZE = 2,			/* size_t */
	HSA_REGION_INFO_ALLOC_MAX_SIZE = 4,		/* size_t */
	HSA_REGION_INFO_RUNTIME_ALLOC_ALLOWED = 5,	/* bool */
	HSA_REGION_INFO_RUNTIME_ALLOC_GRANULE = 6,	/* size_t */
	HSA_REGION_INFO_RUNTIME_ALLOC_ALIGNMENT = 7,	/* size_t */
	HSA_REGION_INFO_ALLOC_MAX_PRIVATE_WORKGROUP_SIZE = 8,
} hsa_region_info_t;

typedef enum {
	HSA_ACCESS_PERMISSION_NONE = 0,
	HSA_ACCESS_PERMISSION_RO = 1,
	HSA_ACCESS_PERMISSION_WO = 2,
	HSA_ACCESS_PERMISSION_RW = 3,
} hsa_access_permission_t;

hsa_status_t hsa_agent_iterate_regions(hsa_agent_t agent,
				       hsa_status_t (*callback)(hsa_region_t region, void *data),
				       void *data);
hsa_status_t hsa_region_get_info(hsa_region_t region, hsa_region_info_t attribute, void *value);
/* The same as hsa_amd_memory_pool_allocate() and hsa_amd_memory_pool_free(). */
hsa_status_t hsa_memory_allocate(hsa_region_t region, size_t size, void **ptr);
hsa_status_t hsa_memory_free(void *ptr);
/* These check their arguments, and have no effect, as in AMD's runtime. */
hsa_status_t hsa_memory_register(void *ptr, size_t size);
hsa_status_t hsa_memory_deregister(void *ptr, size_t size);
hsa_status_t hsa_memory_assign_agent(void *ptr, hsa_agent_t agent, hsa_access_permission_t access);

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
