// SPDX-License-Identifier: MIT
/*
 * check_partition.c - is a GPU cut in parts, lent by a hypervisor, or locked up for confidentiality?
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_of(d, VENDOR_NVIDIA);
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
		f = say(d, VERDICT_SLOW, "the GPU with minor number %.8s", names + 3);
		evidence(d, f, path, "%.32s...", inner);
		consequence(d, f, "MIG instances: each has a part of the memory and of BAR1, GPUs do not reach each other, and GPUDirect RDMA "
			    "works with instances on data-centre boards only");
		remedy(d, f, "nvidia-smi -mig 0, if no instance is needed");
	}
}

static void confidential(struct doctor *d)
{
	struct finding *f;

	if (!d->machine->confidential && !tree_exists(d->tree, "/sys/class/misc/sev-guest"))
		return;
	f = say(d, VERDICT_BROKEN, "this machine");
	evidence(d, f, d->machine->confidential ? "/proc/cpuinfo" : "/sys/class/misc/sev-guest",
		 d->machine->confidential ? "tdx_guest" : "there");
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
			f = say(d, VERDICT_UNKNOWN, "%s", g->label);
			evidence(d, f, path, "there: this machine lends parts of the GPU (vGPU)");
			consequence(d, f, "whether a guest may use GPUDirect RDMA with its part depends on the vGPU's type and licence");
			remedy(d, f, "see the vGPU release notes for the type in use");
		}
	}
}

static void run(struct doctor *d)
{
	unsigned int before = d->count;
	struct finding *f;

	mig(d);
	lent(d);
	confidential(d);
	if (d->count > before)
		return;
	if (!tree_exists(d->tree, "/proc/driver/nvidia")) {
		f = say(d, VERDICT_UNKNOWN, "all GPUs");
		evidence(d, f, "/proc/driver/nvidia", "not there");
		consequence(d, f, "whether a GPU is partitioned is not known");
		remedy(d, f, "load NVIDIA's driver; in a container, see that /proc/driver/nvidia is passed in");
		return;
	}
	f = say(d, VERDICT_OK, "all GPUs");
	evidence(d, f, "/proc/driver/nvidia/capabilities", "no MIG instances");
}

const struct check check_partition = { "partition", "MIG, vGPU, confidential guests", applies, run };
