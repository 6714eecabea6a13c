// SPDX-License-Identifier: MIT
/* A PCI device's config space, from a captured machine: any bytes of any length. */
#include "fuzz.h"
#include "machine/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct device before = { 0 }, after = { 0 };
	uint8_t *copy = (uint8_t *)fuzz_copy(data, size);

	pci_config_parse(&before, copy, size);
	MUST(before.port >= PORT_UNKNOWN && before.port <= 15);
	MUST(before.acs != ACS_REDIRECT || before.acs_control);
	MUST(!before.rebar_sizes || before.rebar_bar <= 7);
	/* The serial number is beyond what tells a port's type. */
	pci_config_anonymous(copy, size);
	pci_config_parse(&after, copy, size);
	MUST(after.port == before.port);
	free(copy);
	return 0;
}
