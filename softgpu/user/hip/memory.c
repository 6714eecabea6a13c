// SPDX-License-Identifier: MIT
/*
 * memory.c - memory of devices and of the host.
 *
 * HSA keeps one pointer for each allocation. Here it points into `marks': the place says of which
 * kind the memory is, on which device it was made, and with which flags.
 */
#include <stddef.h>

#include "hip_int.h"

/* The flags that programs may set; the place of a mark has a bit for each. */
static const unsigned int known_flags[] = {
	0x1, 0x2, 0x4, 0x8, 0x10000000, 0x20000000, 0x40000000, 0x80000000,
};

#define FLAG_SETS ((size_t)1 << sizeof(known_flags) / sizeof(known_flags[0]))

static char marks[HIP_KINDS * HIP_DEVICES_MAX * FLAG_SETS];

static char *mark_of(enum hip_kind kind, int device, unsigned int flags)
{
	size_t set = 0;

	for (size_t i = 0; i < sizeof(known_flags) / sizeof(known_flags[0]); i++)
		set |= (size_t)!!(flags & known_flags[i]) << i;
	return &marks[((size_t)kind * HIP_DEVICES_MAX + (size_t)device) * FLAG_SETS + set];
}

/* False: the program itself has set the pointer, or made the memory by HSA. */
static bool read_mark(const char *mark, struct hip_memory *m)
{
	size_t at = (uintptr_t)mark - (uintptr_t)marks;

	if (at >= sizeof(marks))
		return false;
	for (size_t i = 0; i < sizeof(known_flags) / sizeof(known_flags[0]); i++)
		m->flags |= at >> i & 1 ? known_flags[i] : 0;
	m->device = (int)(at / FLAG_SETS % HIP_DEVICES_MAX);
	m->kind = (enum hip_kind)(at / FLAG_SETS / HIP_DEVICES_MAX);
	return true;
}

void hip_mark(void *ptr, enum hip_kind kind, unsigned int flags)
{
	hsa_amd_pointer_info_set_userdata(ptr, mark_of(kind, hip_current(), flags));
}

static bool has_unknown_flags(unsigned int flags)
{
	for (size_t i = 0; i < sizeof(known_flags) / sizeof(known_flags[0]); i++)
		flags &= ~known_flags[i];
	return flags;
}

static int device_of(hsa_agent_t owner)
{
	for (int i = 0; i < hip_count; i++) {
		if (hip_devices[i].agent.handle == owner.handle)
			return i;
	}
	return -1;
}

struct hip_memory hip_memory_at(const void *ptr)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	struct hip_memory m = { .device = hipInvalidDeviceId };
	int owner;

	if (hsa_amd_pointer_info(ptr, &info, NULL, NULL, NULL) ||
	    info.type == HSA_EXT_POINTER_TYPE_UNKNOWN ||
	    info.type == HSA_EXT_POINTER_TYPE_RESERVED_ADDR)
		return m;
	owner = device_of(info.agentOwner);
	m.known = true;
	m.registered = info.type == HSA_EXT_POINTER_TYPE_LOCKED;
	m.ipc = info.type == HSA_EXT_POINTER_TYPE_IPC;
	m.mapped = info.type == HSA_EXT_POINTER_TYPE_HSA_VMEM;
	m.base = info.agentBaseAddress;
	m.size = info.sizeInBytes;
	if (!read_mark(info.userData, &m) || owner >= 0) {
		m.kind = owner >= 0 ? HIP_DEVICE_MEMORY : HIP_HOST_MEMORY;
		m.device = owner >= 0 ? owner : 0;
	}
	return m;
}

/* ---- allocations ---- */

static hipError_t allocate(void **ptr, size_t size, enum hip_kind kind, unsigned int flags)
{
	hipError_t error = hip_enter();
	hsa_amd_memory_pool_t pool;

	if (error)
		return error;
	if (!ptr)
		return hipErrorInvalidValue;
	*ptr = NULL;
	if (has_unknown_flags(flags))
		return hipErrorInvalidValue;
	if (!size)
		return hipSuccess;
	pool = kind == HIP_DEVICE_MEMORY ? hip_devices[hip_current()].pool : hip_host_pool;
	error = hip_of_status(hsa_amd_memory_pool_allocate(pool, size, 0, ptr));
	if (!error)
		hip_mark(*ptr, kind, flags);
	return error;
}

