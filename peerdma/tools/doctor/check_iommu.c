// SPDX-License-Identifier: MIT
/*
 * check_iommu.c - does an IOMMU translate what the devices address?
 */
#include <stdio.h>

#include "doctor.h"

static bool applies(const struct doctor *d)
{
	return d->pair_count;
}

static void source(const struct device *x, char out[64])
{
	if (x->group >= 0)
		snprintf(out, 64, "/sys/kernel/iommu_groups/%d/type", x->group);
	else
		snprintf(out, 64, "/sys/class/iommu");
}

static void run(struct doctor *d)
{
	static const char *const values[] = { "cannot be read", "off for this device", "identity",
					      "DMA: translating" };
	struct finding *f;
	char file[64];

	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];

		/* Whose DMA is translated matters: the peer's, and a GPU's only when two GPUs talk. */
		if (!device_concerned(d, i) || x->kind == DEVICE_BRIDGE ||
		    x->kind == DEVICE_OTHER || (x->kind == DEVICE_GPU && !d->chosen))
			continue;
		f = say_device(d, x->iommu == IOMMU_UNKNOWN ? VERDICT_UNKNOWN :
			   x->iommu == IOMMU_TRANSLATING ? VERDICT_SLOW : VERDICT_OK, i, WAYS_PCI);
		source(x, file);
		evidence(d, f, file, "%s", values[x->iommu]);
		if (x->iommu == IOMMU_UNKNOWN) {
			consequence(d, f, "not known whether its addresses are translated");
			remedy(d, f, "see that /sys/kernel/iommu_groups and /sys/class/iommu can be read here");
		} else if (x->iommu == IOMMU_TRANSLATING) {
			consequence(d, f, "every access has to go up to the processor to be translated, past any switch; a driver that uses "
				    "physical addresses of the GPU's BAR instead of mapping them (dma_map_resource) writes elsewhere or nowhere");
			remedy(d, f, "add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub) and boot again");
		}
	}
}

const struct check check_iommu = { "iommu", "IOMMU", applies, run };
