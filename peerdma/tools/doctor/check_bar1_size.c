// SPDX-License-Identifier: MIT
/*
 * check_bar1_size.c - how much of the GPU's memory can be reached at a time?
 */
#include "doctor.h"
#include "base/tool.h"

#define SMALL (256ULL << 20)

static bool applies(const struct doctor *d)
{
	return any_gpu_with(d, VENDOR_NVIDIA, MEMORY_BEHIND_BAR);
}

static uint64_t largest(uint64_t sizes)
{
	return sizes ? 1ULL << (63 - __builtin_clzll(sizes)) : 0;
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];
		char size[32], could[32];
		struct finding *f;
		uint64_t length;
		int bar;

		if (!is_gpu_with(d, i, VENDOR_NVIDIA, MEMORY_BEHIND_BAR) || !g->has_bars)
			continue;
		bar = pci_aperture(&g->bars, 0);
		if (bar < 0) {
			f = say_device(d, VERDICT_BROKEN, i, WAYS_PCI);
			evidence(d, f, "resource", "%s has no prefetchable memory BAR", g->name);
			consequence(d, f, "there is no window to its memory");
			remedy(d, f,
			       "see the finding about BAR addresses, and dmesg from the boot");
			continue;
		}
		length = g->bars.bars[bar].length;
		f = say_device(d, length > SMALL ? VERDICT_OK : VERDICT_SLOW, i, WAYS_PCI);
		evidence(d, f, "resource", "%s: BAR1 (resource %d) is %s", g->name, bar,
			 text_size(length, size));
		if (g->rebar_sizes)
			evidence(d, f, "resizable BAR", "it can be up to %s",
				 text_size(largest(g->rebar_sizes), could));
		if (length > SMALL)
			continue;
		consequence(d, f, "no more than some 220 MiB can be pinned at a time: larger registrations fail with ENOMEM or \"Bad address\"");
		if (largest(g->rebar_sizes) > length)
			remedy_owner(d, f, "a virtual machine with the board's whole BAR1: this board can do more",
				     "turn on \"Above 4G Decoding\" and \"Resizable BAR\" in the firmware: this board can do more");
		else
			remedy(d, f, "register in pieces and unpin early%s", d->machine->virtual ? "" :
			       "; NVIDIA's displaymodeselector gives some boards a larger BAR1");
	}
}

const struct check check_bar1_size = { "bar1-size", "Size of BAR1", applies, run };
