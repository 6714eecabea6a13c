/* SPDX-License-Identifier: MIT */
/* softgpu_hsa.h - what softgpu's libhsa-runtime64 has for its libamdhip64, beside AMD's functions. */
#pragma once

#include "hsa/hsa.h"

/*
 * Exports exactly this range of whole pages of one allocation as a dma-buf, whose descriptor the
 * caller closes.
 */
hsa_status_t softgpu_hsa_export_range(const void *ptr, size_t size, int *dmabuf);
