// SPDX-License-Identifier: MIT
/*
 * check_bar_address.c - has each memory BAR got an address (above 4 GiB)?
 */
#include "doctor.h"
#include "base/tool.h"

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];
		struct finding *f = NULL;
		char size[32];

		if (!device_concerned(d, i) || x->kind == DEVICE_BRIDGE || x->kind == DEVICE_OTHER)
			continue;
		if (!x->has_bars) {
			f = say_device(d, VERDICT_UNKNOWN, i, WAYS_PCI);
			evidence_device(d, f, x, "resource");
			consequence(d, f, "its BARs are not known");
			continue;
		}
		for (unsigned int bar = 0; bar < PCI_BARS; bar++) {
			if (!x->bars.bars[bar].unset)
				continue;
			if (!f)
				f = say_device(d, VERDICT_BROKEN, i, WAYS_PCI);
			evidence(d, f, "resource", "%s: BAR %u of %s has no address", x->name, bar,
				 text_size(x->bars.bars[bar].length, size));
		}
		if (f) {
			consequence(d, f, "no device can reach the memory behind that BAR");
			remedy_owner(d, f, "room for its BARs above 4 GiB (64-bit MMIO)",
				     "turn on \"Above 4G Decoding\" (\"large BAR\", \"64-bit MMIO\") in the firmware; failing that, try pci=realloc "
				     "on the kernel's command line");
		} else {
			f = say_device(d, VERDICT_OK, i, WAYS_PCI);
			evidence(d, f, "resource", "every BAR has an address");
		}
	}
}

const struct check check_bar_address = { "bar-address", "BAR addresses", NULL, run };
