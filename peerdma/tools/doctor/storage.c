// SPDX-License-Identifier: MIT
/*
 * storage.c - is GPUDirect Storage a matter on this machine?
 */
#include <stdio.h>
#include <string.h>

#include "storage.h"
#include "wanted.h"

/* The package's source for DKMS. */
static bool source_installed(struct doctor *d)
{
	const char *names;

	if (tree_list(d->tree, "/usr/src", &names))
		return false;
	while (*names && strncmp(names, "nvidia-fs-", strlen("nvidia-fs-")))
		names = tree_next(names);
	return *names;
}

/* CUDA's toolkit brings a cufile.json, on any machine: only one that was changed for p2pdma is a sign. */
bool storage_installed(struct doctor *d)
{
	if (module_loaded(d, "nvidia_fs") || source_installed(d))
		return true;
	return cufile_read(d)->state == CUFILE_MALFORMED || cufile_read(d)->p2pdma;
}

bool storage_wanted(struct doctor *d)
{
	for (unsigned int i = 0; d->wanted && i < d->wanted->need_count; i++) {
		if (d->wanted->needs[i].peer == DEVICE_NVME)
			return true;
	}
	return storage_installed(d);
}

bool storage_p2pmem(struct doctor *d, const struct device *gpu)
{
	char path[128], size[24];

	snprintf(path, sizeof(path), PCI_DEVICES "%s/p2pmem/size", gpu->name);
	return !tree_word(d->tree, path, size, sizeof(size)) && strcmp(size, "0");
}
