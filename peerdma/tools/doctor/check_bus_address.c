// SPDX-License-Identifier: MIT
/*
 * check_bus_address.c - the trap: the kernel takes the short way, and something translates on it.
 */
/*
 * Behind one switch the kernel's own peer-to-peer DMA (p2pdma: NVMe, and dma-buf of
 * amdgpu) hands out plain bus addresses, since a switch that does not redirect
 * never shows them to the IOMMU.  A virtual machine's switch is drawn: its IOMMU
 * sees and refuses them.  The drive reports success; the data never arrives.
 */
#include "doctor.h"

static bool translated(const struct doctor *d, const struct pair *p)
{
	const struct machine *m = d->machine;

	return m->devices[p->a].iommu == IOMMU_TRANSLATING || m->devices[p->b].iommu == IOMMU_TRANSLATING;
}

static bool redirected(const struct doctor *d, const struct pair *p)
{
	const struct machine *m = d->machine;
	int bridges[64];
	unsigned int n = path_bridges(m, p->a, p->meet, bridges, 32);

	n += path_bridges(m, p->b, p->meet, bridges + n, 32);
	for (unsigned int i = 0; i < n; i++) {
		if (m->devices[bridges[i]].acs == ACS_REDIRECT)
			return true;
	}
	return false;
}

static bool trap(const struct doctor *d, const struct pair *p)
{
	return d->machine->virtual && p->meet >= 0 && p->path <= PATH_PXB && translated(d, p) && !redirected(d, p);
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
		const struct device *a = &d->machine->devices[p->a], *b = &d->machine->devices[p->b];
		char file[128], has;
		struct finding *f;

		if (!trap(d, p))
			continue;
		has = kernel_config(d, "PCI_P2PDMA", file);
		f = say(d, has == 'y' ? VERDICT_BROKEN : has == 'n' ? VERDICT_OK : VERDICT_UNKNOWN, "%s and %s", a->label, b->label);
		evidence(d, f, "path", "%s, below one switch of a virtual machine", path_name(p->path));
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

const struct check check_bus_address = { "bus-address", "Switch and translating IOMMU", applies, run };
