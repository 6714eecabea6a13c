/* SPDX-License-Identifier: MIT */
/* surface.h - a range of GPU memory or host memory, with the same calls for both. */
#ifndef FPGA_SURFACE_H
#define FPGA_SURFACE_H

#include "cards.h"
#include "gpu.h"
#include "util.h"

struct surface {
	const struct gpu *gpu;	/* NULL: host memory */
	uint64_t addr;		/* 0: none */
	size_t length;
	struct place exported;	/* as a dma-buf, if its kind is exported */
};

/* The range as it is passed to cards. */
struct place surface_place(const struct surface *s);

/* gpu NULL asks for host memory.  All return false and why. */
bool surface_new(struct surface *s, const struct gpu *gpu, size_t length, struct why *why);
bool surface_end(struct surface *s, struct why *why);	/* nothing to do without memory */
bool surface_write(const struct surface *s, const void *from, struct why *why);
bool surface_read(const struct surface *s, void *to, struct why *why);

/* Bytes of host memory that surfaces hold now. */
uint64_t surface_host_bytes(void);
/* Bytes that the CPU has copied so far to and from host surfaces. */
uint64_t surface_cpu_bytes(void);

#endif
