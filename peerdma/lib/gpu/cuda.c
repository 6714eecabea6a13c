// SPDX-License-Identifier: MIT
/*
 * cuda.c - queries CUDA, by the libcuda.so.1 that the process has loaded.
 *
 * The library is not linked. A search for libcuda takes microseconds, so it is repeated only when
 * the dynamic loader has loaded something since the last search. Names, numbers and types are those
 * of the CUDA driver API, and have not changed since CUDA 11.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/component.h"
#include "base/variables.h"
#include "internal.h"

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

enum {	/* CUpointer_attribute */
	ATTRIBUTE_CONTEXT = 1,
	ATTRIBUTE_MEMORY_TYPE = 2,
	ATTRIBUTE_SYNC_MEMOPS = 6,
	ATTRIBUTE_BUFFER_ID = 7,
	ATTRIBUTE_IS_MANAGED = 8,
	ATTRIBUTE_DEVICE_ORDINAL = 9,
	ATTRIBUTE_RANGE_START_ADDR = 11,
	ATTRIBUTE_RANGE_SIZE = 12,
	ATTRIBUTE_RDMA_CAPABLE = 15,
	ATTRIBUTE_MEMPOOL_HANDLE = 17,
	ATTRIBUTE_MAPPING_SIZE = 18,
	ATTRIBUTE_MAPPING_BASE_ADDR = 19,
};

enum {	/* CUdevice_attribute */
	DEVICE_FLUSH_WRITES_OPTIONS = 117,
	DEVICE_WRITES_ORDERING = 118,
};

#define CAPTURE_RELAXED		2	/* CU_STREAM_CAPTURE_MODE_RELAXED */
#define HANDLE_DMA_BUF		1	/* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
#define FLUSH_FROM_HOST		1	/* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST */
#define FLUSH_CURRENT_CONTEXT	0	/* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX */

enum {	/* CUmemorytype */
	MEMORYTYPE_HOST = 1,
	MEMORYTYPE_DEVICE = 2,
};

#define PCI_SIZE sizeof(((struct peerdma_memory *)0)->pci)

struct api {
	CUresult (*pointer_get_attributes)(unsigned int n, int *attributes, void **data,
					   CUdeviceptr ptr);
	CUresult (*pointer_set_attribute)(const void *value, int attribute, CUdeviceptr ptr);
	CUresult (*pointer_get_attribute)(void *data, int attribute, CUdeviceptr ptr);
	CUresult (*copy)(CUdeviceptr to, CUdeviceptr from, size_t length);
	CUresult (*device_get)(int *device, int ordinal);
	CUresult (*device_get_pci_bus_id)(char *id, int length, int device);
	/*
	 * The one query that does not crash while another thread frees the allocation
	 * (allocations.c). May be NULL.
	 */
	CUresult (*get_range)(CUdeviceptr *base, size_t *size, CUdeviceptr ptr);
	/* Since CUDA 11.7; NULL before. */
	CUresult (*get_handle)(void *handle, CUdeviceptr ptr, size_t size, int type,
			       unsigned long long flags);
	/* Since CUDA 11.3; NULL before. */
	CUresult (*flush_writes)(int target, int scope);
	CUresult (*ctx_get_device)(int *device);
	CUresult (*ctx_get_current)(void **context);
	CUresult (*ctx_set_current)(void *context);
	CUresult (*device_get_attribute)(int *value, int attribute, int device);
	CUresult (*capture_mode)(int *mode);	/* since CUDA 10.1; NULL before */
	CUresult (*driver_version)(int *version);	/* needs no cuInit(); may be NULL */
};

enum policy { POLICY_NOTICE, POLICY_LOAD, POLICY_OFF };

/*
 * There is no lock, because a child could inherit it locked, and a library that is being loaded may
 * query. Two threads may search at once; the first publishes its result.
 */
static _Atomic(const struct api *) published;	/* never changes once it is set */
/* number of libraries loaded so far, at the last search */
static _Atomic unsigned long long searched_at;
static _Atomic uint64_t initialised_in; /* process_id() of a process that was seen to use CUDA */

/* The environment is read once. */
static enum policy policy(void)
{
	static _Atomic int how = -1;
	int p = atomic_load(&how);

