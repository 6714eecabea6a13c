// SPDX-License-Identifier: MIT
/*
 * disks.c - finds the PCI functions that transfer a file's data, by sysfs: the file's block device, through device mapper and
 * RAID down to controllers.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "file.h"

#define DEPTH_MAX 8

/* The last part of a sysfs path that is a PCI address: the function nearest to the block device. */
static bool last_pci(char *path, char pci[16])
{
	struct peerdma_map_args args;
	char *next, *save = NULL;
	bool found = false;

	for (char *part = strtok_r(path, "/", &save); part; part = next) {
		next = strtok_r(NULL, "/", &save);
		if (strlen(part) < 16 && map_parse_pci(part, &args)) {
			strcpy(pci, part);
			found = true;
		}
	}
	return found;
}

static void add(struct disks *disks, const char *pci)
{
	for (unsigned int i = 0; i < disks->count; i++) {
		if (!strcmp(disks->pci[i], pci))
			return;
	}
	if (disks->count == DISKS_MAX)
		disks->unknown = "the file lies on more disks than are looked at";
	else
		strcpy(disks->pci[disks->count++], pci);
}

static void look(const char *block, struct disks *disks, unsigned int depth);

/* The devices that a device of device mapper or RAID consists of.  False: it consists of none. */
static bool look_below(const char *device, struct disks *disks, unsigned int depth)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool any = false;
	DIR *dir;

	if (snprintf(path, sizeof(path), "%s/slaves", device) >= (int)sizeof(path))
		return false;
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		any = true;
		if (snprintf(path, sizeof(path), "%s/slaves/%s", device, entry->d_name) <
		    (int)sizeof(path))
			look(path, disks, depth + 1);
	}
	if (dir)
		closedir(dir);
	return any;
}

static void look(const char *block, struct disks *disks, unsigned int depth)
{
	char device[PATH_MAX], pci[16];

	if (depth > DEPTH_MAX || !realpath(block, device)) {
		disks->unknown = "sysfs does not show the file's block device";
		return;
	}
	if (look_below(device, disks, depth))
		return;
	if (last_pci(device, pci))
		add(disks, pci);
	else
		disks->unknown = "the file's block device is no PCI device";
}

void disks_find(int fd, struct disks *disks)
{
	struct stat s;
	char path[64];
	dev_t device;

	*disks = (struct disks){ 0 };
	if (fstat(fd, &s)) {
		disks->unknown = "the file's device cannot be read";
		return;
	}
	device = S_ISBLK(s.st_mode) ? s.st_rdev : s.st_dev;
	/* Of file systems without a block device of their own: tmpfs, NFS, btrfs, overlayfs. */
	if (!major(device)) {
		disks->unknown = "the file system does not say which disk has the file";
		return;
	}
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(device), minor(device));
	look(path, disks, 0);
}
