// SPDX-License-Identifier: MIT
/*
 * check_nodes.c - may this user open the device nodes?
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "adapters.h"

/* A node that programs need, and what depends on it. */
struct needed {
	char path[64];
	const char *what, *make;
	int device;			/* or ANY_DEVICE, NO_DEVICE */
	unsigned int ways;
	unsigned int vendor;		/* of GPUs of this maker only; 0: of any */
};

#define OTHER_JOB \
	"ask the scheduler for it (Slurm: --gres=gpu:N or --gpus); services: DeviceAllow=; containers: --gpus or --device"

static void node(struct doctor *d, const struct needed *need)
{
	struct tree_node n;
	struct finding *f;
	int ret = tree_node(d->tree, need->path, &n);

	f = say_maker(d, !ret && n.usable ? VERDICT_OK : VERDICT_BROKEN, need->vendor, need->ways,
		      "%s", need->path);
	f->device = need->device;
	if (ret) {
		evidence(d, f, need->path, "%s", strerror(-ret));
		consequence(d, f, "%s", need->what);
		remedy(d, f, "%s", d->machine->container ?
		       "pass the node into the container (--device, or its operator's or plugin's setting)" : need->make);
	} else if (n.refused) {
		evidence(d, f, need->path, "%s: the device cgroup of this process forbids it",
			 strerror(EPERM));
		consequence(d, f, "%s", need->what);
		remedy(d, f, OTHER_JOB);
	} else if (!n.usable) {
		evidence(d, f, need->path, "there, mode %04o, but this user may not open it",
			 n.mode & 07777);
		consequence(d, f, "%s", need->what);
		remedy(d, f, "give the user the node's group, or fix its udev rule");
	} else {
		evidence(d, f, need->path, "there, and this user may use it");
	}
}

static void adapter(struct doctor *d, const char *name)
{
	struct needed need = {
		.what = "programs cannot use this RDMA device", .make = "modprobe ib_uverbs",
		.ways = WAYS_RDMA, .device = NO_DEVICE,
	};
	struct adapter a;
	struct finding *f;
	const struct rdma_name *r = rdma_find(d->machine, name);

	adapter_read(d, name, &a);
	if (a.function) {
		need.device = (int)(a.function - d->machine->devices);
		/* Its host's, and not given to this container */
		if (!a.given || !device_concerned(d, (unsigned int)need.device))
			return;
	}
	if (r && r->uverbs >= 0) {
		snprintf(need.path, sizeof(need.path), "/dev/infiniband/uverbs%d", r->uverbs);
		node(d, &need);
		return;
	}
	/* Captured without that folder: what the node is called is not known. */
	if (!tree_exists(d->tree, RDMA_VERBS) && module_loaded(d, "ib_uverbs"))
		return;
	f = say(d, VERDICT_BROKEN, "%s", name);
	f->ways = need.ways;
	f->device = need.device;
	evidence(d, f, RDMA_VERBS, "none for %s", name);
	consequence(d, f, "%s", need.what);
	remedy(d, f, "%s", need.make);
}

static void adapters(struct doctor *d)
{
	const char *names;

	if (tree_list(d->tree, RDMA_DEVICES, &names))
		return;
	for (; *names; names = tree_next(names))
		adapter(d, names);
}

static void nvidia(struct doctor *d)
{
	struct needed need = {
		.path = "/dev/nvidiactl", .what = "CUDA programs do not start",
		.make = "nvidia-modprobe, or modprobe nvidia", .device = ANY_DEVICE, .ways = WAYS_ALL,
		.vendor = VENDOR_NVIDIA,
	};

	node(d, &need);
	need.what = "CUDA programs do not see this GPU";
	need.make = "nvidia-modprobe -c NUMBER";
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];

		/* Without the driver's word for its number the node's name is not known. */
		if (g->kind != DEVICE_GPU || g->minor < 0 || !device_concerned(d, i))
			continue;
		snprintf(need.path, sizeof(need.path), "/dev/nvidia%d", g->minor);
		need.device = (int)i;
		node(d, &need);
	}
}

/* Tegra's nvgpu has nodes of its own. */
static bool any_by_nvidia(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];

		if (g->kind == DEVICE_GPU && g->vendor == VENDOR_NVIDIA && device_concerned(d, i) &&
		    strcmp(g->driver, "nvgpu"))
			return true;
	}
	return false;
}

/* Not this job's: no fault, unless nothing is left; then the other findings say so. */
static void of_other_jobs(struct doctor *d)
{
	for (unsigned int i = 0; !d->chosen && i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];
		struct finding *f;

		if (!*x->refused)
			continue;
		f = say(d, VERDICT_OK, "%s", x->name);
		evidence(d, f, x->refused, "%s: the device cgroup of this process forbids it",
			 strerror(EPERM));
		consequence(d, f, "the device was not given to this job: its programs do not see it");
		remedy(d, f, OTHER_JOB);
	}
}

static void run(struct doctor *d)
{
	static const struct needed kfd = {
		.path = "/dev/kfd", .what = "ROCm programs do not start", .make = "modprobe amdgpu",
		.device = ANY_DEVICE, .ways = WAYS_ALL, .vendor = VENDOR_AMD,
	};

	if (any_by_nvidia(d))
		nvidia(d);
	if (any_gpu_of(d, VENDOR_AMD))
		node(d, &kfd);
	if (any_of_kind(d, DEVICE_NIC))
		adapters(d);
	of_other_jobs(d);
}

const struct check check_nodes = { "nodes", "Device nodes", NULL, run };
