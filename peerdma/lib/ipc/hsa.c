// SPDX-License-Identifier: MIT
/*
 * hsa.c - shares memory of AMD's HSA runtime (hipMalloc(), memory pools) by
 * hsa_amd_ipc_memory_create() and hsa_amd_ipc_memory_attach(). Like CUDA's driver, AMD's driver
 * keeps memory allocated while an importer has it attached.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/component.h"
#include "hsa.h"
#include "ipc.h"
#include "symbols.h"

static _Atomic(const struct hsa_ipc *) published;
/* process_id() of the process that uses HSA; forked children cannot use it */
static _Atomic uint64_t seen_in;

static const struct hsa_ipc *search(void)
{
	void *library = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	struct hsa_ipc *api = library ? calloc(1, sizeof(*api)) : NULL;
	const struct hsa_ipc *first = NULL;
	const struct symbol names[] = {
#define NAME(field, name) { name, offsetof(struct hsa_ipc, field) }
		NAME(pointer_info, "hsa_amd_pointer_info"),
		NAME(agent_info, "hsa_agent_get_info"),
		NAME(create, "hsa_amd_ipc_memory_create"),
		NAME(attach, "hsa_amd_ipc_memory_attach"),
		NAME(detach, "hsa_amd_ipc_memory_detach"),
		NAME(copy, "hsa_memory_copy"),
		NAME(signal_create, "hsa_amd_signal_create"),
		NAME(signal_export, "hsa_amd_ipc_signal_create"),
		NAME(signal_attach, "hsa_amd_ipc_signal_attach"),
		NAME(signal_destroy, "hsa_signal_destroy"),
		NAME(signal_load, "hsa_signal_load_scacquire"),
		NAME(signal_store, "hsa_signal_store_screlease"),
		NAME(signal_add, "hsa_signal_add_screlease"),
#undef NAME
	};

	if (api && symbols_find(library, names, sizeof(names) / sizeof(names[0]), api) &&
	    atomic_compare_exchange_strong(&published, &first, api))
		return api;
	free(api);
	if (library)
		dlclose(library);
	return first;
}

const struct hsa_ipc *ipc_hsa_api(void)
{
	const struct hsa_ipc *api = atomic_load_explicit(&published, memory_order_acquire);
	uint64_t seen = atomic_load_explicit(&seen_in, memory_order_relaxed);

	if (seen && seen != process_id())
		return NULL;
	return api ? api : search();
}

/* After 0, ipc_hsa_api() is not NULL. */
static int hsa_ready(void)
{
	return ipc_hsa_api() ? 0 : fail(-ENODEV, "this process has not loaded libhsa-runtime64.so.1; call hsa_init() first");
}

static void hsa_tell(struct peerdma_component *c)
{
	component_file(c, (const void *)(uintptr_t)ipc_hsa_api()->create);
	component_why(c, "memory of HSA's pools and of hipMalloc()");
}

int ipc_hsa_failed(const char *call, int status)
{
	int ret = -ENOMEM;

	if (status != HSA_OUT_OF_RESOURCES)
		return fail(status == HSA_NOT_INITIALIZED ? -ENODEV : -EIO,
			    "%s failed with HSA status 0x%x%s", call, status,
			    status == HSA_NOT_INITIALIZED ? "; call hsa_init() first" : "");
	/*
	 * HSA does not say which resource is missing. If this process cannot open another
	 * descriptor, it is a descriptor.
	 */
	if (!ipc_descriptors_left())
		ret = -errno;
	return fail(ret, "%s failed with HSA status 0x%x: %s", call, status, error_words(ret));
}

static bool info_of(const struct hsa_ipc *hsa, const void *ptr, struct hsa_info *info)
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	if (!hsa || hsa->pointer_info(ptr, info, NULL, NULL, NULL))
		return false;
	if (!atomic_load_explicit(&seen_in, memory_order_relaxed))
		atomic_store(&seen_in, process_id());
	return info->type == HSA_POINTER_HSA || info->type == HSA_POINTER_IPC;
}

static int hsa_identify(const void *ptr, struct ipc_offer *offer)
{
	const struct hsa_ipc *hsa = ipc_hsa_api();
	uint32_t bdf = 0, domain = 0, device = 0;
	struct hsa_info info;

	if (!info_of(hsa, ptr, &info))
		return -ENOENT;
	if (info.type == HSA_POINTER_IPC)
		return fail(-EEXIST, "%p: another process's memory, which this one attached; let its owner export it", ptr);
	offer->provider = IPC_HSA;
	offer->base = (uintptr_t)info.agent_base;
	offer->length = info.length;
	if (!hsa->agent_info(info.owner, HSA_AGENT_DEVICE, &device) && device == HSA_DEVICE_GPU &&
	    !hsa->agent_info(info.owner, HSA_AGENT_BDFID, &bdf) &&
	    !hsa->agent_info(info.owner, HSA_AGENT_DOMAIN, &domain))
		snprintf(offer->pci, sizeof(offer->pci), "%04x:%02x:%02x.%x", domain & 0xffff,
			 bdf >> 8 & 0xff, bdf >> 3 & 0x1f, bdf & 7);
	return 0;
}

static int hsa_offer(const void *ptr, struct ipc_offer *offer)
{
	struct hsa_ipc_bytes handle;
	int r;

	(void)ptr;
	r = ipc_hsa_api()->create((void *)(uintptr_t)offer->base, offer->length, &handle);

	if (r)
		return ipc_hsa_failed("hsa_amd_ipc_memory_create", r);
	memcpy(offer->blob, &handle, sizeof(handle));
	return 0;
}

static int hsa_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd)
{
	struct hsa_ipc_bytes handle;
	const struct hsa_ipc *hsa;
	void *ptr = NULL;
	int r;

	(void)fd;
	if (hsa_ready())
		return fail(-ENODEV, "it is HSA's memory, and %s", peerdma_last_error());
	hsa = ipc_hsa_api();
	memcpy(&handle, reply->blob, sizeof(handle));
	r = hsa->attach(&handle, m->length, 0, NULL, &ptr);
	if (r == HSA_NOT_INITIALIZED)
		return fail(-ENODEV,
			    "it is HSA's memory, and this process has not called hsa_init()");
	if (r)
		return ipc_hsa_failed("hsa_amd_ipc_memory_attach", r);
	m->base = ptr;
	return 0;
}

static int hsa_close(struct ipc_mapping *m)
{
	const struct hsa_ipc *hsa = ipc_hsa_api();
	int r = hsa ? hsa->detach(m->base) : 0;

	return r ? fail(-EIO, "hsa_amd_ipc_memory_detach failed with HSA status 0x%x", r) : 0;
}

int ipc_hsa_copy(void *to, const void *from, uint64_t length)
{
	const struct hsa_ipc *hsa = ipc_hsa_api();
	int r = hsa ? hsa->copy(to, from, length) : HSA_NOT_INITIALIZED;

	if (r)
		return fail(-EIO, "hsa_memory_copy of %llu bytes failed with HSA status 0x%x",
			    (unsigned long long)length, r);
	return 0;
}

const struct ipc_provider ipc_hsa = {
	.id = IPC_HSA,
	.name = "hsa",
	.ready = hsa_ready,
	.describe = hsa_tell,
	.identify = hsa_identify,
	.offer = hsa_offer,
	.open = hsa_open,
	.close = hsa_close,
};
