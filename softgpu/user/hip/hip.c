// SPDX-License-Identifier: MIT
/* hip.c - softgpu's libamdhip64: HIP's devices and memory. Like AMD's, it is built on HSA. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "hip/hip_runtime_api.h"
#include "hsa/hsa_ext_amd.h"

#define SGU_EXPORT __attribute__((visibility("default")))
#define DEVICES_MAX 16

struct device {
	hsa_amd_memory_pool_t pool;
	uint32_t domain, bdf, node;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[DEVICES_MAX];
static int count;
static hsa_amd_memory_pool_t host_pool;
/* Once it is set, the variables above do not change, and no call takes the lock. */
static atomic_bool started;
static _Thread_local int current;

static hsa_status_t take_pool(hsa_amd_memory_pool_t pool, void *data)
{
	*(hsa_amd_memory_pool_t *)data = pool;
	return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t take_agent(hsa_agent_t agent, void *data)
{
	struct device *d = &devices[count];
	hsa_device_type_t type;

	(void)data;
	if (hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type))
		return HSA_STATUS_SUCCESS;
	if (type == HSA_DEVICE_TYPE_CPU)
		hsa_amd_agent_iterate_memory_pools(agent, take_pool, &host_pool);
	if (type != HSA_DEVICE_TYPE_GPU || count == DEVICES_MAX)
		return HSA_STATUS_SUCCESS;
	hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_BDFID, &d->bdf);
	hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DOMAIN, &d->domain);
	hsa_agent_get_info(agent, HSA_AGENT_INFO_NODE, &d->node);
	if (hsa_amd_agent_iterate_memory_pools(agent, take_pool, &d->pool) == HSA_STATUS_INFO_BREAK)
		count++;
	return HSA_STATUS_SUCCESS;
}

/*
 * Runs in a forked child. A thread that does not exist in the child may have been starting HIP and
 * held the lock. HSA then refuses to start in the child, so the lock can be initialized again.
 */
static void forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static bool fork_handler_ok;
static void __attribute__((constructor)) begin(void)
{
	fork_handler_ok = !pthread_atfork(NULL, NULL, forked);
}

/* Call first in every function: HIP initializes itself. */
static hipError_t enter(void)
{
	hipError_t error = hipSuccess;

	if (!atomic_load_explicit(&started, memory_order_acquire)) {
		pthread_mutex_lock(&lock);
		if (!started) {
			if (!fork_handler_ok || hsa_init())
				error = hipErrorNoDevice;
			else
				hsa_iterate_agents(take_agent, NULL);
			atomic_store_explicit(&started, !error, memory_order_release);
		}
		pthread_mutex_unlock(&lock);
	}
	/* A GPU whose memory is not completely in its BAR does not count. */
	return error || count ? error : hipErrorNoDevice;
}

static hipError_t of_status(hsa_status_t status)
{
	switch (status) {
	case HSA_STATUS_SUCCESS:
		return hipSuccess;
	case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
		return hipErrorOutOfMemory;
	case HSA_STATUS_ERROR_NOT_INITIALIZED:
		return hipErrorNotInitialized;
	case HSA_STATUS_ERROR_INVALID_ARGUMENT:
	case HSA_STATUS_ERROR_INVALID_ALLOCATION:
		return hipErrorInvalidValue;
	default:
		return hipErrorUnknown;
	}
}

SGU_EXPORT hipError_t hipInit(unsigned int flags)
{
	return flags ? hipErrorInvalidValue : enter();
}

SGU_EXPORT hipError_t hipGetDeviceCount(int *n)
{
	hipError_t error = enter();

	if (!n)
		return hipErrorInvalidValue;
	*n = error ? 0 : count;
	return error;
}

SGU_EXPORT hipError_t hipSetDevice(int device)
{
	hipError_t error = enter();

	if (error)
		return error;
	if (device < 0 || device >= count)
		return hipErrorInvalidDevice;
	current = device;
	return hipSuccess;
}

SGU_EXPORT hipError_t hipGetDevice(int *device)
{
	hipError_t error = enter();

	if (!device)
		return hipErrorInvalidValue;
	*device = current;
	return error;
}

SGU_EXPORT hipError_t hipDeviceGetPCIBusId(char *id, int length, int device)
{
	hipError_t error = enter();

	if (error)
		return error;
	if (!id || length < 13 || device < 0 || device >= count)
		return hipErrorInvalidValue;
	snprintf(id, (size_t)length, "%04x:%02x:%02x.%x", devices[device].domain & 0xffff,
		 devices[device].bdf >> 8 & 0xff, devices[device].bdf >> 3 & 0x1f,
		 devices[device].bdf & 7);
	return hipSuccess;
}

/* All functions here are synchronous, so there is nothing to wait for. */
SGU_EXPORT hipError_t hipDeviceSynchronize(void)
{
	return enter();
}

SGU_EXPORT hipError_t hipMalloc(void **ptr, size_t size)
{
	hipError_t error = enter();

	if (error)
		return error;
	if (!ptr)
		return hipErrorInvalidValue;
	*ptr = NULL;
	return size ? of_status(hsa_amd_memory_pool_allocate(devices[current].pool, size, 0, ptr)) :
	       hipSuccess;
}

SGU_EXPORT hipError_t hipFree(void *ptr)
{
	hipError_t error = enter();

	return error ? error : of_status(hsa_amd_memory_pool_free(ptr));
}

