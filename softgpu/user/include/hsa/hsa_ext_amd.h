/* SPDX-License-Identifier: MIT */
/* hsa_ext_amd.h - AMD's extensions to hsa.h: pools, what a pointer is, copies, other processes, dma-bufs. */
#ifndef HSA_RUNTIME_EXT_AMD_H_
#define HSA_RUNTIME_EXT_AMD_H_

#include "hsa.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HSA_AMD_INTERFACE_VERSION_MAJOR 1
#define HSA_AMD_INTERFACE_VERSION_MINOR 18	/* as far as it is declared here */

/* AMD's further statuses. */
enum {
	HSA_STATUS_ERROR_INVALID_MEMORY_POOL = 40,
};

/* Further attributes of agents: numbers of 32 bits, but for the last two, which are text of 64 and 21 bytes. */
typedef enum {
	HSA_AMD_AGENT_INFO_CHIP_ID = 0xa000,
	HSA_AMD_AGENT_INFO_DRIVER_NODE_ID = 0xa004,
	HSA_AMD_AGENT_INFO_BDFID = 0xa006,	/* bus << 8 | device << 3 | function */
	HSA_AMD_AGENT_INFO_DOMAIN = 0xa00f,
	HSA_AMD_AGENT_INFO_PRODUCT_NAME = 0xa009,
	HSA_AMD_AGENT_INFO_UUID = 0xa011,
} hsa_amd_agent_info_t;

/* ---- pools ---- */

typedef struct hsa_amd_memory_pool_s {
	uint64_t handle;
} hsa_amd_memory_pool_t;

typedef enum {
	HSA_AMD_SEGMENT_GLOBAL = 0,
	HSA_AMD_SEGMENT_READONLY = 1,
	HSA_AMD_SEGMENT_PRIVATE = 2,
	HSA_AMD_SEGMENT_GROUP = 3,
} hsa_amd_segment_t;

typedef enum {
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT = 1,
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED = 2,
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED = 4,
} hsa_amd_memory_pool_global_flag_t;

typedef enum {
	HSA_AMD_MEMORY_POOL_LOCATION_CPU = 0,
	HSA_AMD_MEMORY_POOL_LOCATION_GPU = 1,
} hsa_amd_memory_pool_location_t;

typedef enum {
	HSA_AMD_MEMORY_POOL_INFO_SEGMENT = 0,			/* hsa_amd_segment_t */
	HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS = 1,		/* uint32_t */
	HSA_AMD_MEMORY_POOL_INFO_SIZE = 2,			/* size_t */
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED = 5,	/* bool */
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE = 6,	/* size_t */
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT = 7,	/* size_t */
	HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL = 15,	/* bool */
	HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE = 16,		/* size_t */
	HSA_AMD_MEMORY_POOL_INFO_LOCATION = 17,			/* hsa_amd_memory_pool_location_t */
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE = 18,	/* size_t */
} hsa_amd_memory_pool_info_t;

typedef enum {
	HSA_AMD_MEMORY_POOL_STANDARD_FLAG = 0,
	HSA_AMD_MEMORY_POOL_PCIE_FLAG = 1 << 0,
	HSA_AMD_MEMORY_POOL_CONTIGUOUS_FLAG = 1 << 1,
	HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG = 1 << 2,
	HSA_AMD_MEMORY_POOL_UNCACHED_FLAG = 1 << 3,
} hsa_amd_memory_pool_flag_t;

typedef enum {
	HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED = 0,
	HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT = 1,
	/* hsa_amd_agents_allow_access() first */
	HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT = 2,
} hsa_amd_memory_pool_access_t;

typedef enum {
	HSA_AMD_LINK_INFO_TYPE_HYPERTRANSPORT = 0,
	HSA_AMD_LINK_INFO_TYPE_QPI = 1,
	HSA_AMD_LINK_INFO_TYPE_PCIE = 2,
	HSA_AMD_LINK_INFO_TYPE_INFINBAND = 3,
	HSA_AMD_LINK_INFO_TYPE_XGMI = 4,
} hsa_amd_link_info_type_t;

typedef struct hsa_amd_memory_pool_link_info_s {
	uint32_t min_latency, max_latency;	/* ns; 0: not known */
	uint32_t min_bandwidth, max_bandwidth;	/* MB/s; 0: not known */
	bool atomic_support_32bit, atomic_support_64bit, coherent_support;
	hsa_amd_link_info_type_t link_type;
	uint32_t numa_distance;
} hsa_amd_memory_pool_link_info_t;

typedef enum {
	HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS = 0,		/* hsa_amd_memory_pool_access_t */
	HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS = 1,	/* uint32_t: 0 or 1 */
	HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO =
	2,		/* hsa_amd_memory_pool_link_info_t, one; zero without a hop */
} hsa_amd_agent_memory_pool_info_t;

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
		hsa_status_t (*callback)(hsa_amd_memory_pool_t pool, void *data), void *data);
hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool,
					  hsa_amd_memory_pool_info_t attribute, void *value);
hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent, hsa_amd_memory_pool_t pool,
						hsa_amd_agent_memory_pool_info_t attribute,
						void *value);
/* A GPU's memory is seen by the CPU where it stands.  flags: of hsa_amd_memory_pool_flag_t, kept for pointer_info. */
hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
					  void **ptr);
/*
 * NULL is nothing; INVALID_ARGUMENT for what hsa_amd_ipc_memory_attach() gave.  Waits for copies and fills that run; a copy
 * that begins later fails.
 */
