// SPDX-License-Identifier: MIT
/*
 * check_amd_bar.c - AMD: is all of the memory in the BAR?
 */
#include <stdio.h>

#include "doctor.h"
#include "base/tool.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_with(d, VENDOR_AMD, MEMORY_BEHIND_BAR);
}

static int figure(struct doctor *d, const struct device *g, const char *file, int64_t *out)
{
	char path[128];

	snprintf(path, sizeof(path), PCI_DEVICES "%s/%s", g->name, file);
	return tree_number(d->tree, path, out);
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];
		int64_t total = 0, visible = 0;
		char a[32], b[32];
		struct finding *f;

		if (!is_gpu_with(d, i, VENDOR_AMD, MEMORY_BEHIND_BAR))
			continue;
		if (figure(d, g, "mem_info_vram_total", &total) ||
		    figure(d, g, "mem_info_vis_vram_total", &visible) || total <= 0) {
			f = say_device(d, VERDICT_UNKNOWN, i, WAYS_PCI);
			evidence_device(d, f, g, "mem_info_vis_vram_total");
			consequence(d, f, "not known whether all of its memory is in the BAR");
			remedy(d, f, "load amdgpu and look again");
			continue;
		}
		f = say_device(d, visible < total ? VERDICT_BROKEN : VERDICT_OK, i, WAYS_PCI);
		evidence(d, f, "mem_info_vis_vram_total", "%s of %s are in the BAR",
			 text_size((uint64_t)visible, a), text_size((uint64_t)total, b));
		if (visible < total) {
			consequence(d, f, "other devices reach only that part; ROCm refuses peer-to-peer without a large BAR");
			remedy_owner(d, f, "a virtual machine with the board's whole BAR",
				     "turn on \"Above 4G Decoding\" and \"Resizable BAR\" in the firmware");
		}
	}
}

const struct check check_amd_bar = { "amd-bar", "Large BAR", applies, run };