	if (p < 0) {
		p = variable_is(VARIABLE_CUDA, "load") ? POLICY_LOAD :
		    variable_is(VARIABLE_CUDA, "off") ? POLICY_OFF : POLICY_NOTICE;
		atomic_store(&how, p);
	}
	return p;
}

/* Keeps the library loaded, because its functions may be called at any time from now on. */
static const struct api *search(int flags)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | flags);
	const struct api *first = NULL;
	struct api *api = library ? malloc(sizeof(*api)) : NULL;

	if (api) {
		api->pointer_get_attributes = dlsym(library, "cuPointerGetAttributes");
		api->pointer_set_attribute = dlsym(library, "cuPointerSetAttribute");
		api->pointer_get_attribute = dlsym(library, "cuPointerGetAttribute");
		api->copy = dlsym(library, "cuMemcpy");
		api->get_range = dlsym(library, "cuMemGetAddressRange_v2");
		api->get_handle = dlsym(library, "cuMemGetHandleForAddressRange");
		api->device_get = dlsym(library, "cuDeviceGet");
		api->device_get_pci_bus_id = dlsym(library, "cuDeviceGetPCIBusId");
		api->flush_writes = dlsym(library, "cuFlushGPUDirectRDMAWrites");
		api->ctx_get_device = dlsym(library, "cuCtxGetDevice");
		api->ctx_get_current = dlsym(library, "cuCtxGetCurrent");
		api->ctx_set_current = dlsym(library, "cuCtxSetCurrent");
		api->device_get_attribute = dlsym(library, "cuDeviceGetAttribute");
		api->capture_mode = dlsym(library, "cuThreadExchangeStreamCaptureMode");
		api->driver_version = dlsym(library, "cuDriverGetVersion");
		if (api->pointer_get_attributes && api->pointer_set_attribute && api->device_get &&
		    api->device_get_pci_bus_id &&
		    atomic_compare_exchange_strong(&published, &first, api))
			return api;
	}
	free(api);
	if (library)
		dlclose(library);
	return first;
}

/* NULL: the process has no libcuda, or PEERDMA_CUDA forbids its use. */
static const struct api *cuda_find(void)
{
	const struct api *api = atomic_load_explicit(&published, memory_order_acquire);
	uint64_t count;

	if (api)
		return api;
	if (policy() == POLICY_OFF)
		return NULL;
	count = loader_loads();
	if (count && count == atomic_load(&searched_at))
		return NULL;
	api = search(policy() == POLICY_LOAD ? 0 : RTLD_NOLOAD);
	if (!api)
		atomic_store(&searched_at, count);
	return api;
}

int cuda_load(void)
{
	const char *why;

	if (cuda_find())
		return 0;
	dlerror();
	if (search(0))
		return 0;
	why = dlerror();
	return fail(-ENODEV, "peerdma_open: libcuda.so.1: cannot load (%s); install the GPU's driver, or add its folder to LD_LIBRARY_PATH",
		    why ? why : "a function that libpeerdma needs is missing");
}

/*
 * CUDA's state does not survive a fork. If a process was seen to use CUDA, its children must not
 * call it. If none was seen, CUDA itself returns "not initialised", also in a child of a process
 * whose use was not seen.
 */
static const struct api *cuda_usable(void)
{
	const struct api *api = cuda_find();
	uint64_t seen = atomic_load_explicit(&initialised_in, memory_order_relaxed);

	return !seen || seen == process_id() ? api : NULL;
}

/* Why cuda_find() found nothing. */
static int not_found(void)
{
	void *library;

	if (policy() == POLICY_OFF)
		return fail(-ENODEV, "PEERDMA_CUDA=off keeps libpeerdma from using CUDA");
	library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	if (!library)
		return fail(-ENODEV, "%s", policy() == POLICY_LOAD ?
			    "libcuda.so.1 cannot be loaded; install the GPU's driver, or add its folder to LD_LIBRARY_PATH" :
			    "this process has not loaded libcuda.so.1");
	dlclose(library);
	return fail(-ENODEV, "a function that libpeerdma needs is missing in libcuda.so.1");
}

int cuda_ready(void)
{
	if (cuda_usable())
		return 0;
	return cuda_find() ? fail(-ENODEV, "this process was forked by one that used CUDA, and cannot use it") :
			     not_found();
}

