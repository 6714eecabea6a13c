// SPDX-License-Identifier: MIT
/*
 * check_gpu.c - is there a GPU, and has it a driver that lets others reach its memory?
 */
#include <string.h>

#include "doctor.h"

static void no_gpu(struct doctor *d)
{
	struct finding *f;

	if (d->machine->tegra) {
		f = say(d, VERDICT_OK, "this machine");
		evidence(d, f, "/proc/device-tree/compatible", "nvidia,tegra...");
		consequence(d, f, "the GPU is in the processor: cards reach memory from cudaHostAlloc() by Tegra's own nvidia_p2p "
			    "calls, or by pin_user_pages() from Thor on; the checks of BAR1 and of paths do not apply");
		return;
	}
	f = say(d, VERDICT_BROKEN, "this machine");
	evidence(d, f, "/sys/bus/pci/devices", "%u functions, none of them a GPU%s",
		 d->machine->count, d->machine->container ? " that this container was given" : "");
	consequence(d, f, "there is no GPU memory to reach");
	remedy(d, f, d->machine->container ? "give the container a GPU (--gpus, --device, or its operator's or plugin's setting)" :
	       d->machine->virtual ? "pass a GPU through to this virtual machine" :
	       "see whether the GPU is seated and powered: lspci -d 10de: lists NVIDIA's, lspci -d 1002: AMD's");
}

static const char *wanted_driver(const struct device *g)
{
	return g->vendor == VENDOR_NVIDIA ? "nvidia" : g->vendor == VENDOR_AMD ? "amdgpu" :
	       device_is_softgpu(g) ? "softgpu" : NULL;
}

static void run(struct doctor *d)
{
	bool any = false;

	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];
		const char *wanted = wanted_driver(g);
		struct finding *f;

		if (g->kind != DEVICE_GPU || !g->given)
			continue;
		any = true;
		if (!device_concerned(d, i))
			continue;
		if (!wanted) {
			f = say_device(d, VERDICT_UNKNOWN, i, WAYS_ALL);
			evidence(d, f, "driver", "%s", *g->driver ? g->driver : "none");
			consequence(d, f, "this vendor uses dma-buf, which the doctor checks only in part");
		} else if (!strcmp(g->driver, wanted)) {
			f = say_device(d, VERDICT_OK, i, WAYS_ALL);
			evidence(d, f, "driver", "%s", g->driver);
			if (device_is_softgpu(g))
				consequence(d, f,
					    "this is peerdma's software GPU, a stand-in for tests");
		} else if (!strcmp(g->driver, "vfio-pci")) {
			f = say_device(d, VERDICT_OK, i, WAYS_ALL);
			evidence(d, f, "driver", "vfio-pci");
			consequence(d, f, "the GPU is set aside for a virtual machine, or a program that drives it: its memory is that one's to give");
		} else {
			f = say_device(d, VERDICT_BROKEN, i, WAYS_ALL);
			evidence(d, f, "driver", "%s", *g->driver ? g->driver : "none");
			consequence(d, f, "without %s nothing can pin the GPU's memory", wanted);
			remedy(d, f, strcmp(g->driver, "nouveau") ? "modprobe %s" :
			       "keep nouveau from loading (blacklist it in /etc/modprobe.d), install NVIDIA's driver and modprobe %s", wanted);
		}
	}
	if (!any)
		no_gpu(d);
}

const struct check check_gpu = { "gpu", "GPU and its driver", NULL, run };
