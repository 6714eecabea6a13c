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

/* It asks for translations itself, and what it asks with them goes by the short way. */
static bool passes_translated(const struct doctor *d, unsigned int client)
{
	struct reach r;

	for (unsigned int i = 0; i < d->pair_count; i++) {
		const struct pair *p = &d->pairs[i];

		if (p->a != client && p->b != client)
			continue;
		machine_reach(d->machine, p->a == client ? p->b : p->a, client, &r);
		if (!r.passes_translated)
			return false;
	}
	return true;
}

static void translating(struct doctor *d, struct finding *f, const struct device *x)
{
	if (f->verdict == VERDICT_OK) {
		evidence(d, f, "ATS", "%s: on", x->name);
		consequence(d, f, "the device asks for translations once and keeps them (ATS): its accesses to other devices go by the short way");
		return;
	}
	consequence(d, f, "every access has to go up to the processor to be translated, past any switch; a driver that uses "
		    "physical addresses of the GPU's BAR instead of mapping them (dma_map_resource) writes elsewhere or nowhere");
	if (d->machine->confidential == CONFIDENTIAL_SNP_HOST) {
		evidence(d, f, d->machine->confidential_source, "%s",
			 d->machine->confidential_value);
		remedy(d, f, "leave it so for SEV-SNP guests, which need a translating IOMMU: iommu=pt turns SNP off; "
		       "without such guests, load kvm_amd with sev_snp=0 and boot with iommu=pt");
		return;
	}
	remedy(d, f, "add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub) and boot again");
}

static void one(struct doctor *d, unsigned int client)
{
	static const char *const values[] = { "cannot be read", "off for this device", "identity",
					      "DMA: translating" };
	const struct device *x = &d->machine->devices[client];
	bool passes = x->ats && passes_translated(d, client);
	struct finding *f;
	char file[64];

	f = say_device(d, x->iommu == IOMMU_UNKNOWN ? VERDICT_UNKNOWN :
		       x->iommu == IOMMU_TRANSLATING && !passes ? VERDICT_SLOW : VERDICT_OK,
		       client, WAYS_PCI);
	source(x, file);
	evidence(d, f, file, "%s", values[x->iommu]);
	if (x->iommu == IOMMU_UNKNOWN) {
		consequence(d, f, "not known whether its addresses are translated");
		remedy(d, f, "see that /sys/kernel/iommu_groups and /sys/class/iommu can be read here");
	} else if (x->iommu == IOMMU_TRANSLATING) {
		translating(d, f, x);
	}
}

/* Whose DMA is translated matters: the peer's, not the GPU's; between two GPUs it is both. */
static bool is_client(const struct doctor *d, const struct pair *p, unsigned int i)
{
	const struct device *x = &d->machine->devices[i];
	unsigned int other = p->a == i ? p->b : p->a;

	return (p->a == i || p->b == i) && pair_is_pci(d, p) &&
	       (x->kind != DEVICE_GPU || d->machine->devices[other].kind == DEVICE_GPU);
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		bool any = false;

		for (unsigned int k = 0; k < d->pair_count; k++)
			any |= is_client(d, &d->pairs[k], i);
		if (any)
			one(d, i);
	}
}

const struct check check_iommu = { "iommu", "IOMMU", applies, run };