static void saw_initialised(void)
{
	if (!atomic_load_explicit(&initialised_in, memory_order_relaxed))
		atomic_store(&initialised_in, process_id());
}

static enum cuda_answer failure(CUresult r, int *error)
{
	switch (r) {
	case CUDA_ERROR_NOT_INITIALIZED:
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_NO_DEVICE:
		return CUDA_ABSENT;
	case CUDA_ERROR_INVALID_VALUE:		/* CUDA does not know the address */
	case CUDA_ERROR_INVALID_CONTEXT:	/* the same, if the process never had a context */
		saw_initialised();
		return CUDA_UNKNOWN;
	default:
		*error = r;
		return CUDA_FAILED;
	}
}

/* Returns the PCI address in the format of sysfs: "0000:03:00.0". */
static void query_pci(const struct api *cuda, int ordinal, char pci[PCI_SIZE])
{
	int device;

	if (cuda->device_get(&device, ordinal) ||
	    cuda->device_get_pci_bus_id(pci, PCI_SIZE, device))
		pci[0] = 0;
	pci[PCI_SIZE - 1] = 0;
	for (char *p = pci; *p; p++) {
		if (*p >= 'A' && *p <= 'F')
			*p += 'a' - 'A';
	}
}

/*
 * Caches PCI addresses: CUDA's ordinals do not change within a process, and this query takes longer
 * than all others together.
 */
static void device_pci(const struct api *cuda, int ordinal, char pci[PCI_SIZE])
{
	static char known[64][PCI_SIZE];
	static _Atomic unsigned char state[64];	/* 0: not queried, 1: being written, 2: known */
	unsigned char expected = 0;

	if (ordinal < 0 || ordinal >= 64) {
		query_pci(cuda, ordinal, pci);
		return;
	}
	if (atomic_load_explicit(&state[ordinal], memory_order_acquire) == 2) {
		memcpy(pci, known[ordinal], PCI_SIZE);
		return;
	}
	query_pci(cuda, ordinal, pci);
	if (pci[0] && atomic_compare_exchange_strong(&state[ordinal], &expected, 1)) {
		memcpy(known[ordinal], pci, PCI_SIZE);
		atomic_store_explicit(&state[ordinal], 2, memory_order_release);
	}
}

/*
 * For memory of cuMemMap(), CUDA's range is the whole reservation. This returns the mapping of one
 * cuMemCreate(). Drivers before CUDA 12 do not support this and fail the whole call. The buffer id
 * shows that both calls saw the same allocation.
 */
static void narrow_to_mapping(const struct api *cuda, CUdeviceptr ptr, struct peerdma_memory *out)
{
	unsigned long long id = 0;
	CUdeviceptr base = 0;
	size_t size = 0;
	int attributes[] = { ATTRIBUTE_BUFFER_ID, ATTRIBUTE_MAPPING_BASE_ADDR,
			     ATTRIBUTE_MAPPING_SIZE };
	void *data[] = { &id, &base, &size };

	if (!cuda->pointer_get_attributes(3, attributes, data, ptr) && size &&
	    id == out->buffer_id && ptr - base < size) {
		out->base = base;
		out->length = size;
	}
}

/*
 * For memory that is not from cuMemAlloc(). A driver that does not know the attribute has no such
 * memory.
 */
static bool rdma_capable(const struct api *cuda, CUdeviceptr ptr)
{
	unsigned int capable = 0;
	int attribute = ATTRIBUTE_RDMA_CAPABLE;
	void *data = &capable;

	return !cuda->pointer_get_attributes(1, &attribute, &data, ptr) && capable & 1;
}

static bool from_pool(const struct api *cuda, CUdeviceptr ptr)
{
	void *pool = NULL;
	int attribute = ATTRIBUTE_MEMPOOL_HANDLE;
	void *data = &pool;

	return !cuda->pointer_get_attributes(1, &attribute, &data, ptr) && pool;
}

