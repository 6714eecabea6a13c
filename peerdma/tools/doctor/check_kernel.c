// SPDX-License-Identifier: MIT
/*
 * check_kernel.c - is the kernel built with what peer-to-peer DMA of others than nvidia_p2p needs?
 */
#include <string.h>

#include "doctor.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_of(d, VENDOR_AMD) || any_of_kind(d, DEVICE_NVME);
}

static void run(struct doctor *d)
{
	static const struct {
		const char *name, *lacking;
		bool amd_only;
	} options[] = {
		{ "PCI_P2PDMA", "no drive and no adapter is given a device's memory by the kernel's own peer-to-peer DMA", false },
		{ "DMABUF_MOVE_NOTIFY", "UCX and perftest do not use dma-buf, and amdgpu moves exported memory to the host", true },
		{ "HSA_AMD_P2P", "GPUs of AMD do not reach each other's memory over PCIe", true },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		char file[128], has;
		struct finding *f;

		if (options[i].amd_only && !any_gpu_of(d, VENDOR_AMD))
			continue;
		if (!strcmp(options[i].name, "DMABUF_MOVE_NOTIFY") && always_moves(d)) {
			f = say(d, VERDICT_OK, "CONFIG_%s", options[i].name);
			evidence(d, f, "/proc/sys/kernel/osrelease", "%s: no such option since 7.1, what it chose is always there",
				 d->machine->release);
			consequence(d, f, "UCX and perftest, where they look for the option by its name, do not use dma-buf");
			continue;
		}
		has = kernel_config(d, options[i].name, file);
		/* With NVIDIA's GPUs nvidia-fs does without it. */
		f = say(d, has == '?' ? VERDICT_UNKNOWN : has == 'y' ? VERDICT_OK : options[i].amd_only ? VERDICT_BROKEN : VERDICT_SLOW,
			"CONFIG_%s", options[i].name);
		evidence_config(d, f, options[i].name, has, file);
		if (has == '?') {
			consequence(d, f, "how this kernel was built is not known");
			remedy(d, f, "install the file config-%s in /boot, or load the module configs", d->machine->release);
		} else if (has != 'y') {
			consequence(d, f, "%s", options[i].lacking);
			remedy(d, f, "boot a kernel that is built with CONFIG_%s=y", options[i].name);
		}
	}
}

const struct check check_kernel = { "kernel", "Kernel options", applies, run };
