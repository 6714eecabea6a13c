// SPDX-License-Identifier: MIT
/*
 * gpu_modes.c - asks NVML how GPUs are set up: MIG, vGPU, confidential computing.  Nothing is
 * linked: the names and numbers are those of NVML's ABI.  A call that a release does not have, or
 * a GPU does not support, gives no line.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gpu_modes.h"
#include "base/pci.h"
#include "base/tool.h"
#include "machine/tree.h"

#define GPUS_MAX 1024

typedef void *nvml_device;

struct nvml_pci {		/* nvmlPciInfo_t */
	char bus_id_legacy[16];
	unsigned int domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

struct nvml_confidential {	/* nvmlConfComputeSystemState_t */
	unsigned int environment, feature, developer_tools;
};

struct nvml {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned int *count);
	int (*by_index)(unsigned int index, nvml_device *device);
	int (*pci)(nvml_device device, struct nvml_pci *pci);
	int (*mig)(nvml_device device, unsigned int *now, unsigned int *next);
	int (*virtualization)(nvml_device device, unsigned int *mode);
	int (*confidential)(struct nvml_confidential *state);
};

static bool take(struct nvml *n, const char *name, void *function)
{
	void *symbol = dlsym(n->library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol;
}

static void one(const struct nvml *n, unsigned int index, FILE *to)
{
	unsigned int now = 0, next = 0, mode = 0;
	struct nvml_pci pci = { 0 };
	char name[PCI_NAME_MAX];
	nvml_device device;

	if (n->by_index(index, &device) || n->pci(device, &pci))
		return;
	pci.bus_id[sizeof(pci.bus_id) - 1] = 0;
	if (!pci_name(pci.bus_id, name))
		return;
	if (n->mig && !n->mig(device, &now, &next))
		fprintf(to, "%s\t%s\t%u\n%s\t%s\t%u\n", name, GPU_MIG, now, name, GPU_MIG_NEXT,
			next);
	if (n->virtualization && !n->virtualization(device, &mode))
		fprintf(to, "%s\t%s\t%u\n", name, GPU_VIRTUALIZATION, mode);
}

int gpu_modes_read(char **data, size_t *length)
{
	struct nvml_confidential state = { 0 };
	struct nvml n = { 0 };
	unsigned int count = 0;
	FILE *to;

	n.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!n.library)
		return -ENOENT;
	if (!take(&n, "nvmlInit_v2", &n.init) || !take(&n, "nvmlShutdown", &n.shutdown) ||
	    !take(&n, "nvmlDeviceGetCount_v2", &n.count) ||
	    !take(&n, "nvmlDeviceGetHandleByIndex_v2", &n.by_index) ||
	    !take(&n, "nvmlDeviceGetPciInfo_v3", &n.pci) || n.init()) {
		dlclose(n.library);
		return -ENOENT;
	}
	take(&n, "nvmlDeviceGetMigMode", &n.mig);
	take(&n, "nvmlDeviceGetVirtualizationMode", &n.virtualization);
	take(&n, "nvmlSystemGetConfComputeState", &n.confidential);
	to = open_memstream(data, length);
	if (to) {
		if (n.confidential && !n.confidential(&state))
			fprintf(to, "all\t%s\t%u\n", GPU_CONFIDENTIAL, state.feature);
		if (n.count(&count) || count > GPUS_MAX)
			count = 0;
		for (unsigned int i = 0; i < count; i++)
			one(&n, i, to);
	}
	n.shutdown();
	dlclose(n.library);
	return !to || fclose(to) ? -ENOMEM : 0;
}

bool gpu_mode(const char *data, const char *gpu, const char *what, unsigned int *out)
{
	for (const char *line = data; *line;) {
		size_t length = strcspn(line, "\n");
		struct field fields[3];
		uint64_t n;

		if (tsv_split(line, line + length, fields, 3) == 3 && field_is(&fields[0], gpu) &&
		    field_is(&fields[1], what) && text_u64(fields[2].s, fields[2].length, &n) &&
		    n <= 1000) {
			*out = (unsigned int)n;
			return true;
		}
		line += length + (line[length] == '\n');
	}
	return false;
}

bool gpu_is_lent(struct tree *t, const char *gpu)
{
	unsigned int mode;
	const char *data;

	return !tree_read(t, GPU_MODES_PATH, &data, NULL) &&
	       gpu_mode(data, gpu, GPU_VIRTUALIZATION, &mode) &&
	       (mode == GPU_VGPU_HOST || mode == GPU_VSGA_HOST);
}
