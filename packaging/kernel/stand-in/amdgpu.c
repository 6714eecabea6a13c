// SPDX-License-Identifier: MIT OR GPL-2.0
/* amdgpu.c - what peerdma_amd.ko uses of AMD's driver. */
#include <linux/device.h>
#include <linux/mm_types.h>
#include <linux/pid.h>
#include <linux/scatterlist.h>
#include <drm/amd_rdma.h>

#include "stand_in.h"

STAND_IN(amdkfd_query_rdma_interface);
