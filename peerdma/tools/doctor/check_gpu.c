// SPDX-License-Identifier: MIT
/*
 * check_gpu.c - is there a GPU, and has it a driver that lets others reach its memory?
 */
#include <errno.h>
#include <string.h>

#include "doctor.h"
#include "wanted.h"

static void in_processor(struct doctor *d)
{
	struct finding *f = say(d, VERDICT_OK, "this machine");

	evidence(d, f, "/proc/device-tree/compatible", "nvidia,tegra...");
	consequence(d, f, "the GPU is in the processor: cards reach memory from cudaHostAlloc() by Tegra's own nvidia_p2p "
		    "calls, or by pin_user_pages() from Thor on; the checks of BAR1 and of paths do not apply");
}

/* Its GPU is no PCI function that Linux drives: /dev/dxg passes calls to the driver of Windows. */
static void in_windows(struct doctor *d)
{
	struct finding *f = say(d, VERDICT_BROKEN, "this machine");

	evidence(d, f, "/proc/sys/kernel/osrelease", "%s: WSL2", d->machine->release);
	consequence(d, f, "WSL2 has no GPUDirect RDMA: the GPU belongs to the driver of Windows, and no device of Linux can be given its memory");
	remedy(d, f, "copy through host memory, or boot Linux on the machine itself");
}

/* NULL: no device cgroup keeps a GPU from this process. */
static const char *refused_gpu(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (d->machine->devices[i].kind == DEVICE_GPU && *d->machine->devices[i].refused)
			return d->machine->devices[i].refused;
	}
	return NULL;
}

static void no_gpu(struct doctor *d)
{
	const char *refused = refused_gpu(d);
	struct finding *f;

	if (d->machine->tegra) {
		in_processor(d);
		return;
	}
	if (d->machine->wsl) {
		in_windows(d);
		return;
	}
	/* A node without GPUs, and its configuration says that none is wanted. */
	f = say(d, wanted_none(d->wanted) ? VERDICT_OK : VERDICT_BROKEN, "this machine");
	evidence(d, f, "/sys/bus/pci/devices", "%u functions, none of them a GPU%s",
		 d->machine->count, refused ? " that this job was given" :
		 d->machine->container ? " that this container was given" : "");
	consequence(d, f, "there is no GPU memory to reach");
	if (refused) {
		evidence(d, f, refused, "%s: the device cgroup of this process forbids it",
			 strerror(EPERM));
		remedy(d, f, "have the job given a GPU (Slurm: --gres=gpu:N or --gpus; services: DeviceAllow=; containers: --gpus)");
	} else if (d->machine->container)
		remedy(d, f, "give the container a GPU (--gpus, --device, or its operator's or plugin's setting)");
	else
		remedy_owner(d, f, "a machine type that has a GPU",
			     "see whether the GPU is seated and powered: lspci -d 10de: lists NVIDIA's, lspci -d 1002: AMD's");
}

static const char *wanted_driver(const struct device *g)
{
	return g->vendor == VENDOR_NVIDIA ? "nvidia" : g->vendor == VENDOR_AMD ? "amdgpu" :
	       device_is_softgpu(g) ? "softgpu" : NULL;
}

static bool has_driver(const struct device *g, const char *wanted)
{
	return wanted && (!strcmp(g->driver, wanted) || !strcmp(g->driver, "nvgpu"));
}

/*
 * The GPU's memory is the processor's.  NVIDIA on DGX Spark (forums.developer.nvidia.com/t/348787): GPUDirect RDMA is not
 * supported; nvidia-peermem, dma-buf and gdrcopy do not work; use cudaHostAlloc() and ibv_reg_mr().
 */
static void unified(struct doctor *d, unsigned int i)
{
	const struct device *g = &d->machine->devices[i];
	struct finding *f = say_device(d, VERDICT_OK, i, WAYS_ALL);

	evidence(d, f, "device", "%04x:%04x: in the processor", g->vendor, g->device);
	evidence(d, f, "driver", "%s", *g->driver ? g->driver : "none");
	if (g->vendor == VENDOR_NVIDIA)
		consequence(d, f, "its memory is the processor's: programs register memory of cudaHostAlloc() by ibv_reg_mr(), without a copy; "
			    "by design there is no nvidia-peermem, no dma-buf of its memory and no gdrcopy here");
	else
		consequence(d, f, "its memory is the processor's: other devices reach it as they reach any host memory");
}

static void handed_on(struct doctor *d, unsigned int i)
{
	struct finding *f = say_device(d, VERDICT_OK, i, WAYS_ALL);

	evidence(d, f, "driver", "%s", d->machine->devices[i].driver);
	consequence(d, f, "the GPU is set aside for a virtual machine, or a program that drives it: its memory is that one's to give");
}

static void other_driver(struct doctor *d, unsigned int i, const char *wanted)
{
	const struct device *g = &d->machine->devices[i];
	struct finding *f = say_device(d, VERDICT_BROKEN, i, WAYS_ALL);

	evidence(d, f, "driver", "%s", *g->driver ? g->driver : "none");
	consequence(d, f, "without %s nothing can %s", wanted,
		    g->memory == MEMORY_UNIFIED ? "use the GPU" : "pin the GPU's memory");
	if (!strcmp(g->driver, "nouveau"))
		remedy(d, f, "keep nouveau from loading (blacklist it in /etc/modprobe.d), install NVIDIA's driver and modprobe nvidia");
	else if (g->vendor == VENDOR_NVIDIA && driver_in_container(d))
		remedy(d, f, "see why the driver container of the GPU operator has not loaded it: kubectl logs of its pod (nvidia-driver-daemonset)");
	else
		remedy(d, f, "modprobe %s", wanted);
}

static void one(struct doctor *d, unsigned int i)
{
	const struct device *g = &d->machine->devices[i];
	const char *wanted = wanted_driver(g);
	struct finding *f;

	if (device_is_handed_on(g)) {
		handed_on(d, i);
	} else if (g->memory == MEMORY_UNIFIED && has_driver(g, wanted)) {
		unified(d, i);
	} else if (!wanted) {
		f = say_device(d, VERDICT_UNKNOWN, i, WAYS_ALL);
		evidence(d, f, "driver", "%s", *g->driver ? g->driver : "none");
		consequence(d, f, "this vendor uses dma-buf, which the doctor checks only in part");
	} else if (has_driver(g, wanted)) {
		f = say_device(d, VERDICT_OK, i, WAYS_ALL);
		evidence(d, f, "driver", "%s", g->driver);
		if (device_is_softgpu(g))
			consequence(d, f, "this is peerdma's software GPU, a stand-in for tests");
	} else {
		other_driver(d, i, wanted);
	}
}

static void run(struct doctor *d)
{
	bool any = false;

	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (d->machine->devices[i].kind != DEVICE_GPU || !d->machine->devices[i].given)
			continue;
		any = true;
		if (device_concerned(d, i))
			one(d, i);
	}
	if (!any)
		no_gpu(d);
}

const struct check check_gpu = { "gpu", "GPU and its driver", NULL, run };
