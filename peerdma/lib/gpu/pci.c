// SPDX-License-Identifier: MIT
/* pci.c - the PCI addresses that callers give.  Its input may be any text. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

bool map_parse_pci(const char *s, struct peerdma_map_args *args)
{
	unsigned int domain = 0, bus, device, function;
	int end = -1;

	if (sscanf(s, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 || end < 0) {
		domain = 0;
		end = -1;
		if (sscanf(s, "%2x:%2x.%1x%n", &bus, &device, &function, &end) != 3 || end < 0)
			return false;
	}
	if (s[end] || strspn(s, "0123456789abcdefABCDEF:.") != strlen(s) || device > 31 || function > 7)
		return false;
	args->domain = domain;
	args->bus = bus;
	args->devfn = device << 3 | function;
	return true;
}
