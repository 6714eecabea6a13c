// SPDX-License-Identifier: MIT
/*
 * check_partition.c - is a GPU cut in parts, lent by a hypervisor, or locked up for confidentiality?
 */
#include <stdio.h>
#include <string.h>

#include "base/tool.h"
#include "doctor.h"
#include "gpu_modes.h"
#include "kernel_log.h"

/* A guest that hides its memory: by its processor's flags and devices, or by what its kernel said at boot. */
static bool is_confidential(struct doctor *d, char source[64], char value[64])
{
	const struct machine *m = d->machine;

	snprintf(source, 64, "%s", m->confidential ? m->confidential_source : TREE_LOG);
	snprintf(value, 64, "%s", m->confidential_value);
	return m->confidential == CONFIDENTIAL_GUEST || log_encrypted_guest(d, value);
}

static bool applies(const struct doctor *d)
{
	return any_gpu_apart(d, VENDOR_NVIDIA) || any_gpu_apart(d, VENDOR_AMD);
}

#define MIG_SO	"MIG instances: each has a part of the memory and of BAR1, GPUs do not reach each other, and GPUDirect RDMA " \
	"works with instances on data-centre boards only"
#define MIG_DO	"nvidia-smi -mig 0, if no instance is needed"

/* The GPU of that minor number; NULL: it is not this container's. */
static struct finding *say_minor(struct doctor *d, const char *minor)
{
	uint64_t n;

	for (unsigned int i = 0; text_u64(minor, strlen(minor), &n) && i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];

		if (g->kind == DEVICE_GPU && g->minor >= 0 && (uint64_t)g->minor == n)
			return device_concerned(d, i) ?
				say_device(d, VERDICT_OK, i, WAYS_PCI) : NULL;
	}
	return say_maker(d, VERDICT_OK, VENDOR_NVIDIA, WAYS_PCI, "the GPU with minor number %.8s",
			 minor);
}

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
		f = say_minor(d, names + 3);
		if (!f)
			continue;
		evidence(d, f, path, "%.32s...", inner);
		consequence(d, f, MIG_SO);
		remedy(d, f, MIG_DO);
	}
}

static void confidential(struct doctor *d)
{
	char source[64], value[64];
	struct finding *f;

	if (!is_confidential(d, source, value))
		return;
	f = say(d, VERDICT_BROKEN, "this machine");
	f->ways = WAYS_PCI;
	evidence(d, f, source, "%s", value);
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
			f = say_device(d, VERDICT_OK, i, WAYS_PCI);
			evidence(d, f, path, "there: this machine can lend parts of the GPU (vGPU)");
			consequence(d, f, "whether a guest may use GPUDirect RDMA with its part depends on the vGPU's type and licence: see the vGPU "
				    "release notes");
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
		f = say_device(d, VERDICT_OK, i, WAYS_PCI);
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
			    "licence, and on the machine below");
		remedy(d, f, "see the vGPU release notes for the type in use, or ask the provider of this virtual machine for a whole GPU");
	} else if (gpu_is_lent(d->tree, g->name)) {
		f = say_device(d, VERDICT_OK, i, WAYS_PCI);
		evidence(d, f, "nvmlDeviceGetVirtualizationMode", "%u: lent to virtual machines",
			 mode);
		consequence(d, f, "programs of this machine have none of its memory: it is the virtual machines' to give");
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
		f = say_maker(d, VERDICT_BROKEN, VENDOR_NVIDIA, WAYS_PCI, "all GPUs");
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

	confidential(d);
	if (!any_gpu_apart(d, VENDOR_NVIDIA))
		return;
	told_by_nvml(d);
	/* By minor number, without NVML: not the same again. */
	if (d->count == before)
		mig(d);
	lent(d);
	if (d->count > before)
		return;
	if (!tree_exists(d->tree, "/proc/driver/nvidia")) {
		f = say_maker(d, VERDICT_UNKNOWN, VENDOR_NVIDIA, WAYS_PCI, "all GPUs");
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
