// SPDX-License-Identifier: MIT
/*
 * pci.c - parses sysfs's view of a PCI device.  Its input may be any bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci.h"
#include "tool.h"

/* linux/ioport.h: the third column of a resource file. */
#define RESOURCE_MEM		0x00000200ULL
#define RESOURCE_PREFETCH	0x00002000ULL
#define RESOURCE_UNSET		0x20000000ULL

bool pci_name(const char *s, char out[PCI_NAME_MAX])
{
	unsigned int domain, bus, device, function;
	int end = -1;

	if (strspn(s, "0123456789abcdefABCDEF:.") != strlen(s) ||
	    sscanf(s, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 ||
	    end < 0 || s[end] || device > 31 || function > 7)
		return false;
	snprintf(out, PCI_NAME_MAX, "%04x:%02x:%02x.%x", domain, bus, device, function);
	return true;
}

/* One number, and the space before it. */
static bool number(const char **s, const char *end, uint64_t *out)
{
	const char *start;

	while (*s < end && **s == ' ')
		(*s)++;
	start = *s;
	while (*s < end && **s != ' ')
		(*s)++;
	return text_u64(start, *s - start, out);
}

int pci_parse_resources(const char *data, size_t length, struct pci_resources *out)
{
	const char *s = data, *end = data + length;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < PCI_BARS; i++) {
		const char *newline = memchr(s, '\n', end - s);
		uint64_t first, last, flags;

		if (!newline || !number(&s, newline, &first) || !number(&s, newline, &last) ||
		    !number(&s, newline, &flags))
			return -EBADMSG;
		s = newline + 1;
		if (!(flags & RESOURCE_MEM) || (!first && !last))
			continue;
		if (last < first || last == UINT64_MAX)
			return -EBADMSG;
		out->bars[i] = (struct pci_bar){
			.start = first,
			.length = last - first + 1,
			.prefetchable = flags & RESOURCE_PREFETCH,
			.unset = flags & RESOURCE_UNSET,
		};
	}
	return 0;
}

int pci_read_resources(const char *root, const char *name, struct pci_resources *out)
{
	char path[128], *data;
	size_t length;
	int ret;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource", name);
	ret = file_read(root, path, &data, &length);
	if (ret)
		return ret;
	ret = pci_parse_resources(data, length, out);
	free(data);
	return ret;
}

int pci_aperture(const struct pci_resources *resources, uint64_t size)
{
	const struct pci_bar *bars = resources->bars;
	int largest = -1;

	for (int i = 0; i < PCI_BARS; i++) {
		if (bars[i].length && bars[i].length == size && bars[i].prefetchable)
			return i;
	}
	for (int i = 0; i < PCI_BARS; i++) {
		if (bars[i].length && bars[i].prefetchable &&
		    (largest < 0 || bars[i].length > bars[largest].length))
			largest = i;
	}
	return largest;
}
