// SPDX-License-Identifier: MIT
/* peers.c - the DMA cards of a virtual machine. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "peers.h"

#define PCI	"/sys/bus/pci/devices"

static bool file_says(const char *device, const char *file, const char *want)
{
	char path[512], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), PCI "/%s/%s", device, file);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	return !strncmp(text, want, strlen(want));
}

bool peer_name(int n, char name[NAME_MAX + 1])
{
	struct dirent **list;
	int i, count = scandir(PCI, &list, NULL, alphasort);
	bool found = false;

	for (i = 0; i < count; i++) {
		if (list[i]->d_name[0] != '.' && file_says(list[i]->d_name, "vendor", "0x1234") &&
		    file_says(list[i]->d_name, "device", "0x11e8") && !n--) {
			strcpy(name, list[i]->d_name);
			found = true;
		}
		free(list[i]);
	}
	if (count >= 0)
		free(list);
	return found;
}

uint32_t peer_bdf(int n)
{
	unsigned int domain, bus, device, function;
	char name[NAME_MAX + 1];

	if (!peer_name(n, name) ||
	    sscanf(name, "%x:%x:%x.%u", &domain, &bus, &device, &function) != 4 || domain)
		return 0;
	return bus << 8 | device << 3 | function;
}

bool peer_is_translated(int n)
{
	char name[NAME_MAX + 1];

	return peer_name(n, name) && file_says(name, "iommu_group/type", "DMA");
}
