/* SPDX-License-Identifier: MIT */
/*
 * hsa_ext_amd.h - AMD's extensions to hsa.h: pools, pointer information, copies, memory and signals
 * of other processes, dma-bufs.
 */
#ifndef HSA_RUNTIME_EXT_AMD_H_
#define HSA_RUNTIME_EXT_AMD_H_

#include "hsa.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HSA_AMD_INTERFACE_VERSION_MAJOR 1
#define HSA_AMD_INTERFACE_VERSION_MINOR 18	/* for the part that is declared here */

/* AMD's further statuses. */
enum {
	HSA_STATUS_ERROR_INVALID_MEMORY_POOL = 40,
	HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION = 41,
	HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION = 42,
	HSA_STATUS_ERROR_MEMORY_FAULT = 43,
	HSA_STATUS_CU_MASK_REDUCED = 44,
	HSA_STATUS_ERROR_OUT_OF_REGISTERS = 45,
	HSA_STATUS_ERROR_RESOURCE_BUSY = 46,
	HSA_STATUS_ERROR_NOT_SUPPORTED = 47,
};

/*
 * Further attributes of agents: numbers of 32 bits, unless the comment says otherwise.  What a
 * software GPU does not have, such as compute units, is 0.
 */
typedef enum {
	HSA_AMD_AGENT_INFO_CHIP_ID = 0xa000,
	HSA_AMD_AGENT_INFO_CACHELINE_SIZE = 0xa001,
	HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT = 0xa002,
	HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY = 0xa003,
	HSA_AMD_AGENT_INFO_DRIVER_NODE_ID = 0xa004,
	HSA_AMD_AGENT_INFO_MEMORY_WIDTH = 0xa007,
	HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY = 0xa008,
	HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU = 0xa00a,
	HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU = 0xa00b,
	HSA_AMD_AGENT_INFO_HDP_FLUSH = 0xa00e,		/* hsa_amd_hdp_flush_t: NULL twice */
	HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES = 0xa010,	/* bool */
	HSA_AMD_AGENT_INFO_ASIC_REVISION = 0xa012,
	HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS = 0xa013,	/* bool */
	HSA_AMD_AGENT_INFO_MEMORY_AVAIL = 0xa015,	/* uint64_t: bytes that are free */
	HSA_AMD_AGENT_INFO_NUM_SDMA_ENG = 0xa10a,
	HSA_AMD_AGENT_INFO_NUM_SDMA_XGMI_ENG = 0xa10b,
	HSA_AMD_AGENT_INFO_NEAREST_CPU = 0xa113,	/* hsa_agent_t */
	HSA_AMD_AGENT_INFO_BDFID = 0xa006,	/* bus << 8 | device << 3 | function */
	HSA_AMD_AGENT_INFO_DOMAIN = 0xa00f,
	HSA_AMD_AGENT_INFO_PRODUCT_NAME = 0xa009,	/* text of 64 bytes */
	HSA_AMD_AGENT_INFO_UUID = 0xa011,		/* text of 21 bytes */
} hsa_amd_agent_info_t;

/* Registers of a real GPU, by which the CPU flushes the path from PCI Express to its memory. */
typedef struct hsa_amd_hdp_flush_s {
	uint32_t *HDP_MEM_FLUSH_CNTL;
	uint32_t *HDP_REG_FLUSH_CNTL;
} hsa_amd_hdp_flush_t;

/* Further attributes of regions. */
typedef enum {
	HSA_AMD_REGION_INFO_HOST_ACCESSIBLE = 0xa000,	/* bool */
	HSA_AMD_REGION_INFO_BASE = 0xa001,		/* void *: NULL, not fixed */
	HSA_AMD_REGION_INFO_BUS_WIDTH = 0xa002,		/* uint32_t: 0, as is the next one */
	HSA_AMD_REGION_INFO_MAX_CLOCK_FREQUENCY = 0xa003,
} hsa_amd_region_info_t;

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
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED = 8,
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
	2,		/* one hsa_amd_memory_pool_link_info_t; zero without a hop */
} hsa_amd_agent_memory_pool_info_t;

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
		hsa_status_t (*callback)(hsa_amd_memory_pool_t pool, void *data), void *data);
hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool,
					  hsa_amd_memory_pool_info_t attribute, void *value);
hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent, hsa_amd_memory_pool_t pool,
						hsa_amd_agent_memory_pool_info_t attribute,
						void *value);
/*
 * The CPU can access a GPU's memory at the same address.  flags: hsa_amd_memory_pool_flag_t;
 * pointer_info returns them.
 */
hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
					  void **ptr);
