/* SPDX-License-Identifier: MIT */
/*
 * cuda.h - the part of CUDA's driver API that shares memory between processes. Names, numbers and
 * layouts are CUDA's. The library is not linked; a function that the driver lacks is NULL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ipc;
struct ipc_mapping;
struct ipc_exporter;
struct ipc_pool;

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;

struct cuda_ipc_handle {
	char bytes[64];
};

/* CUmemPoolPtrExportData: the position of an allocation in its pool. */
struct cuda_pool_pointer {
	unsigned char bytes[64];
};

struct cuda_location {
	int type;		/* 1: a device */
	int id;
};

struct cuda_prop {
	int type, requested;
	struct cuda_location location;
	void *win32;
	unsigned char flags[8];
};

struct cuda_access {
	struct cuda_location location;
	int flags;		/* 3: read and write */
};

/* CUmemcpyAttributes, for all copies of a batch. */
struct cuda_batch {
	int order;		/* CUDA_ORDER_STREAM: ordered by the stream */
	struct cuda_location from, to;	/* hints for managed memory */
	unsigned int flags;
};

enum { CUDA_ORDER_STREAM = 1 };

/* CUDA_MEMCPY2D. */
struct cuda_side {
	size_t x, y;
	int type;		/* CUDA_MEMORY_UNIFIED */
	void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;		/* bytes between the starts of two rows */
};

struct cuda_2d {
	struct cuda_side from, to;
	size_t width, height;	/* bytes, rows */
};

enum { CUDA_MEMORY_UNIFIED = 4 };	/* CUDA determines location and context from the address */

_Static_assert(sizeof(struct cuda_batch) == 24 && sizeof(struct cuda_2d) == 128, "CUDA's layouts");
_Static_assert(sizeof(struct cuda_prop) == 32 && sizeof(struct cuda_access) == 12,
	       "CUDA's layouts");

enum { CUDA_HANDLE_POSIX_FD = 1, CUDA_LAZY_PEER_ACCESS = 1, CUDA_STREAM_NON_BLOCKING = 1 };
enum { CUDA_HOST_PORTABLE = 1, CUDA_HOST_DEVICEMAP = 2 };
enum { CUDA_WAIT_GEQ = 0, CUDA_WAIT_EQ = 1 };
enum {
	CUDA_ERROR_OPERATING_SYSTEM = 304,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ALREADY_MAPPED = 208,
	CUDA_ERROR_ALREADY_REGISTERED = 712
};
/* CUDA_ERROR_STREAM_CAPTURE_* */
enum { CUDA_ERROR_CAPTURE_FIRST = 900, CUDA_ERROR_CAPTURE_LAST = 908 };
enum {
	ATTRIBUTE_CONTEXT = 1,
	ATTRIBUTE_BUFFER_ID = 7,
	ATTRIBUTE_DEVICE_ORDINAL = 9,
	ATTRIBUTE_MEMPOOL_HANDLE = 17
};
enum { DEVICE_MEMPOOL_HANDLE_TYPES = 119 }; /* CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES */

