// SPDX-License-Identifier: MIT
/* runtime.c - hsa_init() and hsa_shut_down(). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "hsa_int.h"
#include "window.h"

static bool starting;		/* a thread is opening the driver's files */
static bool opened;		/* the files are open; they are never closed */
static bool fork_handler_ok;

/*
 * Runs in a forked child. A GPU's address space belongs to the process that made it. So every call
 * of the child is refused from here on, and the data under the lock is not used. A thread that does
 * not exist in the child may have held the lock, so it is initialized again.
 */
static void forked(void)
{
	hsa_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (hsa_forked || !(opened || starting))
		return;
	hsa_forked = true;
	/* Also closes files of a start that is not complete. */
	sgu_forget();
}

static void __attribute__((constructor)) begin(void)
{
	fork_handler_ok = !pthread_atfork(NULL, NULL, forked);
}

static int open_gpus(void)
{
	int n, err;

	sgu_want_render_nodes();
	n = sgu_open();
	/* There is no GPU that HSA supports: only the CPU, see nocore.c. */
	if (n == -EOPNOTSUPP)
		return 0;
	if (n <= 0)
		return n ? n : -ENODEV;
	for (int i = 0; i < n; i++) {
		struct softgpu_info *info = &hsa_gpus[i].info;

		err = sgu_info(i, info);
		if (err)
			return err;
		hsa_gpus[i].has_pool = info->bar1_total >= info->vram_total;
		if (!hsa_gpus[i].has_pool)
			sgu_log("GPU %d has no memory for HSA and HIP: its BAR shows %" PRIu64
				" of %" PRIu64 " MiB, and must show all (softgpu.ko without bar1=)",
				i, (uint64_t)info->bar1_total >> 20,
				(uint64_t)info->vram_total >> 20);
	}
	err = sgu_window_open(n);
	if (!err)
		hsa_gpu_count = n;
	return err;
}

static int make_context(int gpu, uint32_t flags, uint32_t *ctx)
{
	struct softgpu_ctx_create create = { .size = sizeof(create), .flags = flags };
	int err = sgu_call(gpu, SOFTGPU_CTX_CREATE, &create);

	if (!err)
		*ctx = create.ctx;
	return err;
}

static int make_contexts(void)
{
	int err = 0;

	for (int i = 0; i < hsa_gpu_count && !err; i++) {
		if (hsa_gpus[i].has_pool)
			err = make_context(i, SOFTGPU_CTX_VISIBLE, &hsa_gpus[i].ctx);
	}
	/*
	 * A GPU in exclusive mode allows no second context. Then the CPU's pool consists of files,
	 * as without a driver.
	 */
	if (!err && hsa_gpu_count &&
	    make_context(0, SOFTGPU_CTX_VISIBLE | SOFTGPU_CTX_SYSTEM, &hsa_system_ctx))
		sgu_log("the CPU's pool does not use the driver: GPU 0 gave it no context");
	return err;
}

static void end_context(int gpu, uint32_t *ctx)
{
	struct softgpu_handle handle = { .size = sizeof(handle), .handle = *ctx };

	if (handle.handle)
		sgu_call(gpu, SOFTGPU_CTX_DESTROY, &handle);
	*ctx = 0;
}

static void end_contexts(void)
{
	end_context(0, &hsa_system_ctx);
	for (int i = 0; i < hsa_gpu_count; i++)
		end_context(i, &hsa_gpus[i].ctx);
}

static int start(void)
{
	int err = 0;

	if (!opened) {
		starting = true;
		err = fork_handler_ok ? open_gpus() : -ENOMEM;
		if (err)
			sgu_forget();
		opened = !err;
		starting = false;
	}
	if (!err)
		err = make_contexts();
	if (err && opened)
		end_contexts();
	return err;
}