#define PITCH ((size_t)256)

SGU_EXPORT hipError_t hipMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height)
{
	size_t row = (width + PITCH - 1) & ~(PITCH - 1);

	if (!pitch || row < width || (height && row > SIZE_MAX / height))
		return hipErrorInvalidValue;
	*pitch = row;
	return hipMalloc(ptr, row * height);
}

/* Its address is the user data of managed memory in the CPU's pool. */
static char managed;

static hipError_t alloc_host(void **ptr, size_t size)
{
	hipError_t error = enter();

	if (error)
		return error;
	if (!ptr)
		return hipErrorInvalidValue;
	*ptr = NULL;
	return size ? of_status(hsa_amd_memory_pool_allocate(host_pool, size, 0, ptr)) : hipSuccess;
}

/* Allocates from the CPU's pool, whose memory has the same address on all devices. */
SGU_EXPORT hipError_t hipMallocManaged(void **ptr, size_t size, unsigned int flags)
{
	hipError_t error = hipErrorInvalidValue;

	if (size && (flags == hipMemAttachGlobal || flags == hipMemAttachHost))
		error = alloc_host(ptr, size);
	if (!error)
		hsa_amd_pointer_info_set_userdata(*ptr, &managed);
	return error;
}

/* The flags have no effect on a software GPU. */
SGU_EXPORT hipError_t hipHostMalloc(void **ptr, size_t size, unsigned int flags)
{
	(void)flags;
	return alloc_host(ptr, size);
}

SGU_EXPORT hipError_t hipHostFree(void *ptr)
{
	return hipFree(ptr);
}

static int device_of(hsa_agent_t owner)
{
	uint32_t node = 0;

	hsa_agent_get_info(owner, HSA_AGENT_INFO_NODE, &node);
	for (int i = 0; i < count; i++) {
		if (devices[i].node == node)
			return i;
	}
	return -1;
}

SGU_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	hipError_t error = enter();
	size_t at;

	if (error)
		return error;
	if (!attributes || hsa_amd_pointer_info(ptr, &info, NULL, NULL, NULL))
		return hipErrorInvalidValue;
	*attributes = (hipPointerAttribute_t){ .device = -1 };
	if (info.type == HSA_EXT_POINTER_TYPE_UNKNOWN)
		return hipSuccess;
	at = (size_t)((const char *)ptr - (const char *)info.hostBaseAddress);
	attributes->device = device_of(info.agentOwner);
	attributes->type = attributes->device >= 0 ? hipMemoryTypeDevice :
		info.userData == &managed ? hipMemoryTypeManaged : hipMemoryTypeHost;
	attributes->isManaged = attributes->type == hipMemoryTypeManaged;
	attributes->devicePointer = (char *)info.agentBaseAddress + at;
	attributes->hostPointer = (char *)info.hostBaseAddress + at;
	return hipSuccess;
}

SGU_EXPORT hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind)
{
	hipError_t error = enter();

	if (error)
		return error;
	/* The addresses show the direction of the copy. */
	if ((unsigned int)kind > hipMemcpyDefault)
		return hipErrorInvalidValue;
	return size ? of_status(hsa_memory_copy(dst, src, size)) : hipSuccess;
}

/* Whether the range is within one allocation. True also if `ptr` is in none. */
static bool fits(const void *ptr, size_t size)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };

	if (hsa_amd_pointer_info(ptr, &info, NULL, NULL, NULL) ||
	    (info.type != HSA_EXT_POINTER_TYPE_HSA && info.type != HSA_EXT_POINTER_TYPE_IPC))
		return true;
	return size <=
	       info.sizeInBytes - (size_t)((const char *)ptr - (const char *)info.agentBaseAddress);
}

SGU_EXPORT hipError_t hipMemset(void *dst, int value, size_t size)
{
	unsigned char byte = (unsigned char)value, *at = dst;
	hipError_t error = enter();
	size_t words;

	if (error)
		return error;
	if (!size)
		return hipSuccess;
	if (!dst || !fits(dst, size))
		return hipErrorInvalidValue;
	/* HSA fills words. The CPU writes the other bytes. */
	for (; size && (uintptr_t)at % 4; size--)
		*at++ = byte;
	words = size / 4;
	if (words)
		error = of_status(hsa_amd_memory_fill(at, byte * 0x01010101u, words));
	for (size_t i = words * 4; !error && i < size; i++)
		at[i] = byte;
	return error;
}

#define TEXT(error, text) case error: *name = #error; return text

static const char *text_of(hipError_t error, const char **name)
{
	switch (error) {
	TEXT(hipSuccess, "no error");
	TEXT(hipErrorInvalidValue, "invalid argument");
	TEXT(hipErrorOutOfMemory, "out of memory");
	TEXT(hipErrorNotInitialized, "not initialized in this process");
	TEXT(hipErrorNoDevice, "no GPU was found");
	TEXT(hipErrorInvalidDevice, "no GPU has this number");
	TEXT(hipErrorUnknown, "unknown error");
	}
	*name = "hipErrorUnknown";
	return "unknown error";
}

SGU_EXPORT const char *hipGetErrorName(hipError_t error)
{
	const char *name;

	text_of(error, &name);
	return name;
}

SGU_EXPORT const char *hipGetErrorString(hipError_t error)
{
	const char *name;

	return text_of(error, &name);
}
