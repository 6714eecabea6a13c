// SPDX-License-Identifier: MIT OR GPL-2.0
/* nvidia.c - what peerdma_nvidia.ko uses of NVIDIA's driver. */
#include <linux/pci.h>
#include <nv-p2p.h>

#include "stand_in.h"

STAND_IN(nvidia_p2p_get_pages);
STAND_IN(nvidia_p2p_put_pages);
STAND_IN(nvidia_p2p_get_pages_persistent);
STAND_IN(nvidia_p2p_put_pages_persistent);
STAND_IN(nvidia_p2p_free_page_table);
STAND_IN(nvidia_p2p_dma_map_pages);
STAND_IN(nvidia_p2p_dma_unmap_pages);
STAND_IN(nvidia_p2p_free_dma_mapping);
