// SPDX-License-Identifier: MIT
/*
 * hsa.c - queries AMD's HSA runtime, by the libhsa-runtime64.so.1 that the process has loaded,
 * about the memory of a pointer.
 *
 * The library is neither linked nor loaded for this. Names, numbers and types are those of HSA's
 * AMD extensions.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/component.h"
#include "internal.h"

enum { POINTER_HSA = 1, POINTER_IPC = 4 };
enum { AGENT_INFO_DEVICE = 17, AGENT_INFO_BDFID = 0xa006, AGENT_INFO_DOMAIN = 0xa00f };
enum { DEVICE_GPU = 1 };

struct agent {
	uint64_t handle;
};

struct pointer_info {
	uint32_t size;
	int type;
	void *agent_base, *host_base;
	size_t length;
	void *userdata;
	struct agent owner;
	uint32_t global_flags;
};

struct api {
	int (*pointer_info)(const void *ptr, struct pointer_info *info, void *(*alloc)(size_t),
			    uint32_t *n, struct agent **agents);
	int (*agent_info)(struct agent agent, int attribute, void *value);
};

/* As in cuda.c: no lock, and the first result stays. */
static _Atomic(const struct api *) published;
static _Atomic unsigned long long searched_at;
/* process_id() of the process that uses HSA; forked children cannot use it */
static _Atomic uint64_t seen_in;

static const struct api *search(void)
{
	void *library = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	struct api *api = library ? malloc(sizeof(*api)) : NULL;
	const struct api *first = NULL;

	if (api) {
		*(void **)&api->pointer_info = dlsym(library, "hsa_amd_pointer_info");
		*(void **)&api->agent_info = dlsym(library, "hsa_agent_get_info");
		if (api->pointer_info && api->agent_info &&
		    atomic_compare_exchange_strong(&published, &first, api))
			return api;
	}
	free(api);
	if (library)
		dlclose(library);
	return first;
}

static const struct api *find(void)
{
	const struct api *api = atomic_load_explicit(&published, memory_order_acquire);
	unsigned long long count;

	if (api)
		return api;
	count = loader_loads();
	if (count && count == atomic_load(&searched_at))
		return NULL;
	api = search();
	if (!api)
		atomic_store(&searched_at, count);
	return api;
}

/* Returns the PCI address in the format of sysfs: "0000:03:00.0". */
static void pci_of(const struct api *hsa, struct agent agent, char *pci, size_t size)
{
	uint32_t bdf = 0, domain = 0;

	if (!hsa->agent_info(agent, AGENT_INFO_BDFID, &bdf) &&
	    !hsa->agent_info(agent, AGENT_INFO_DOMAIN, &domain))
		snprintf(pci, size, "%04x:%02x:%02x.%x", domain & 0xffff, bdf >> 8 & 0xff,
			 bdf >> 3 & 0x1f, bdf & 7);
}

bool hsa_there(void)
{
	return atomic_load_explicit(&published, memory_order_acquire);
}

/* NULL: the process has no HSA, or was forked by one that used it. */
static const struct api *usable(void)
{
	uint64_t seen = atomic_load_explicit(&seen_in, memory_order_relaxed);

	return !seen || seen == process_id() ? find() : NULL;
}

bool hsa_query(const void *ptr, struct peerdma_memory *out)
{
	struct pointer_info info = { .size = sizeof(info) };
	const struct api *hsa = usable();
	uint32_t device = 0;

	if (!hsa || hsa->pointer_info(ptr, &info, NULL, NULL, NULL))
		return false;
	if (!atomic_load_explicit(&seen_in, memory_order_relaxed))
		atomic_store(&seen_in, process_id());
	if ((info.type != POINTER_HSA && info.type != POINTER_IPC) ||
	    hsa->agent_info(info.owner, AGENT_INFO_DEVICE, &device) || device != DEVICE_GPU)
		return false;
	out->kind = PEERDMA_KIND_DEVICE;
	out->flags = PEERDMA_MEMORY_HSA | PEERDMA_MEMORY_PINNABLE;
	out->base = (uintptr_t)info.agent_base;
	out->length = info.length;
	out->buffer_id = 0;
	out->device = -1;
	pci_of(hsa, info.owner, out->pci, sizeof(out->pci));
	return true;
}

static const char *why_not_found(void)
{
	void *library = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

	if (!library)
		return "this process has not loaded libhsa-runtime64.so.1";
	dlclose(library);
	return "a function that libpeerdma needs is missing in libhsa-runtime64.so.1";
}

void hsa_describe(struct components *to)
{
	struct peerdma_component c = component(PEERDMA_COMPONENT_GPU, "hsa");
	const struct api *hsa = find();

	if (hsa)
		component_file(&c, (const void *)(uintptr_t)hsa->pointer_info);
	if (usable())
		component_why(&c, "GPU memory of HSA and HIP is recognized once the program has initialized HSA");
	else
		component_off(&c, hsa ?
			      "this process was forked by one that used HSA, and cannot use it" :
			      why_not_found());
	components_add(to, &c);
}
