// SPDX-License-Identifier: MIT
/* kmt.c - libhsakmt, which builds for ROCm name beside HSA's library and call nothing of. */
extern const char softgpu_hsakmt[];
const char softgpu_hsakmt[] = "softgpu";
