/* SPDX-License-Identifier: MIT */
/*
 * storage.h - GPUDirect Storage: drives that read and write GPU memory, by p2pdma or by nvidia-fs.
 */
#pragma once

#include "doctor.h"

/* Of an NVMe driver that nvidia-fs can give GPU memory; which, the kernel's interface decides. */
#define NVFS_SYMBOL_1	"nvme_v1_register_nvfs_dma_ops"
#define NVFS_SYMBOL_2	"nvme_v2_register_nvfs_dma_ops"

/* cufile.c: the file from which cuFile reads how it is to work. */
#define CUFILE_JSON	"/etc/cufile.json"
/* What matters of it, for bundles: it also has addresses of networks, and paths. */
#define CUFILE_FACTS	"/cufile.facts"
enum cufile_state { CUFILE_MISSING, CUFILE_UNREADABLE, CUFILE_MALFORMED, CUFILE_READ };
struct cufile {
	enum cufile_state state;
	char why[128];			/* of the middle two */
	/* In "properties", or what cuFile takes without it */
	bool p2pdma;			/* use_pci_p2pdma: off */
	bool compat;			/* allow_compat_mode: on */
};
const struct cufile *cufile_read(struct doctor *d);	/* read once; never NULL */

/* It is plainly there for use: nvidia-fs is loaded or installed, or cufile.json was changed for it. */
bool storage_installed(struct doctor *d);
/* That, or the administrator needs it. */
bool storage_wanted(struct doctor *d);

/* The GPU's memory has struct pages of p2pdma: its driver has made some. */
bool storage_p2pmem(struct doctor *d, const struct device *gpu);

/* storage_mounts.c: notes on the file systems and RAIDs of the drives. */
void storage_mounts(struct doctor *d);
