/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* nvidia.h - what nvidia.c and nvidia_path.c share: both are peerdma_nvidia.ko. */
#ifndef PEERDMA_NVIDIA_H
#define PEERDMA_NVIDIA_H

#include "objects/map.h"

/*
 * Asks the GPU's driver, once for each pair of GPU and device, whether it would map the
 * GPU's memory for the device.  No other lock held than the provider's group lock, which keeps
 * puts out. 0: it would, or cannot be asked and the kernel's rules decide in
 * peerdma_map_resource(); -EOPNOTSUPP: it refuses; -ENODEV: @dev was removed; -ENOMEM.
 */
int peerdma_nvidia_reach(struct peerdma_pin *pin, struct device *dev);
/* The provider's `vouches'. */
bool peerdma_nvidia_vouches(const struct peerdma_pin *pin, struct device *dev);
/*
 * Called first at load, last at unload.  The driver's answers are kept until a device is
 * removed.
 */
int peerdma_nvidia_path_init(void);
void peerdma_nvidia_path_exit(void);

#endif
