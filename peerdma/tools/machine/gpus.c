// SPDX-License-Identifier: MIT
/*
 * gpus.c - asks NVML.  Nothing is linked: the names, numbers and layouts used
 * here are those of NVML's ABI.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpus.h"
#include "base/tool.h"

typedef int nvml_result;	/* 0: success */
typedef struct nvml_device_st *nvml_device;

struct nvml_pci {		/* nvmlPciInfo_t */
	char bus_id_legacy[16];
	unsigned int domain, bus, device;
	unsigned int device_id, subsystem_id;
	char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t");

struct nvml_bar1 {		/* nvmlBAR1Memory_t */
	unsigned long long total, free, used;
};

struct nvml {
	void *library;
	nvml_result (*init)(void);
	nvml_result (*shutdown)(void);
	const char *(*error_string)(nvml_result r);
	nvml_result (*count)(unsigned int *count);
	nvml_result (*by_index)(unsigned int index, nvml_device *device);
	nvml_result (*name)(nvml_device device, char *name, unsigned int length);
	nvml_result (*uuid)(nvml_device device, char *uuid, unsigned int length);
	nvml_result (*pci)(nvml_device device, struct nvml_pci *pci);
	nvml_result (*bar1)(nvml_device device, struct nvml_bar1 *bar1);
};

#define GPUS_MAX 1024	/* far above any machine: a library that says more is broken */

static bool take(struct nvml *n, const char *name, void *function)
{
	void *symbol = dlsym(n->library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol;
}

/* With PEERDMA_PROVIDER=soft libpeerdma loads softgpu's libcuda from beside itself; NVML is in the same folder. */
static void *nvml_load(void)
{
	static const char *const places[] = { "softgpu/libnvidia-ml.so.1",
					      "../../softgpu/user/libnvidia-ml.so.1" };
	const char *provider = getenv("PEERDMA_PROVIDER");
	void *known = dlsym(RTLD_DEFAULT, "peerdma_open"), *library = NULL;
	char path[4096];
	Dl_info info;

	if (provider && strstr(provider, "soft") && known && dladdr(known, &info) &&
	    info.dli_fname && strchr(info.dli_fname, '/')) {
		int folder = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);

		for (size_t i = 0; !library && i < sizeof(places) / sizeof(places[0]); i++) {
			if (snprintf(path, sizeof(path), "%.*s/%s", folder, info.dli_fname,
				     places[i]) < (int)sizeof(path))
				library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		}
	}
	return library ? library : dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
}

static int nvml_open(struct nvml *n, struct gpus *out)
{
	nvml_result r;

	n->library = nvml_load();
	if (!n->library) {
		snprintf(out->why, sizeof(out->why),
			 "libnvidia-ml.so.1: cannot load; install the GPU's driver, "
			 "or add the library's folder to LD_LIBRARY_PATH");
		return -ENOENT;
	}
	if (!take(n, "nvmlInit_v2", &n->init) || !take(n, "nvmlShutdown", &n->shutdown) ||
	    !take(n, "nvmlErrorString", &n->error_string) ||
	    !take(n, "nvmlDeviceGetCount_v2", &n->count) ||
	    !take(n, "nvmlDeviceGetHandleByIndex_v2", &n->by_index)) {
		snprintf(out->why, sizeof(out->why),
			 "libnvidia-ml.so.1: too old, it lacks nvmlInit_v2 or its like; "
			 "update the GPU's driver");
		dlclose(n->library);
		return -EIO;
	}
	/* Each of these may be missing: then that fact is not known. */
	take(n, "nvmlDeviceGetName", &n->name);
	take(n, "nvmlDeviceGetUUID", &n->uuid);
	take(n, "nvmlDeviceGetPciInfo_v3", &n->pci);
	take(n, "nvmlDeviceGetBAR1MemoryInfo", &n->bar1);

	r = n->init();
	if (r) {
		snprintf(out->why, sizeof(out->why),
			 "libnvidia-ml.so.1: nvmlInit: %s; is the GPU's kernel module loaded?",
			 n->error_string(r));
		dlclose(n->library);
		return -EIO;
	}
	return 0;
}

static int gpu_fill(struct nvml *n, unsigned int index, struct gpu *gpu)
{
	char name[128] = "", uuid[128] = "";
	struct nvml_pci pci;
	struct nvml_bar1 bar1;
	nvml_device device;

	memset(gpu, 0, sizeof(*gpu));
	gpu->index = index;
	if (!n->by_index(index, &device)) {
		if (n->name && n->name(device, name, sizeof(name)))
			name[0] = 0;
		if (n->uuid && n->uuid(device, uuid, sizeof(uuid)))
			uuid[0] = 0;
		if (n->pci && !n->pci(device, &pci)) {
			pci.bus_id[sizeof(pci.bus_id) - 1] = 0;
			if (!pci_name(pci.bus_id, gpu->pci))
				gpu->pci[0] = 0;
		}
		if (n->bar1 && !n->bar1(device, &bar1)) {
			gpu->has_bar1 = true;
			gpu->total = bar1.total;
			gpu->used = bar1.used;
			gpu->free = bar1.free;
		}
	}
	gpu->name = text_clean(name, strnlen(name, sizeof(name)));
	gpu->uuid = text_clean(uuid, strnlen(uuid, sizeof(uuid)));
	return gpu->name && gpu->uuid ? 0 : -ENOMEM;
}

static int nvml_read(struct gpus *out)
{
	unsigned int count;
	struct nvml n = { 0 };
	nvml_result r;
	int ret = nvml_open(&n, out);

	if (ret)
		return ret;
	r = n.count(&count);
	if (r || count > GPUS_MAX) {
		snprintf(out->why, sizeof(out->why), "libnvidia-ml.so.1: nvmlDeviceGetCount: %s",
			 r ? n.error_string(r) : "an impossible number");
		ret = -EIO;
		goto out;
	}
	out->gpus = calloc(count ? count : 1, sizeof(out->gpus[0]));
	if (!out->gpus)
		ret = -ENOMEM;
	for (unsigned int i = 0; !ret && i < count; i++) {
		ret = gpu_fill(&n, i, &out->gpus[i]);
		out->count = i + 1;
	}
out:
	n.shutdown();
	dlclose(n.library);
	return ret;
}

int gpus_read(const char *root, struct gpus *out)
{
	size_t length;
	char *data;
	int ret;

	memset(out, 0, sizeof(*out));
	if (!*root) {
		ret = nvml_read(out);
	} else {
		ret = file_read(root, GPUS_PATH, &data, &length);
		if (ret) {
			snprintf(out->why, sizeof(out->why), "%.120s" GPUS_PATH
				 ": %s; make it with 'peerdma bar1 --tsv'", root, strerror(-ret));
			return -ENOENT;
		}
		ret = gpus_parse_tsv(data, length, out);
		free(data);
		if (ret)
			snprintf(out->why, sizeof(out->why), "%.120s" GPUS_PATH
				 ": not what 'peerdma bar1 --tsv' writes", root);
	}
	if (ret) {
		if (ret == -ENOMEM)
			snprintf(out->why, sizeof(out->why), "out of memory");
		gpus_free(out);
	}
	return ret;
}

void gpus_hold(void)
{
	struct nvml n = { 0 };
	struct gpus ignored;

	/* NVML counts its users: each read's own init and shutdown are cheap then. */
	nvml_open(&n, &ignored);
}