HIP_EXPORT hipError_t hipMalloc(void **ptr, size_t size)
{
	return hip_done(allocate(ptr, size, HIP_DEVICE_MEMORY, 0));
}

HIP_EXPORT hipError_t hipExtMallocWithFlags(void **ptr, size_t size, unsigned int flags)
{
	if (flags > hipDeviceMallocContiguous)
		return hip_done(hipErrorInvalidValue);
	return hip_done(allocate(ptr, size, HIP_DEVICE_MEMORY, flags));
}

#define PITCH ((size_t)256)

HIP_EXPORT hipError_t hipMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height)
{
	size_t row = (width + PITCH - 1) & ~(PITCH - 1);

	if (!pitch || row < width || (height && row > SIZE_MAX / height))
		return hip_done(hipErrorInvalidValue);
	*pitch = row;
	return hipMalloc(ptr, row * height);
}

HIP_EXPORT hipError_t hipMemAllocPitch(hipDeviceptr_t *ptr, size_t *pitch, size_t width,
				       size_t height, unsigned int element)
{
	if (element != 4 && element != 8 && element != 16)
		return hip_done(hipErrorInvalidValue);
	return hipMallocPitch(ptr, pitch, width, height);
}

/* Allocates from the CPU's pool, whose memory has the same address on all devices. */
HIP_EXPORT hipError_t hipMallocManaged(void **ptr, size_t size, unsigned int flags)
{
	if (!size || (flags != hipMemAttachGlobal && flags != hipMemAttachHost))
		return hip_done(hipErrorInvalidValue);
	return hip_done(allocate(ptr, size, HIP_MANAGED_MEMORY, flags));
}

/* The flags have no effect on a software GPU. */
HIP_EXPORT hipError_t hipHostMalloc(void **ptr, size_t size, unsigned int flags)
{
	return hip_done(allocate(ptr, size, HIP_HOST_MEMORY, flags));
}

HIP_EXPORT hipError_t hipHostAlloc(void **ptr, size_t size, unsigned int flags)
{
	return hipHostMalloc(ptr, size, flags);
}

HIP_EXPORT hipError_t hipExtHostAlloc(void **ptr, size_t size, unsigned int flags)
{
	return hipHostMalloc(ptr, size, flags);
}

HIP_EXPORT hipError_t hipMallocHost(void **ptr, size_t size)
{
	return hipHostMalloc(ptr, size, hipHostMallocDefault);
}

HIP_EXPORT hipError_t hipMemAllocHost(void **ptr, size_t size)
{
	return hipHostMalloc(ptr, size, hipHostMallocDefault);
}

/* Queued work may use the memory. */
hipError_t hip_free(void *ptr)
{
	struct hip_memory m = hip_memory_at(ptr);

	if (m.known)
		hip_work_wait_device(m.kind == HIP_DEVICE_MEMORY ? m.device : -1);
	return hip_of_status(hsa_amd_memory_pool_free(ptr));
}

HIP_EXPORT hipError_t hipFree(void *ptr)
{
	hipError_t error = hip_enter();

	return hip_done(error ? error : hip_free(ptr));
}

HIP_EXPORT hipError_t hipHostFree(void *ptr)
{
	return hipFree(ptr);
}

HIP_EXPORT hipError_t hipFreeHost(void *ptr)
{
	return hipFree(ptr);
}

/* ---- in the order of a stream ---- */

HIP_EXPORT hipError_t hipMallocAsync(void **ptr, size_t size, hipStream_t stream)
{
	hipError_t error = hip_enter();
	struct ihipStream_t *s;

	if (error)
		return hip_done(error);
	s = hip_stream_get(stream);
	if (!s)
		return hip_done(hipErrorInvalidHandle);
	hip_stream_put(s);
	return hipMalloc(ptr, size);
}

static hipError_t run_free(struct hip_work *work)
{
	return hip_of_status(hsa_amd_memory_pool_free(work->ptr));
}

HIP_EXPORT hipError_t hipFreeAsync(void *ptr, hipStream_t stream)
{
	struct hip_work work = { .run = run_free };
	hipError_t error = hip_enter();
	struct ihipStream_t *s;

	if (error || !ptr)
		return hip_done(error);
	if (hip_memory_at(ptr).base != ptr)
		return hip_done(hipErrorInvalidValue);
	s = hip_stream_get(stream);
	if (!s)
		return hip_done(hipErrorInvalidHandle);
	work.ptr = ptr;
	error = hip_work_queue(s, &work);
	hip_stream_put(s);
	return hip_done(error);
}

