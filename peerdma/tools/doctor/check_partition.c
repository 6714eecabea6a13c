// SPDX-License-Identifier: MIT
/*
 * check_partition.c - is a GPU cut in parts, lent by a hypervisor, or locked up for confidentiality?
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "gpu_modes.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_of(d, VENDOR_NVIDIA);
}

#define MIG_SO	"MIG instances: each has a part of the memory and of BAR1, GPUs do not reach each other, and GPUDirect RDMA " \
	"works with instances on data-centre boards only"
#define MIG_DO	"nvidia-smi -mig 0, if no instance is needed"

static void mig(struct doctor *d)
{
	const char *names, *inner;
	struct finding *f;
	char path[160];

	if (tree_list(d->tree, "/proc/driver/nvidia/capabilities", &names))
		return;
	for (; *names; names = tree_next(names)) {
		if (strncmp(names, "gpu", 3) || strlen(names) > 16)
			continue;
		snprintf(path, sizeof(path), "/proc/driver/nvidia/capabilities/%s/mig", names);
		if (tree_list(d->tree, path, &inner) || !*inner)
			continue;
		f = say(d, VERDICT_SLOW, "the GPU with minor number %.8s", names + 3);
		f->ways = WAYS_PCI;
		evidence(d, f, path, "%.32s...", inner);
		consequence(d, f, MIG_SO);
		remedy(d, f, MIG_DO);
	}
}

static void confidential(struct doctor *d)
{
	struct finding *f;

	if (d->machine->confidential != CONFIDENTIAL_GUEST)
		return;
	f = say(d, VERDICT_BROKEN, "this machine");
	f->ways = WAYS_PCI;
	evidence(d, f, d->machine->confidential_source, "%s", d->machine->confidential_value);
	consequence(d, f, "a confidential guest's devices go through bounce buffers: GPU memory is not given to other devices");
	remedy(d, f, "use a guest that is not confidential where devices must reach each other");
}

static void lent(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];
		const char *names;
		char path[128];
		struct finding *f;

		if (g->kind != DEVICE_GPU || g->vendor != VENDOR_NVIDIA || !device_concerned(d, i))
			continue;
		snprintf(path, sizeof(path), PCI_DEVICES "%s/mdev_supported_types", g->name);
		if (!tree_list(d->tree, path, &names) && *names) {
			f = say_device(d, VERDICT_UNKNOWN, i, WAYS_PCI);
			evidence(d, f, path, "there: this machine lends parts of the GPU (vGPU)");
			consequence(d, f, "whether a guest may use GPUDirect RDMA with its part depends on the vGPU's type and licence");
			remedy(d, f, "see the vGPU release notes for the type in use");
		}
	}
}

/* What NVML says of one GPU. */
static void modes(struct doctor *d, const char *data, unsigned int i)
{
	const struct device *g = &d->machine->devices[i];
	unsigned int mode, next = 0;
	struct finding *f;

	if (gpu_mode(data, g->name, GPU_MIG, &mode) && mode) {
		f = say_device(d, VERDICT_SLOW, i, WAYS_PCI);
		gpu_mode(data, g->name, GPU_MIG_NEXT, &next);
		evidence(d, f, "nvmlDeviceGetMigMode",
			 next ? "on" : "on; off after the next reset of the GPU");
		consequence(d, f, MIG_SO);
		remedy(d, f, next ? MIG_DO : "nvidia-smi -r, when no program uses the GPU");
	}
	if (!gpu_mode(data, g->name, GPU_VIRTUALIZATION, &mode))
		return;
	if (mode == GPU_VGPU_GUEST) {
		f = say_device(d, VERDICT_UNKNOWN, i, WAYS_PCI);
		evidence(d, f, "nvmlDeviceGetVirtualizationMode", "2: a vGPU in a virtual machine");
		consequence(d, f, "a part of a GPU that its host lends: whether other devices reach its memory depends on the vGPU's type and "
			    "licence, and on the host");
		remedy(d, f, "see the vGPU release notes for the type in use, or have the whole GPU passed through");
	} else if (mode == GPU_VGPU_HOST || mode == GPU_VSGA_HOST) {
		f = say_device(d, VERDICT_UNKNOWN, i, WAYS_PCI);
		evidence(d, f, "nvmlDeviceGetVirtualizationMode", "%u: lent to virtual machines",
			 mode);
		consequence(d, f, "not known what programs of this host may do with the GPU");
		remedy(d, f, "look from inside a virtual machine that uses it");
	}
}

static void told_by_nvml(struct doctor *d)
{
	unsigned int on;
	const char *data;
	struct finding *f;

	if (tree_read(d->tree, GPU_MODES_PATH, &data, NULL))
		return;
	if (gpu_mode(data, "all", GPU_CONFIDENTIAL, &on) && on) {
		f = say(d, VERDICT_BROKEN, "all GPUs");
		f->ways = WAYS_PCI;
		evidence(d, f, "nvmlSystemGetConfComputeState", "confidential computing is on");
		consequence(d, f, "what goes to the GPU and comes from it is encrypted in bounce buffers: its memory is not given to other devices");
		remedy(d, f, "switch the GPUs' confidential mode off (gpu-admin-tools: --set-cc-mode=off), where devices must reach each other");
	}
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (d->machine->devices[i].kind == DEVICE_GPU && device_concerned(d, i))
			modes(d, data, i);
	}
}

static void run(struct doctor *d)
{
	unsigned int before = d->count, confidential_mode;
	struct finding *f;
	const char *data;

	told_by_nvml(d);
	/* By minor number, without NVML: not the same again. */
	if (d->count == before)
		mig(d);
	lent(d);
	confidential(d);
	if (d->count > before)
		return;
	if (!tree_exists(d->tree, "/proc/driver/nvidia")) {
		f = say(d, VERDICT_UNKNOWN, "all GPUs");
		f->ways = WAYS_PCI;
		evidence(d, f, "/proc/driver/nvidia", "not there");
		consequence(d, f, "not known whether a GPU is partitioned");
		remedy(d, f, "load NVIDIA's driver; in a container, see that /proc/driver/nvidia is passed in");
		return;
	}
	f = say(d, VERDICT_OK, "all GPUs");
	evidence(d, f, "/proc/driver/nvidia/capabilities", "no MIG instances");
	if (!tree_read(d->tree, GPU_MODES_PATH, &data, NULL)) {
		evidence(d, f, "nvmlDeviceGetMigMode, nvmlDeviceGetVirtualizationMode",
			 "neither MIG nor vGPU, or not for this board");
		evidence(d, f, "nvmlSystemGetConfComputeState",
			 gpu_mode(data, "all", GPU_CONFIDENTIAL, &confidential_mode) ?
			 "confidential computing is off" : "not reported by this driver");
	}
}

const struct check check_partition = { "partition", "MIG, vGPU, confidential guests", applies,
				       run };
