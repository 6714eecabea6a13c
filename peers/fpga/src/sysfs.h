/* SPDX-License-Identifier: MIT */
/* sysfs.h - what the kernel reports about PCI devices and modules. */
#ifndef FPGA_SYSFS_H
#define FPGA_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYSFS_TEXT	200

bool pci_present(const char *pci);

/* How two PCI devices are connected, nearest first. */
enum pci_path {
	PCI_PATH_UNKNOWN,
	PCI_PATH_SWITCH,	/* below one PCIe switch */
	PCI_PATH_BRIDGE,	/* below one host bridge, through the root complex */
	PCI_PATH_BRIDGES,	/* below two host bridges, as on two sockets */
};

/* Describes the path in text, without the devices' names. */
enum pci_path pci_path(const char *a, const char *b, char text[SYSFS_TEXT]);

/*
 * Returns the number of the BAR that contains a physical address, and the offset in it; -1:
 * none.
 */
int pci_bar_of(const char *pci, uint64_t phys, uint64_t *offset);

/* Where a BAR is in physical memory; length 0: there is none. */
void pci_bar(const char *pci, int bar, uint64_t *start, uint64_t *length);

/* Writes what peers/witness reads: where the BAR is, and how many bytes went there.  False and errno. */
bool bar_report(const char *path, const char *pci, int bar, uint64_t bytes);

/* Lines of a table in debugfs behind the one that names the columns; -1: no such file. */
int debugfs_lines(const char *path);

/* Uses of a module; -1 if it is not loaded. */
int module_refs(const char *name);

/* A module's parameter.  False and errno. */
bool module_param_set(const char *module, const char *name, const char *value);

#endif
