// SPDX-License-Identifier: MIT
/* PCI addresses, by all who take one: hexadecimal, colons and a dot; the same device to all. */
#include "fuzz.h"
#include "../../peerdma/lib/internal.h"
#include "parse.h"
#include "base/pci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), name[PCI_NAME_MAX], again[PCI_NAME_MAX];
	struct peerdma_map_args args;
	bool plain = text[strspn(text, "0123456789abcdefABCDEF:.")] == 0;
	struct sgu_pci at;

	if (sgu_pci(text, &at))
		MUST(plain);
	memset(&args, 0, sizeof(args));
	if (map_parse_pci(text, &args))
		MUST(plain && args.bus <= 0xff && args.devfn <= 0xff);
	if (pci_name(text, name)) {
		MUST(plain && pci_name(name, again) && !strcmp(name, again));
		MUST(map_parse_pci(text, &args) && sgu_pci(text, &at));
		MUST(at.domain == args.domain && at.bus == args.bus &&
		     (at.device << 3 | at.function) == args.devfn);
	}
	free(text);
	return 0;
}
