// SPDX-License-Identifier: MIT
/*
 * check_kernel.c - is the kernel built with what peer-to-peer DMA of others than nvidia_p2p needs?
 */
#include "doctor.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_of(d, VENDOR_AMD) || any_of_kind(d, DEVICE_NVME);
}

struct kernel_option {
	const char *name, *lacking;
	bool amd_only;
	unsigned int ways;		/* that need it */
	/* On kernels where the option is gone because its feature is always there; and what that changes for drivers unaware of it. */
	bool (*always)(const struct doctor *d);
	const char *since, *unaware;
};

static const struct kernel_option options[] = {
	{
		.name = "PCI_P2PDMA",
		.lacking =
		"the kernel's own peer-to-peer DMA gives no drive or adapter a device's memory",
		.ways = WAY(WAY_P2PDMA),
	}, {
		.name = "DMABUF_MOVE_NOTIFY",
		.lacking =
		"UCX and perftest do not use dma-buf, and amdgpu moves exported memory to the host",
		.amd_only = true,
		.ways = WAY(WAY_DMABUF),
		.always = always_moves,
		.since = "7.1",
		.unaware =
		"UCX and perftest, where they look for the option by its name, do not use dma-buf",
	}, {
		.name = "HSA_AMD_P2P",
		.lacking = "GPUs of AMD do not reach each other's memory over PCIe",
		.amd_only = true,
		.ways = WAY(WAY_P2PDMA),
	},
};

static void say_always(struct doctor *d, const struct kernel_option *option)
{
	struct finding *f = say(d, VERDICT_OK, "CONFIG_%s", option->name);

	evidence(d, f, "/proc/sys/kernel/osrelease", "%s: no such option since %s: always built in",
		 d->machine->release, option->since);
	consequence(d, f, "%s", option->unaware);
}

static void say_config(struct doctor *d, const struct kernel_option *option, unsigned int vendor,
		       unsigned int ways)
{
	char file[128], has = kernel_config(d, option->name, file);
	struct finding *f;

	f = say_maker(d, has == '?' ? VERDICT_UNKNOWN : has == 'y' ? VERDICT_OK : VERDICT_BROKEN,
		      vendor, ways, "CONFIG_%s%s", option->name,
		      vendor && !option->amd_only ? " for amdgpu" : "");
	evidence_config(d, f, option->name, has, file);
	if (has == '?') {
		consequence(d, f, "the kernel's configuration is not known");
		remedy(d, f, "install the file config-%s in /boot, or load the module configs",
		       d->machine->release);
	} else if (has != 'y') {
		consequence(d, f, "%s", option->lacking);
		remedy(d, f, "boot a kernel that is built with CONFIG_%s=y", option->name);
	}
}

static bool all_gpus_of(const struct doctor *d, unsigned int vendor)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];

		if (g->kind == DEVICE_GPU && g->vendor != vendor && device_concerned(d, i))
			return false;
	}
	return true;
}

static void run(struct doctor *d)
{
	bool amd = any_gpu_of(d, VENDOR_AMD), only = amd && all_gpus_of(d, VENDOR_AMD);

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const struct kernel_option *option = &options[i];

		if (option->amd_only && !amd)
			continue;
		if (option->always && option->always(d))
			say_always(d, option);
		else if (option->amd_only)
			say_config(d, option, VENDOR_AMD, option->ways);
		else	/* amdgpu exports by way of it. */
			say_config(d, option, 0, option->ways | (only ? WAY(WAY_DMABUF) : 0));
		if (!option->amd_only && amd && !only)
			say_config(d, option, VENDOR_AMD, WAY(WAY_DMABUF));
	}
}

const struct check check_kernel = { "kernel", "Kernel options", applies, run };