/*
 * Frees memory.  Does nothing for NULL.  INVALID_ARGUMENT: the memory is of
 * hsa_amd_ipc_memory_attach().  Waits for copies and fills that are running.  A copy that begins
 * later fails.
 */
hsa_status_t hsa_amd_memory_pool_free(void *ptr);
/*
 * Sets the GPUs that have the allocation mapped from now on: those of the list, and its owner.  In
 * softgpu the copies of every agent reach all memory anyway.
 */
hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t *agents,
					 const uint32_t *flags, const void *ptr);
/* Writes `count' words of 32 bits.  ERROR: the memory is not there. */
hsa_status_t hsa_amd_memory_fill(void *ptr, uint32_t value, size_t count);

/*
 * Makes memory of the program accessible to the GPUs of the list (none: all).  *agent_ptr becomes
 * its address for them, which is host_ptr here.  A range must be unlocked as often as it was
 * locked.  Unlocking memory that is not locked is no error.
 */
hsa_status_t hsa_amd_memory_lock(void *host_ptr, size_t size, hsa_agent_t *agents, int num_agent,
				 void **agent_ptr);
hsa_status_t hsa_amd_memory_unlock(void *host_ptr);
/* The same.  The pool is the CPU's; flags is 0. */
hsa_status_t hsa_amd_memory_lock_to_pool(void *host_ptr, size_t size, hsa_agent_t *agents,
					 int num_agent, hsa_amd_memory_pool_t pool, uint32_t flags,
					 void **agent_ptr);

/*
 * The runtime calls the function when the allocation that contains ptr is freed: by the thread that
 * frees it, with the ptr that was given here, without a lock.  The memory is still there, but can
 * no longer be freed, nor can functions be registered or deregistered for it.  The functions of one
 * allocation run in the order in which they were registered, except that deregistering one moves
 * the last one to its place.  hsa_shut_down() calls none.  INVALID_ALLOCATION: ptr is in no
 * allocation of this process.
 */
typedef void (*hsa_amd_deallocation_callback_t)(void *ptr, void *user_data);
hsa_status_t hsa_amd_register_deallocation_callback(void *ptr,
						    hsa_amd_deallocation_callback_t callback,
						    void *user_data);
/* Removes all registrations of this ptr and function.  INVALID_ARGUMENT: there is none. */
hsa_status_t hsa_amd_deregister_deallocation_callback(void *ptr,
						      hsa_amd_deallocation_callback_t callback);

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
	uint32_t size;			/* in: size of the struct; out: bytes filled in */
	hsa_amd_pointer_type_t type;
	void *agentBaseAddress;
	void *hostBaseAddress;		/* the CPU's address */
	size_t sizeInBytes;		/* the size that the program requested */
	void *userData;
	hsa_agent_t agentOwner;
	uint32_t global_flags;
	bool registered;
	uint32_t alloc_flags;
} hsa_amd_pointer_info_t;

/*
 * Succeeds for every address but NULL.  The type is UNKNOWN if HSA does not know the address.  If
 * alloc and the two arguments after it are not NULL, allocates an array of the GPUs that have the
 * memory mapped, and stores it in *accessible; NULL if there are none.
 */
hsa_status_t hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info,
				  void *(*alloc)(size_t), uint32_t *num_agents_accessible,
				  hsa_agent_t **accessible);
/* ptr is the first byte of an allocation or of locked memory. */
hsa_status_t hsa_amd_pointer_info_set_userdata(const void *ptr, void *userdata);

/* ---- asynchronous copies ---- */

/*
 * Makes the copy when the dependencies' values are 0.  Then decrements the completion signal, or
 * sets it to -1 if the copy failed.  Only dependencies order copies.  With size 0 the signal does
 * not change.  The copy is between the allocations that exist at the time of this call.  If one is
 * freed or detached before the copy begins, the copy fails, even if other memory has that address
 * then.
 */
hsa_status_t hsa_amd_memory_async_copy(void *dst, hsa_agent_t dst_agent, const void *src,
				       hsa_agent_t src_agent, size_t size, uint32_t num_dep_signals,
				       const hsa_signal_t *dep_signals,
				       hsa_signal_t completion_signal);

/* ---- other processes ---- */

typedef enum {
	HSA_AMD_SIGNAL_AMD_GPU_ONLY = 1,
	HSA_AMD_SIGNAL_IPC = 2,		/* other processes may open it */
} hsa_amd_signal_attribute_t;

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers,
				   const hsa_agent_t *consumers, uint64_t attributes,
				   hsa_signal_t *signal);

/* A program can send this in any way to processes of the same user on the same machine. */
typedef struct hsa_amd_ipc_memory_s {
	uint32_t handle[8];
} hsa_amd_ipc_memory_t;

