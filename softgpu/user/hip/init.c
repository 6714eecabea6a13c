// SPDX-License-Identifier: MIT
/* init.c - finds the devices; the thread's device; versions. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "hip_int.h"

struct hip_device hip_devices[HIP_DEVICES_MAX];
int hip_count;
hsa_amd_memory_pool_t hip_host_pool;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Once it is set, the variables above do not change, and no call takes the lock. */
static atomic_bool started;
/* This is a forked child of a process that had started HIP: it has neither GPUs nor threads. */
static bool is_child;
static _Thread_local int current;

static hsa_status_t take_pool(hsa_amd_memory_pool_t pool, void *data)
{
	*(hsa_amd_memory_pool_t *)data = pool;
	return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t take_agent(hsa_agent_t agent, void *data)
{
	struct hip_device *d = &hip_devices[hip_count];
	hsa_device_type_t type;

	(void)data;
	if (hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type))
		return HSA_STATUS_SUCCESS;
	if (type == HSA_DEVICE_TYPE_CPU)
		hsa_amd_agent_iterate_memory_pools(agent, take_pool, &hip_host_pool);
	if (type != HSA_DEVICE_TYPE_GPU || hip_count == HIP_DEVICES_MAX)
		return HSA_STATUS_SUCCESS;
	d->agent = agent;
	hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_BDFID, &d->bdf);
	hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DOMAIN, &d->domain);
	hsa_agent_get_info(agent, HSA_AGENT_INFO_NODE, &d->node);
	hsa_agent_get_info(agent, HSA_AGENT_INFO_NAME, d->name);
	hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_UUID, d->uuid);
	if (hsa_amd_agent_iterate_memory_pools(agent, take_pool, &d->pool) != HSA_STATUS_INFO_BREAK)
		return HSA_STATUS_SUCCESS;
	hsa_amd_memory_pool_get_info(d->pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &d->memory);
	hip_count++;
	return HSA_STATUS_SUCCESS;
}

/*
 * Runs in a forked child. A thread that does not exist in the child may have been starting HIP and
 * held the lock. HSA then refuses to start in the child, so the lock can be initialized again.
 */
static void forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	is_child = is_child || atomic_load(&started);
}

static bool fork_handler_ok;
static void __attribute__((constructor)) begin(void)
{
	fork_handler_ok = !pthread_atfork(NULL, NULL, forked);
}

hipError_t hip_enter(void)
{
	hipError_t error = hipSuccess;

	if (is_child)
		return hipErrorNotInitialized;
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
	return error || hip_count ? error : hipErrorNoDevice;
}

bool hip_device_ok(int device)
{
	return device >= 0 && device < hip_count;
}

int hip_current(void)
{
	return current;
}

HIP_EXPORT hipError_t hipInit(unsigned int flags)
{
	return hip_done(flags ? hipErrorInvalidValue : hip_enter());
}

static hipError_t version_of(int *version)
{
	if (!version)
		return hip_done(hipErrorInvalidValue);
	*version = HIP_VERSION;
	return hipSuccess;
}

HIP_EXPORT hipError_t hipDriverGetVersion(int *version)
{
	return version_of(version);
}

HIP_EXPORT hipError_t hipRuntimeGetVersion(int *version)
{
	return version_of(version);
}

HIP_EXPORT hipError_t hipGetDeviceCount(int *n)
{
	hipError_t error = hip_enter();

	if (!n)
		return hip_done(hipErrorInvalidValue);
	*n = error ? 0 : hip_count;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipSetDevice(int device)
{
	hipError_t error = hip_enter();

	if (!error && !hip_device_ok(device))
		error = hipErrorInvalidDevice;
	if (!error)
		current = device;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipGetDevice(int *device)
{
	hipError_t error = hip_enter();

	if (!device)
		return hip_done(hipErrorInvalidValue);
	*device = current;
	return hip_done(error);
}

/* The functions of this library; others of the program may have the same names. */
HIP_EXPORT hipError_t hipGetProcAddress(const char *name, void **function, int version,
					uint64_t flags, hipDriverProcAddressQueryResult *result)
{
	static const char here;
	Dl_info info;
	void *library;

	(void)version;
	(void)flags;
	if (!name || !function)
		return hip_done(hipErrorInvalidValue);
	*function = NULL;
	library = dladdr(&here, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (library && !strncmp(name, "hip", 3))
		*function = dlsym(library, name);
	if (library)
		dlclose(library);
	if (result)
		*result = *function ? HIP_GET_PROC_ADDRESS_SUCCESS :
				      HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return hip_done(*function ? hipSuccess : hipErrorNotFound);
}