SGU_EXPORT hsa_status_t hsa_init(void)
{
	int err = 0;

	pthread_mutex_lock(&hsa_lock);
	if (hsa_forked)
		err = -EPERM;
	else if (!hsa_users)
		err = start();
	hsa_users += !err;
	pthread_mutex_unlock(&hsa_lock);
	/*
	 * AMD's runtime returns this for any failure; to libfabric it means that there is no GPU.
	 */
	if (err && !hsa_forked)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	return hsa_status_of(err);
}

SGU_EXPORT hsa_status_t hsa_shut_down(void)
{
	bool ready;

	pthread_mutex_lock(&hsa_lock);
	ready = hsa_ready();
	if (ready && !--hsa_users) {
		hsa_copy_end();
		hsa_memory_end();
		hsa_locked_end();
		hsa_signal_end();
		end_contexts();
		hsa_vmem_end();
	}
	pthread_mutex_unlock(&hsa_lock);
	return ready ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

SGU_EXPORT hsa_status_t hsa_status_string(hsa_status_t status, const char **text)
{
	static const struct {
		hsa_status_t status;
		const char *text;
	} texts[] = {
		{ HSA_STATUS_SUCCESS, "no error" },
		{ HSA_STATUS_INFO_BREAK, "a callback ended the iteration" },
		{ HSA_STATUS_ERROR, "an error" },
		{ HSA_STATUS_ERROR_INVALID_ARGUMENT, "an argument is not valid" },
		{ HSA_STATUS_ERROR_INVALID_ALLOCATION, "not an allocation, or not within one" },
		{ HSA_STATUS_ERROR_INVALID_AGENT, "not such an agent" },
		{ HSA_STATUS_ERROR_INVALID_REGION, "not such a region" },
		{ HSA_STATUS_ERROR_INVALID_SIGNAL, "not such a signal" },
		{ (hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL, "not such a pool" },
		{ HSA_STATUS_ERROR_OUT_OF_RESOURCES, "not enough memory" },
		{ HSA_STATUS_ERROR_NOT_INITIALIZED,
		  "hsa_init has not been called in this process" },
	};

	for (size_t i = 0; text && i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].status == status) {
			*text = texts[i].text;
			return HSA_STATUS_SUCCESS;
		}
	}
	return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

SGU_EXPORT hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void *value)
{
	struct timespec now;

	if (!hsa_enter())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!value)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	switch (attribute) {
	case HSA_SYSTEM_INFO_VERSION_MAJOR:
	case HSA_SYSTEM_INFO_VERSION_MINOR:
		*(uint16_t *)value = 1;
		break;
	case HSA_SYSTEM_INFO_TIMESTAMP:
		clock_gettime(CLOCK_MONOTONIC, &now);
		*(uint64_t *)value = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
		break;
	case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
		*(uint64_t *)value = 1000000000;
		break;
	case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
		*(uint64_t *)value = UINT64_MAX;
		break;
	case HSA_SYSTEM_INFO_ENDIANNESS:
		*(uint32_t *)value = HSA_ENDIANNESS_LITTLE;
		break;
	case HSA_SYSTEM_INFO_MACHINE_MODEL:
		*(uint32_t *)value = HSA_MACHINE_MODEL_LARGE;
		break;
	case HSA_AMD_SYSTEM_INFO_BUILD_VERSION:
		*(const char **)value = "softgpu";
		break;
	case HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED:
	case HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED:
		*(bool *)value = hsa_gpu_count > 0;
		break;
	case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
	case HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT:
	case HSA_AMD_SYSTEM_INFO_MWAITX_ENABLED:
	case HSA_AMD_SYSTEM_INFO_XNACK_ENABLED:
		*(bool *)value = false;
		break;
	case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MAJOR:
		*(uint16_t *)value = HSA_AMD_INTERFACE_VERSION_MAJOR;
		break;
	case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MINOR:
		*(uint16_t *)value = HSA_AMD_INTERFACE_VERSION_MINOR;
		break;
	default:
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	}
	return HSA_STATUS_SUCCESS;
}
