/* SPDX-License-Identifier: MIT */
/*
 * gpus.h - the GPUs and their BAR1, as their driver's management library
 * (NVML, libnvidia-ml.so.1) tells it, or as a captured tree does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/pci.h"

/* In a captured tree: the output of `peerdma bar1 --tsv`. */
#define GPUS_PATH "/nvml.tsv"

struct gpu {
	uint64_t index;		/* NVML's */
	char pci[PCI_NAME_MAX];	/* as sysfs spells it; "" not known */
	char *name, *uuid;	/* cleaned; "" not known */
	bool has_bar1;		/* else the three are 0 (a MIG instance, an old driver) */
	uint64_t total, used, free;	/* bytes */
};

struct gpus {
	struct gpu *gpus;
	size_t count;
	char why[256];		/* after a failure: thing, reason, remedy */
};

/* 0; or -ENOENT no library or no table, -EIO the library failed, -EBADMSG the table is malformed, -ENOMEM. */
int gpus_read(const char *root, struct gpus *out);
/* For repeated reads: the library stays initialized until the process ends. */
void gpus_hold(void);

/* gpus_tsv.c: the list's end; the table, written and read. */
void gpus_free(struct gpus *gpus);
/* identify: with the UUIDs */
void gpus_write_tsv(const struct gpus *gpus, FILE *to, bool identify);
int gpus_parse_tsv(const char *data, size_t length, struct gpus *out);
