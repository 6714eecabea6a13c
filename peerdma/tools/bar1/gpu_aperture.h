/* SPDX-License-Identifier: MIT */
/* gpu_aperture.h - the aperture of one GPU, and what pins hold of it. */
#pragma once

#include "aperture.h"
#include "machine/gpus.h"

struct gpu_aperture {
	int bar;		/* PCI resource; -1: not found */
	const char *why;	/* then: the reason */
	/* The aperture is smaller than the resource, and pins lie anywhere in it: `aperture` is the resource. */
	bool scattered;
	struct aperture aperture;	/* end with aperture_free() */
};

/* 0 or -ENOMEM.  The table must outlive it. */
int gpu_aperture_fill(const char *root, const struct gpu *gpu, const struct pins_table *pins,
		      struct gpu_aperture *v);
