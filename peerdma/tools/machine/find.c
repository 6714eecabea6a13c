// SPDX-License-Identifier: MIT
/* find.c - devices by what people call them. */
#include <stdio.h>
#include <string.h>

#include "machine.h"

int machine_index(const struct machine *m, const char *name)
{
	for (unsigned int i = 0; i < m->count; i++) {
		if (!strcmp(m->devices[i].name, name))
			return (int)i;
	}
	return -1;
}

int machine_find(const struct machine *m, const char *name)
{
	char address[PCI_NAME_MAX], longer[40];

	for (unsigned int i = 0; i < m->count; i++) {
		if (*m->devices[i].label && !strcasecmp(m->devices[i].label, name))
			return (int)i;
	}
	snprintf(longer, sizeof(longer), "0000:%.30s", name);
	if (pci_name(name, address) || pci_name(longer, address))
		return machine_index(m, address);
	for (unsigned int i = 0; i < m->count; i++) {
		for (const char *s = m->devices[i].known_as; *s; s += strspn(s, ", ")) {
			size_t length = strcspn(s, ",");

			if (length == strlen(name) && !memcmp(s, name, length))
				return (int)i;
			s += length;
		}
	}
	return -1;
}
