/* SPDX-License-Identifier: MIT */
/*
 * pci.h - a PCI device's BARs, from sysfs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCI_NAME_MAX 20		/* "10000:03:00.0" and room for a domain of 8 digits */
#define PCI_BARS 6

struct pci_bar {
	uint64_t start;
	uint64_t length;	/* 0: there is none; start + length does not wrap */
	bool prefetchable;
	bool unset;		/* the kernel found no address for it: start is none */
};

struct pci_resources {
	struct pci_bar bars[PCI_BARS];
};

/* "00000000:03:00.0", "0000:3:0.0", any case: to sysfs's "0000:03:00.0".  false: not a PCI address. */
bool pci_name(const char *s, char out[PCI_NAME_MAX]);

/* The text of /sys/bus/pci/devices/ADDRESS/resource.  0 or -EBADMSG. */
int pci_parse_resources(const char *data, size_t length, struct pci_resources *out);
/* Reads it; file_read()'s errors too. */
int pci_read_resources(const char *root, const char *name, struct pci_resources *out);

/*
 * The number of the BAR that is the aperture: prefetchable and of the size the
 * driver says, or else the largest prefetchable one.  -1: there is none.
 */
int pci_aperture(const struct pci_resources *resources, uint64_t size);
