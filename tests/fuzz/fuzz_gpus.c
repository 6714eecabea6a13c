// SPDX-License-Identifier: MIT
/* The table of GPUs in a captured tree, and what sysfs says of a device. */
#include "fuzz.h"
#include "machine/gpus.h"
#include "base/pci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_copy(data, size);
	struct pci_resources resources;
	struct gpus gpus;
	int bar;

	if (!gpus_parse_tsv(copy, size, &gpus)) {
		for (size_t i = 0; i < gpus.count; i++)
			MUST(gpus.gpus[i].name && gpus.gpus[i].uuid);
		gpus_free(&gpus);
	}
	if (!pci_parse_resources(copy, size, &resources)) {
		for (int i = 0; i < PCI_BARS; i++)
			MUST(!resources.bars[i].length ||
			     resources.bars[i].start + (resources.bars[i].length - 1) >= resources.bars[i].start);
		bar = pci_aperture(&resources, 1 << 28);
		MUST(bar < 0 || (bar < PCI_BARS && resources.bars[bar].length));
	}
	free(copy);
	return 0;
}
