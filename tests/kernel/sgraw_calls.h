/* SPDX-License-Identifier: MIT */
/* sgraw_calls.h - memory of either make by the raw calls of /dev/softgpu0, without a library. */
#ifndef SGRAW_CALLS_H
#define SGRAW_CALLS_H

#include <stdbool.h>
#include <stdint.h>

struct sg_side {
	int fd;
	uint32_t ctx, visible;
};

/* A process's own.  Ends the program when it cannot be had. */
struct sg_side sg_side_up(void);
uint64_t sg_side_alloc(const struct sg_side *side, bool visible, uint64_t length);

#endif
