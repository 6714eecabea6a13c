/* SPDX-License-Identifier: MIT */
/* release.h - the release of NVIDIA's driver that these libraries stand in for. */
#pragma once

#include "base/release.h"

/*
 * The release that SOFTGPU_DRIVER names; without it that of softgpu.ko, if it is loaded; otherwise
 * the newest. Decided by the first call of the process. It needs no open device, because programs
 * ask for versions before they start anything.
 */
const struct sg_release *sgu_release(void);

/*
 * Whether the GPUs belong to a driver of this release: `branch` is that of SOFTGPU_INFO. If not, or
 * if SOFTGPU_DRIVER is not a choice, logs the reason and the remedy.
 */
bool sgu_release_ok(uint32_t branch);