enum cuda_answer cuda_query(const void *ptr, struct peerdma_memory *out, int *error)
{
	CUdeviceptr p = (uintptr_t)ptr, start = 0;
	unsigned int type = 0, managed = 0;
	void *context = NULL;
	unsigned long long id = 0;
	size_t size = 0;
	int ordinal = -1;
	int attributes[] = {
		ATTRIBUTE_MEMORY_TYPE,	  ATTRIBUTE_IS_MANAGED,	      ATTRIBUTE_BUFFER_ID,
		ATTRIBUTE_DEVICE_ORDINAL, ATTRIBUTE_RANGE_START_ADDR, ATTRIBUTE_RANGE_SIZE,
		ATTRIBUTE_CONTEXT,
	};
	void *data[] = { &type, &managed, &id, &ordinal, &start, &size, &context };
	const struct api *cuda = cuda_usable();
	CUresult r;

	if (!cuda)
		return CUDA_ABSENT;
	r = cuda->pointer_get_attributes(sizeof(attributes) / sizeof(attributes[0]), attributes,
					 data, p);
	if (r)
		return failure(r, error);
	saw_initialised();
	if (!type)
		return CUDA_UNKNOWN;

	out->kind = managed & 1 ? PEERDMA_KIND_MANAGED :
		    type == MEMORYTYPE_DEVICE ? PEERDMA_KIND_DEVICE : PEERDMA_KIND_HOST;
	out->flags = PEERDMA_MEMORY_CUDA;
	out->base = start;
	out->length = size;
	out->buffer_id = id;
	if (out->kind == PEERDMA_KIND_HOST) {
		out->flags |= PEERDMA_MEMORY_PINNABLE;
		return CUDA_KNOWN;
	}

	out->device = ordinal;
	device_pci(cuda, ordinal, out->pci);
	/* memory of cuMemAlloc() has a context */
	if (out->kind == PEERDMA_KIND_DEVICE && !context) {
		if (from_pool(cuda, p)) {
			out->flags |= PEERDMA_MEMORY_POOL;
		} else {
			out->flags |= PEERDMA_MEMORY_VMM;
			narrow_to_mapping(cuda, p, out);
		}
		if (rdma_capable(cuda, p))
			out->flags |= PEERDMA_MEMORY_PINNABLE;
	} else if (out->kind == PEERDMA_KIND_DEVICE) {
		out->flags |= PEERDMA_MEMORY_PINNABLE;
	}
	return CUDA_KNOWN;
}

bool cuda_there(void)
{
	return cuda_usable();
}

int cuda_capture_leave(void)
{
	const struct api *cuda = atomic_load_explicit(&published, memory_order_acquire) ?
		cuda_usable() : NULL;
	int mode = CAPTURE_RELAXED;

	return cuda && cuda->capture_mode && !cuda->capture_mode(&mode) ? mode : CAPTURE_RELAXED;
}

void cuda_capture_return(int mode)
{
	if (mode != CAPTURE_RELAXED)
		atomic_load_explicit(&published, memory_order_acquire)->capture_mode(&mode);
}

enum cuda_answer cuda_set_sync_memops(const void *ptr, int *error)
{
	const struct api *cuda = cuda_usable();
	unsigned int on = 1;
	int capture;
	CUresult r;

	if (!cuda)
		return CUDA_ABSENT;
	capture = cuda_capture_leave();
	r = cuda->pointer_set_attribute(&on, ATTRIBUTE_SYNC_MEMOPS, (uintptr_t)ptr);
	cuda_capture_return(capture);
	if (r == CUDA_ERROR_NOT_SUPPORTED)	/* memory of cuMemCreate() lacks this attribute */
		return CUDA_ABSENT;
	return r ? failure(r, error) : CUDA_KNOWN;
}

bool cuda_has_id(uint64_t ptr, uint64_t id)
{
	const struct api *cuda = cuda_usable();
	unsigned long long now = 0;

	return cuda && cuda->pointer_get_attribute &&
	       !cuda->pointer_get_attribute(&now, ATTRIBUTE_BUFFER_ID, ptr) && now == id;
}

enum cuda_answer cuda_range(uint64_t ptr, uint64_t *base, uint64_t *size)
{
	const struct api *cuda = cuda_usable();
	CUdeviceptr start = 0;
	size_t bytes = 0;
	CUresult r;

	if (!cuda || !cuda->get_range)
		return CUDA_ABSENT;
	r = cuda->get_range(&start, &bytes, ptr);
	*base = start;
	*size = bytes;
	return r == CUDA_ERROR_NOT_FOUND || r == CUDA_ERROR_INVALID_VALUE ? CUDA_UNKNOWN :
	       r ? CUDA_FAILED : CUDA_KNOWN;
}

