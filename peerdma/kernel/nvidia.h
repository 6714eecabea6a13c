/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* nvidia.h - what nvidia.c and nvidia_path.c share: both are peerdma_nvidia.ko. */
#ifndef PEERDMA_NVIDIA_H
#define PEERDMA_NVIDIA_H

#include "map.h"

/*
 * Asks the GPU's driver, once for each pair of GPU and device, whether
 * it would map that GPU's memory for it.  No lock held, in a turn at the provider that keeps
 * puts out.  0, or -EOPNOTSUPP: it refuses.  Also 0 where it
 * cannot be asked: then the kernel's rules decide, in peerdma_map_resource().
 */
int peerdma_nvidia_reach(struct peerdma_pin *pin, struct device *dev);
/* Provider's `vouches'. */
bool peerdma_nvidia_vouches(const struct peerdma_pin *pin, struct device *dev);
/* The module goes. */
void peerdma_nvidia_path_exit(void);

#endif
