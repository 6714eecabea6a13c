// SPDX-License-Identifier: MIT
/* parse.c - see parse.h.  Its input may be any text. */
#include <stdio.h>
#include <string.h>

#include "parse.h"

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 16;
}

bool sgu_number(const char *text, size_t length, uint64_t *out)
{
	uint64_t value = 0, base = 10;
	size_t i = 0;

	if (length > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		base = 16;
		i = 2;
	}
	if (i == length)
		return false;
	for (; i < length; i++) {
		uint64_t d = digit(text[i]);

		if (d >= base || value > (UINT64_MAX - d) / base)
			return false;
		value = value * base + d;
	}
	*out = value;
	return true;
}

bool sgu_pci(const char *text, struct sgu_pci *out)
{
	unsigned int *domain = &out->domain, *bus = &out->bus, *device = &out->device;
	unsigned int *function = &out->function;
	int end = 0;

	/* sscanf() takes signs, blanks and 0x as well. */
	if (text[strspn(text, "0123456789abcdefABCDEF:.")])
		return false;
	if (sscanf(text, "%8x:%8x:%8x.%8x%n", domain, bus, device, function, &end) == 4 && !text[end])
		return true;
	*function = 0;
	if (sscanf(text, "%8x:%8x:%8x%n", domain, bus, device, &end) == 3 &&
	    (!text[end] || !strcmp(text + end, ".")))
		return true;
	*domain = 0;
	if (sscanf(text, "%8x:%8x.%8x%n", bus, device, function, &end) == 3 && !text[end])
		return true;
	*function = 0;
	return sscanf(text, "%8x:%8x%n", bus, device, &end) == 2 && !text[end];
}
