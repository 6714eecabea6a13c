// SPDX-License-Identifier: MIT
/*
 * check_nodes.c - may this user open the device nodes?
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"

static bool in_container(struct doctor *d)
{
	return tree_exists(d->tree, "/.dockerenv") || tree_exists(d->tree, "/run/.containerenv") ||
	       tree_exists(d->tree, "/run/systemd/container");
}

static void node(struct doctor *d, const char *path, const char *what, const char *make)
{
	struct tree_node n;
	struct finding *f;
	int ret = tree_node(d->tree, path, &n);

	f = say(d, !ret && n.usable ? VERDICT_OK : VERDICT_BROKEN, "%s", path);
	if (ret) {
		evidence(d, f, path, "%s", strerror(-ret));
		consequence(d, f, "%s", what);
		remedy(d, f, in_container(d) ? "pass the node into the container (--device, or its operator's or plugin's setting)" : "%s", make);
	} else if (!n.usable) {
		evidence(d, f, path, "there, mode %04o, but this user may not open it",
			 n.mode & 07777);
		consequence(d, f, "%s", what);
		remedy(d, f, "give the user the node's group, or fix its udev rule");
	} else {
		evidence(d, f, path, "there, and this user may use it");
	}
}

static void verbs(struct doctor *d)
{
	char path[128];
	const char *names;
	unsigned int count = 0;

	if (tree_list(d->tree, "/sys/class/infiniband", &names))
		return;
	for (; *names; names = tree_next(names), count++) {
		snprintf(path, sizeof(path), "/dev/infiniband/uverbs%u", count);
		node(d, path, "programs cannot use this RDMA device", "modprobe ib_uverbs");
	}
}

static void nvidia(struct doctor *d)
{
	unsigned int number = 0;	/* the driver's, of all its GPUs */
	char path[64];

	node(d, "/dev/nvidiactl", "CUDA programs do not start",
	     "nvidia-modprobe, or modprobe nvidia");
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];

		if (g->kind != DEVICE_GPU || g->vendor != VENDOR_NVIDIA || !*g->label)
			continue;
		snprintf(path, sizeof(path), "/dev/nvidia%u", number++);
		if (device_concerned(d, i))
			node(d, path, "CUDA programs do not see this GPU",
			     "nvidia-modprobe -c NUMBER");
	}
}

static void run(struct doctor *d)
{
	if (any_gpu_of(d, VENDOR_NVIDIA))
		nvidia(d);
	if (any_gpu_of(d, VENDOR_AMD))
		node(d, "/dev/kfd", "ROCm programs do not start", "modprobe amdgpu");
	if (any_of_kind(d, DEVICE_NIC))
		verbs(d);
}

const struct check check_nodes = { "nodes", "Device nodes", NULL, run };