hsa_status_t hsa_amd_memory_pool_free(void *ptr);
/*
 * The GPUs that have an allocation mapped, from now on: those of the list, and its owner.
 * Here every agent's copies reach all memory all the same.
 */
hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t *agents,
					 const uint32_t *flags, const void *ptr);
/* `count' words of 32 bits. */
hsa_status_t hsa_amd_memory_fill(void *ptr, uint32_t value, size_t count);

/*
 * The program's own memory for the GPUs of the list (none: all), at the address that
 * *agent_ptr gets, which is host_ptr here.  As often as a range is locked it is to be unlocked;
 * unlocking what is not locked is no error.
 */
hsa_status_t hsa_amd_memory_lock(void *host_ptr, size_t size, hsa_agent_t *agents, int num_agent,
				 void **agent_ptr);
hsa_status_t hsa_amd_memory_unlock(void *host_ptr);

/* ---- what a pointer is ---- */

typedef enum {
	HSA_EXT_POINTER_TYPE_UNKNOWN = 0,
	HSA_EXT_POINTER_TYPE_HSA = 1,
	HSA_EXT_POINTER_TYPE_LOCKED = 2,
	HSA_EXT_POINTER_TYPE_GRAPHICS = 3,
	HSA_EXT_POINTER_TYPE_IPC = 4,
	HSA_EXT_POINTER_TYPE_RESERVED_ADDR = 5,
	HSA_EXT_POINTER_TYPE_HSA_VMEM = 6,
} hsa_amd_pointer_type_t;

typedef struct hsa_amd_pointer_info_s {
	uint32_t size;			/* in: of the struct; out: what was filled in */
	hsa_amd_pointer_type_t type;
	void *agentBaseAddress;
	void *hostBaseAddress;		/* where the CPU reads it */
	size_t sizeInBytes;		/* as the program asked for it */
	void *userData;
	hsa_agent_t agentOwner;
	uint32_t global_flags;
	bool registered;
	uint32_t alloc_flags;
} hsa_amd_pointer_info_t;

/*
 * Succeeds for every address but NULL: of one that it does not know the type is UNKNOWN.
 * With alloc and both others, an array of the GPUs that have it mapped is allocated and
 * given to *accessible, which is NULL when there are none.
 */
hsa_status_t hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info,
				  void *(*alloc)(size_t), uint32_t *num_agents_accessible,
				  hsa_agent_t **accessible);
/* ptr is the first byte of an allocation, or of what is locked. */
hsa_status_t hsa_amd_pointer_info_set_userdata(const void *ptr, void *userdata);

/* ---- asynchronous copies ---- */

/*
 * Once the dependencies' values are 0 the copy is made; then the completion signal is
 * decremented, or set to -1 when the copy failed.  Copies are in no order but that of
 * their dependencies.  With size 0 the signal stays as it is.  A copy is of the
 * allocations that are there at the time of this call: if one is freed or detached before
 * the copy begins it fails, whatever is at the address then.
 */
hsa_status_t hsa_amd_memory_async_copy(void *dst, hsa_agent_t dst_agent, const void *src,
				       hsa_agent_t src_agent, size_t size, uint32_t num_dep_signals,
				       const hsa_signal_t *dep_signals,
				       hsa_signal_t completion_signal);

/* ---- other processes ---- */

typedef enum {
	HSA_AMD_SIGNAL_AMD_GPU_ONLY = 1,
	HSA_AMD_SIGNAL_IPC = 2,		/* may be given to other processes */
} hsa_amd_signal_attribute_t;

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers,
				   const hsa_agent_t *consumers, uint64_t attributes,
				   hsa_signal_t *signal);

/* To be passed on by any channel, to processes of the same user on the same machine. */
typedef struct hsa_amd_ipc_memory_s {
	uint32_t handle[8];
} hsa_amd_ipc_memory_t;

typedef hsa_amd_ipc_memory_t hsa_amd_ipc_signal_t;

/*
 * A whole allocation: its base, and its length as it was asked for.  The handle is good
 * until the allocation is freed or its process ends; what is attached by then stays until
 * it is detached, as often as it was attached.  INVALID_ARGUMENT: nothing is there any more.
 */
hsa_status_t hsa_amd_ipc_memory_create(void *ptr, size_t len, hsa_amd_ipc_memory_t *handle);
/* mapping_agents: the GPUs that have it mapped; none: all.  OUT_OF_RESOURCES: no memory, or no file descriptor. */
hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t *handle, size_t len,
				       uint32_t num_agents, const hsa_agent_t *mapping_agents,
				       void **mapped_ptr);
/* The last one waits for copies that run, as a free does. */
hsa_status_t hsa_amd_ipc_memory_detach(void *mapped_ptr);
/* Of a signal made with HSA_AMD_SIGNAL_IPC; else INVALID_ARGUMENT.  Good until the signal is destroyed. */
hsa_status_t hsa_amd_ipc_signal_create(hsa_signal_t signal, hsa_amd_ipc_signal_t *handle);
/* To be destroyed once for each time that it was attached; in its own process it is the same signal.  OUT_OF_RESOURCES: as above. */
hsa_status_t hsa_amd_ipc_signal_attach(const hsa_amd_ipc_signal_t *handle, hsa_signal_t *signal);

/* ---- dma-bufs ---- */

/* The whole allocation as a dma-buf, and where in it ptr is. */
hsa_status_t hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *dmabuf,
					    uint64_t *offset);
hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf);

#ifdef __cplusplus
}
#endif
#endif