struct cuda_ipc {
	CUresult (*get)(struct cuda_ipc_handle *handle, CUdeviceptr ptr);
	CUresult (*open)(CUdeviceptr *ptr, struct cuda_ipc_handle handle, unsigned int flags);
	CUresult (*close)(CUdeviceptr ptr);
	CUresult (*retain)(CUmemGenericAllocationHandle *handle, void *addr);
	CUresult (*release)(CUmemGenericAllocationHandle handle);
	CUresult (*properties)(struct cuda_prop *prop, CUmemGenericAllocationHandle handle);
	CUresult (*to_shareable)(void *shareable, CUmemGenericAllocationHandle handle, int type,
				 unsigned long long flags);
	CUresult (*from_shareable)(CUmemGenericAllocationHandle *handle, void *shareable, int type);
	CUresult (*reserve)(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
			    unsigned long long flags);
	CUresult (*unreserve)(CUdeviceptr ptr, size_t size);
	CUresult (*map)(CUdeviceptr ptr, size_t size, size_t offset,
			CUmemGenericAllocationHandle handle, unsigned long long flags);
	CUresult (*unmap)(CUdeviceptr ptr, size_t size);
	CUresult (*access)(CUdeviceptr ptr, size_t size, const struct cuda_access *access,
			   size_t count);
	CUresult (*pointer_attribute)(void *data, int attribute, CUdeviceptr ptr);
	/* Pools: since CUDA 11.2. */
	CUresult (*pool_to_shareable)(void *shareable, void *pool, int type,
				      unsigned long long flags);
	CUresult (*pool_export)(struct cuda_pool_pointer *data, CUdeviceptr ptr);
	CUresult (*pool_from_shareable)(void **pool, void *shareable, int type,
					unsigned long long flags);
	CUresult (*pool_access)(void *pool, const struct cuda_access *access, size_t count);
	CUresult (*pool_import)(CUdeviceptr *ptr, void *pool, struct cuda_pool_pointer *data);
	CUresult (*pool_destroy)(void *pool);
	CUresult (*free)(CUdeviceptr ptr);
	CUresult (*ctx_current)(void **ctx);
	CUresult (*ctx_id)(void *ctx, unsigned long long *id);		/* since CUDA 12 */
	CUresult (*ctx_device)(int *device);
	CUresult (*device_count)(int *count);
	CUresult (*device_attribute)(int *value, int attribute, int device);
	CUresult (*stream_create)(void **stream, unsigned int flags);
	CUresult (*stream_destroy)(void *stream);
	CUresult (*stream_sync)(void *stream);
	CUresult (*stream_query)(void *stream);
	CUresult (*copy)(CUdeviceptr to, CUdeviceptr from, size_t length, void *stream);
	/* These take the GPU's address as such: what is no memory of a GPU is an error. */
	CUresult (*copy_in)(CUdeviceptr to, const void *from, size_t length, void *stream);
	CUresult (*copy_out)(void *to, CUdeviceptr from, size_t length, void *stream);
	CUresult (*copy_2d)(const struct cuda_2d *copy, void *stream);
	/* Since CUDA 13. */
	CUresult (*batch)(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *lengths,
			  size_t n, const struct cuda_batch *how, const size_t *first, size_t hows,
			  void *stream);
	CUresult (*callback)(void *stream, void (*fn)(void *stream, CUresult status, void *arg),
			     void *arg, unsigned int flags);
	CUresult (*host_register)(void *p, size_t size, unsigned int flags);
	CUresult (*host_unregister)(void *p);
	CUresult (*host_device_pointer)(CUdeviceptr *ptr, void *p, unsigned int flags);
	CUresult (*module_load)(void **module, const void *image);
	CUresult (*module_unload)(void *module);
	CUresult (*module_function)(void **function, void *module, const char *name);
	CUresult (*launch)(void *function, unsigned int blocks_x, unsigned int blocks_y,
			   unsigned int blocks_z, unsigned int threads_x, unsigned int threads_y,
			   unsigned int threads_z, unsigned int shared, void *stream,
			   void **arguments, void **extra);
	CUresult (*stream_wait)(void *stream, CUdeviceptr addr, uint64_t value, unsigned int flags);
	CUresult (*stream_write)(void *stream, CUdeviceptr addr, uint64_t value,
				 unsigned int flags);
};

/* Smaller allocations of cuMemAlloc() share blocks of this size. */
#define CUDA_BLOCK	(2ULL << 20)

/* NULL: the process has not loaded libcuda, or libcuda lacks a required function. */
const struct cuda_ipc *ipc_cuda_api(void);
/* Whether there is such: 0, or -ENODEV with text. After 0, ipc_cuda_api() is not NULL. */
int ipc_cuda_ready(void);
/* Returns the id of the current context in *context. 0, or -ENODEV with text. */
int ipc_cuda_context(uint64_t *context);
int ipc_cuda_device(int *device);	/* the current context's device: 0, or -ENODEV with text */
/* Stores the address and CUDA's buffer id of opened memory in the mapping. Returns 0. */
int ipc_cuda_opened(struct ipc_mapping *m, CUdeviceptr ptr);
int ipc_cuda_in_the_way(void);	/* -EADDRINUSE with text */
/* Whether the address still has the buffer id that it had when it was opened. */
bool ipc_cuda_still(const struct ipc_mapping *m);
/*
 * Gives the device `first` access to memory, then every other device that can reach it. give() is
 * called once for each device. Returns the bits of the devices with access, for
 * ipc_cuda_vmm_reached(). *r: the error for `first`.
 */
typedef CUresult (*ipc_cuda_give)(const struct cuda_ipc *cuda, const struct cuda_access *access,
				  void *memory);
uint64_t ipc_cuda_give_access(int first, ipc_cuda_give give, void *memory, CUresult *r);
uint64_t ipc_cuda_device_bit(int device);	/* 0: not among the first 64 */
/* Whether the device may access an opened mapping of cuMemCreate() or of a pool. */
bool ipc_cuda_vmm_reached(const struct ipc_mapping *m, int device);

/*
 * cuda_imports.c. Caller holds pools_lock. Returns the import of the exporter's pool `number`, with
 * one more user. If the pool is not imported yet, imports it by the descriptor. Returns an error of
 * cuMemPoolImportFromShareableHandle(), or CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult ipc_cuda_pool_get(struct ipc *ipc, struct ipc_exporter *exporter, uint64_t number, int fd,
			   struct ipc_pool **pool);
/* Caller holds pools_lock. Removes one user. */
void ipc_cuda_pool_put(struct ipc *ipc, struct ipc_pool *pool);