typedef hsa_amd_ipc_memory_t hsa_amd_ipc_signal_t;

/*
 * ptr and len must be the base of an allocation and its requested length.  The handle can be
 * attached until the allocation is freed or its process ends.  Memory that was attached before
 * stays until it has been detached as often as attached.  INVALID_ARGUMENT: the allocation no
 * longer exists.
 */
hsa_status_t hsa_amd_ipc_memory_create(void *ptr, size_t len, hsa_amd_ipc_memory_t *handle);
/*
 * mapping_agents: the GPUs that map the memory.  An empty list means all.  OUT_OF_RESOURCES: there
 * is no memory, or no file descriptor.
 */
hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t *handle, size_t len,
				       uint32_t num_agents, const hsa_agent_t *mapping_agents,
				       void **mapped_ptr);
/* The last detach waits for copies that are running, as a free does. */
hsa_status_t hsa_amd_ipc_memory_detach(void *mapped_ptr);
/*
 * INVALID_ARGUMENT: the signal was not made with HSA_AMD_SIGNAL_IPC.  The handle can be attached
 * until the signal is destroyed.
 */
hsa_status_t hsa_amd_ipc_signal_create(hsa_signal_t signal, hsa_amd_ipc_signal_t *handle);
/*
 * Call hsa_signal_destroy() once for each attach.  In the process that made the signal, *signal is
 * that signal.  OUT_OF_RESOURCES: as above.
 */
hsa_status_t hsa_amd_ipc_signal_attach(const hsa_amd_ipc_signal_t *handle, hsa_signal_t *signal);

/* ---- virtual memory management ---- */

typedef struct hsa_amd_vmem_alloc_handle_s {
	uint64_t handle;
} hsa_amd_vmem_alloc_handle_t;

typedef enum {
	MEMORY_TYPE_NONE,
	MEMORY_TYPE_PINNED,
} hsa_amd_memory_type_t;

typedef struct hsa_amd_memory_access_desc_s {
	hsa_access_permission_t permissions;
	hsa_agent_t agent_handle;
} hsa_amd_memory_access_desc_t;

/*
 * Sizes and addresses are multiples of 64 KiB.  A mapping is of the whole memory of a handle, and
 * within one reservation.  The CPU sees it once any agent has access.  RESOURCE_FREE: memory is
 * mapped in the reservation, or another thread's unmap has not returned yet.
 */
hsa_status_t hsa_amd_vmem_address_reserve(void **va, size_t size, uint64_t address, uint64_t flags);
hsa_status_t hsa_amd_vmem_address_reserve_align(void **va, size_t size, uint64_t address,
						uint64_t alignment, uint64_t flags);
hsa_status_t hsa_amd_vmem_address_free(void *va, size_t size);
/* The pool is a GPU's. */
hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size,
					hsa_amd_memory_type_t type, uint64_t flags,
					hsa_amd_vmem_alloc_handle_t *memory_handle);
hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t memory_handle);
hsa_status_t hsa_amd_vmem_map(void *va, size_t size, size_t in_offset,
			      hsa_amd_vmem_alloc_handle_t memory_handle, uint64_t flags);
/* One mapping.  Waits for copies that are running, and for clients that have the memory pinned. */
hsa_status_t hsa_amd_vmem_unmap(void *va, size_t size);
hsa_status_t hsa_amd_vmem_set_access(void *va, size_t size,
				     const hsa_amd_memory_access_desc_t *desc, size_t desc_cnt);
hsa_status_t hsa_amd_vmem_get_access(void *va, hsa_access_permission_t *perms,
				     hsa_agent_t agent_handle);
/* A descriptor for processes that use softgpu, too; it is not a dma-buf. */
hsa_status_t hsa_amd_vmem_export_shareable_handle(int *dmabuf_fd,
						  hsa_amd_vmem_alloc_handle_t handle,
						  uint64_t flags);
hsa_status_t hsa_amd_vmem_import_shareable_handle(int dmabuf_fd,
						  hsa_amd_vmem_alloc_handle_t *handle);
hsa_status_t hsa_amd_vmem_retain_alloc_handle(hsa_amd_vmem_alloc_handle_t *memory_handle,
					      void *addr);
hsa_status_t
hsa_amd_vmem_get_alloc_properties_from_handle(hsa_amd_vmem_alloc_handle_t memory_handle,
					      hsa_amd_memory_pool_t *pool,
					      hsa_amd_memory_type_t *type);

/* ---- dma-bufs ---- */

/* Exports the whole allocation as a dma-buf.  *offset is the position of ptr in it. */
hsa_status_t hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *dmabuf,
					    uint64_t *offset);
hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf);

#ifdef __cplusplus
}
#endif
#endif