/* ---- memory of the program ---- */

#define REGISTER_FLAGS (hipHostRegisterPortable | hipHostRegisterMapped |			\
			hipHostRegisterIoMemory | hipHostRegisterReadOnly)

HIP_EXPORT hipError_t hipHostRegister(void *ptr, size_t size, unsigned int flags)
{
	hipError_t error = hip_enter();
	void *device_ptr;

	if (!error && (!ptr || !size || flags & ~(unsigned int)REGISTER_FLAGS))
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	if (hip_memory_at(ptr).known)
		return hip_done(hipErrorHostMemoryAlreadyRegistered);
	error = hip_of_status(hsa_amd_memory_lock(ptr, size, NULL, 0, &device_ptr));
	if (!error)
		hip_mark(ptr, HIP_HOST_MEMORY, flags);
	/* There is no memory that could be locked. */
	return hip_done(error == hipErrorOutOfMemory ? hipErrorInvalidValue : error);
}

HIP_EXPORT hipError_t hipHostUnregister(void *ptr)
{
	hipError_t error = hip_enter();
	struct hip_memory m;

	if (!error && !ptr)
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	m = hip_memory_at(ptr);
	if (!m.registered || m.base != ptr)
		return hip_done(hipErrorHostMemoryNotRegistered);
	hip_work_wait_device(-1);
	return hip_done(hip_of_status(hsa_amd_memory_unlock(ptr)));
}

/* GPUs use host memory at its host address. */
HIP_EXPORT hipError_t hipHostGetDevicePointer(void **device_ptr, void *host_ptr, unsigned int flags)
{
	hipError_t error = hip_enter();

	if (!error && (!device_ptr || flags || !host_ptr || !hip_memory_at(host_ptr).known))
		error = hipErrorInvalidValue;
	if (!error)
		*device_ptr = host_ptr;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipHostGetFlags(unsigned int *flags, void *ptr)
{
	struct hip_memory m = { .known = false };
	hipError_t error = hip_enter();

	if (!error && ptr)
		m = hip_memory_at(ptr);
	if (!error && (!flags || !m.known || m.kind != HIP_HOST_MEMORY))
		error = hipErrorInvalidValue;
	if (!error)
		*flags = m.flags;
	return hip_done(error);
}

/* ---- queries ---- */

HIP_EXPORT hipError_t hipMemGetInfo(size_t *unused, size_t *total)
{
	hsa_agent_info_t what = (hsa_agent_info_t)HSA_AMD_AGENT_INFO_MEMORY_AVAIL;
	hipError_t error = hip_enter();
	uint64_t bytes = 0;

	if (!error && unused)
		error = hip_of_status(
			hsa_agent_get_info(hip_devices[hip_current()].agent, what, &bytes));
	if (error)
		return hip_done(error);
	if (unused)
		*unused = bytes;
	if (total)
		*total = hip_devices[hip_current()].memory;
	return hipSuccess;
}

HIP_EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t ptr)
{
	struct hip_memory m = { .known = false };
	hipError_t error = hip_enter();

	if (error)
		return hip_done(error);
	if (ptr)
		m = hip_memory_at(ptr);
	if (!m.known)
		return hip_done(hipErrorNotFound);
	if (base)
		*base = m.base;
	if (size)
		*size = m.size;
	return hipSuccess;
}

HIP_EXPORT hipError_t hipMemPtrGetInfo(void *ptr, size_t *size)
{
	if (!ptr || !size)
		return hip_done(hipErrorInvalidValue);
	if (hipMemGetAddressRange(NULL, size, ptr))
		return hip_done(hipErrorInvalidValue);
	return hipSuccess;
}

HIP_EXPORT hipError_t hipMemGetHandleForAddressRange(void *handle, hipDeviceptr_t ptr, size_t size,
						     hipMemRangeHandleType type,
						     unsigned long long flags)
{
	hipError_t error = hip_enter();

	if (!error && (!handle || !ptr || !size || type != hipMemRangeHandleTypeDmaBufFd ||
		       flags & ~(unsigned long long)hipMemRangeFlagDmaBufMappingTypePcie))
		error = hipErrorInvalidValue;
	if (!error)
		error = hip_of_status(softgpu_hsa_export_range(ptr, size, handle));
	return hip_done(error);
}