enum cuda_answer cuda_copy(void *to, const void *from, uint64_t length, int *error)
{
	const struct api *cuda = cuda_usable();
	int capture;

	if (!cuda || !cuda->copy)
		return CUDA_ABSENT;
	capture = cuda_capture_leave();
	*error = cuda->copy((uintptr_t)to, (uintptr_t)from, length);
	cuda_capture_return(capture);
	return *error ? CUDA_FAILED : CUDA_KNOWN;
}

bool cuda_exports_dmabufs(void)
{
	const struct api *cuda = cuda_usable();

	/*
	 * Without cuPointerGetAttribute(), the library could not detect a free of the exported
	 * memory.
	 */
	return cuda && cuda->get_handle && cuda->pointer_get_attribute;
}

enum cuda_answer cuda_dmabuf(uint64_t ptr, uint64_t length, int *fd, int *error)
{
	const struct api *cuda;
	int capture;

	if (!cuda_exports_dmabufs())
		return CUDA_ABSENT;
	cuda = cuda_usable();
	capture = cuda_capture_leave();
	*error = cuda->get_handle(fd, ptr, length, HANDLE_DMA_BUF, 0);
	cuda_capture_return(capture);
	return *error ? CUDA_FAILED : CUDA_KNOWN;
}

void *cuda_context(void)
{
	const struct api *cuda = cuda_usable();
	void *context = NULL;

	if (!cuda || !cuda->ctx_get_current || cuda->ctx_get_current(&context))
		return NULL;
	return context;
}

void cuda_set_context(void *context)
{
	const struct api *cuda = cuda_usable();

	if (cuda && cuda->ctx_set_current)
		cuda->ctx_set_current(context);
}

enum cuda_answer cuda_flush_writes(int scope, int *error)
{
	const struct api *cuda = cuda_usable();
	int device, options = 0, ordering = 0, capture;
	CUresult r;

	if (!cuda)
		return CUDA_ABSENT;
	if (!cuda->flush_writes || !cuda->ctx_get_device || !cuda->device_get_attribute)
		return CUDA_UNKNOWN;
	r = cuda->ctx_get_device(&device);
	if (r == CUDA_ERROR_INVALID_CONTEXT)
		return CUDA_ABSENT;
	if (r)
		return failure(r, error);
	/* A driver that does not know an attribute lacks the feature. */
	if (!cuda->device_get_attribute(&ordering, DEVICE_WRITES_ORDERING, device) &&
	    ordering >= scope)
		return CUDA_KNOWN;
	if (cuda->device_get_attribute(&options, DEVICE_FLUSH_WRITES_OPTIONS, device) ||
	    !(options & FLUSH_FROM_HOST))
		return CUDA_UNKNOWN;
	capture = cuda_capture_leave();
	r = cuda->flush_writes(FLUSH_CURRENT_CONTEXT, scope);
	cuda_capture_return(capture);
	*error = r;
	return !r ? CUDA_KNOWN : r == CUDA_ERROR_NOT_SUPPORTED ? CUDA_UNKNOWN : CUDA_FAILED;
}

/* Any address will do: CUDA knows it, or knows that it does not, once it is initialized. */
static bool initialised(void)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	int error = 0;

	return cuda_query(&m, &m, &error) != CUDA_ABSENT;
}

void cuda_describe(struct components *to)
{
	struct peerdma_component c = component(PEERDMA_COMPONENT_GPU, "cuda");
	const struct api *cuda = cuda_find();
	int version;

	if (cuda) {
		component_file(&c, (const void *)(uintptr_t)cuda->pointer_get_attributes);
		if (cuda->driver_version && !cuda->driver_version(&version))
			snprintf(c.version, sizeof(c.version), "CUDA %d.%d", version / 1000,
				 version % 1000 / 10);
	}
	if (cuda_ready())
		component_off(&c, peerdma_last_error());
	else
		component_why(&c, "%s", initialised() ?
			      "the program has initialized CUDA; GPU memory is recognized" :
			      "GPU memory is recognized once the program has called cuInit() and CUDA has found a GPU");
	components_add(to, &c);
}
