// SPDX-License-Identifier: MIT
/*
 * check_bus_address.c - the trap: the kernel takes the short way, and something translates on it.
 *
 * Behind one switch the kernel's own peer-to-peer DMA (p2pdma: NVMe, and dma-buf of
 * amdgpu) hands out plain bus addresses, since a switch that does not redirect
 * never shows them to the IOMMU.  A virtual machine's switch is drawn: its IOMMU
 * sees and refuses them.  The drive reports success; the data never arrives.
 */
#include "doctor.h"

static bool trap(const struct doctor *d, const struct pair *p)
{
	struct reach there, back;

	if (!d->machine->virtual || p->path == PATH_SELF)
		return false;
	machine_reach(d->machine, p->a, p->b, &there);
	machine_reach(d->machine, p->b, p->a, &back);
	return there.facts.common_port && !there.facts.redirected &&
	       (there.facts.translated || back.facts.translated);
}

static bool applies(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		if (trap(d, &d->pairs[i]))
			return true;
	}
	return false;
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		const struct pair *p = &d->pairs[i];
		char file[128], has;
		struct finding *f;

		if (!trap(d, p))
			continue;
		has = kernel_config(d, "PCI_P2PDMA", file);
		f = say_pair(d, has == 'y' ? VERDICT_BROKEN : has == 'n' ? VERDICT_OK :
			     VERDICT_UNKNOWN, p, WAY(WAY_P2PDMA) | WAY(WAY_DMABUF));
		evidence(d, f, "path", "%s, below one switch of a virtual machine",
			 path_name(p->path));
		evidence(d, f, "IOMMU", "translating");
		evidence_config(d, f, "PCI_P2PDMA", has, file);
		if (has == 'n') {
			consequence(d, f, "this kernel has no p2pdma that would use bus addresses here; drivers that map (dma_map_resource) work");
			continue;
		}
		consequence(d, f, "the kernel's p2pdma uses bus addresses below a switch, and this virtual machine's IOMMU translates them all the "
			    "same: transfers report success and the data never arrives");
		remedy(d, f, "add iommu=pt to the guest kernel's command line, and compare data after a transfer, not its status");
	}
}

const struct check check_bus_address = { "bus-address", "Switch and translating IOMMU", applies,
					 run };
