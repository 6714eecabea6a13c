/* SPDX-License-Identifier: MIT */
/*
 * gpu_modes.h - how GPUs are set up, as NVML says: lines of a GPU's PCI address (or "all"),
 * what, and a number, with tabs between them.  In a captured tree: the file /nvml-modes.tsv.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GPU_MODES_PATH		"/nvml-modes.tsv"

#define GPU_MIG			"mig"		/* 1: on */
#define GPU_MIG_NEXT		"mig_pending"	/* after the next reset */
#define GPU_VIRTUALIZATION	"virtualization"
enum { GPU_BARE = 0, GPU_PASSED_THROUGH = 1, GPU_VGPU_GUEST = 2, GPU_VGPU_HOST = 3,
       GPU_VSGA_HOST = 4 };
#define GPU_CONFIDENTIAL	"confidential"	/* of "all"; 1: on */

/* 0, *data is malloc()ed; -ENOENT: no NVML, or it does not work; -ENOMEM. */
int gpu_modes_read(char **data, size_t *length);
/* false: it is not known. */
bool gpu_mode(const char *data, const char *gpu, const char *what, unsigned int *out);

/* Lent to virtual machines by its driver: programs of this machine have none of its memory. */
struct tree;
bool gpu_is_lent(struct tree *t, const char *gpu);
