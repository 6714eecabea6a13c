/* SPDX-License-Identifier: MIT */
/* hsa_ext_amd.h - AMD's extensions to hsa.h: pools, what a pointer is, dma-bufs. */
#ifndef HSA_RUNTIME_EXT_AMD_H_
#define HSA_RUNTIME_EXT_AMD_H_

#include "hsa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Further attributes of agents: numbers of 32 bits. */
typedef enum {
	HSA_AMD_AGENT_INFO_BDFID = 0xa006,	/* bus << 8 | device << 3 | function */
	HSA_AMD_AGENT_INFO_DOMAIN = 0xa00f,
} hsa_amd_agent_info_t;

typedef struct hsa_amd_memory_pool_s {
	uint64_t handle;
} hsa_amd_memory_pool_t;

typedef enum {
	HSA_AMD_SEGMENT_GLOBAL = 0,
} hsa_amd_segment_t;

typedef enum {
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT = 1,
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED = 2,
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED = 4,
} hsa_amd_memory_pool_global_flag_t;

typedef enum {
	HSA_AMD_MEMORY_POOL_INFO_SEGMENT = 0,			/* hsa_amd_segment_t */
	HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS = 1,		/* uint32_t */
	HSA_AMD_MEMORY_POOL_INFO_SIZE = 2,			/* size_t */
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED = 5,	/* bool */
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE = 6,	/* size_t */
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT = 7,	/* size_t */
	HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL = 15,	/* bool */
} hsa_amd_memory_pool_info_t;

typedef enum {
	HSA_EXT_POINTER_TYPE_UNKNOWN = 0,
	HSA_EXT_POINTER_TYPE_HSA = 1,
	HSA_EXT_POINTER_TYPE_LOCKED = 2,
	HSA_EXT_POINTER_TYPE_GRAPHICS = 3,
	HSA_EXT_POINTER_TYPE_IPC = 4,
} hsa_amd_pointer_type_t;

typedef struct hsa_amd_pointer_info_s {
	uint32_t size;			/* in: of the struct; out: what was filled in */
	hsa_amd_pointer_type_t type;
	void *agentBaseAddress;
	void *hostBaseAddress;
	size_t sizeInBytes;
	void *userData;
	hsa_agent_t agentOwner;
	uint32_t global_flags;
} hsa_amd_pointer_info_t;

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
		hsa_status_t (*callback)(hsa_amd_memory_pool_t pool, void *data), void *data);
hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool,
					  hsa_amd_memory_pool_info_t attribute, void *value);
/* A GPU's memory is seen by the CPU where it stands. */
hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags, void **ptr);
hsa_status_t hsa_amd_memory_pool_free(void *ptr);
/* All agents reach all memory: this only looks at its arguments. */
hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t *agents,
					 const uint32_t *flags, const void *ptr);
/* `count' words of 32 bits. */
hsa_status_t hsa_amd_memory_fill(void *ptr, uint32_t value, size_t count);

/*
 * Succeeds for every address: of one that it does not know the type is UNKNOWN.  With
 * alloc, an array of the agents that reach it is allocated and given to *accessible.
 */
hsa_status_t hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info, void *(*alloc)(size_t),
				  uint32_t *num_agents_accessible, hsa_agent_t **accessible);
hsa_status_t hsa_amd_pointer_info_set_userdata(const void *ptr, void *userdata);

/* The whole allocation as a dma-buf, and where in it ptr is. */
hsa_status_t hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *dmabuf, uint64_t *offset);
hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf);

#ifdef __cplusplus
}
#endif
#endif
