// SPDX-License-Identifier: MIT
/*
 * kmt.c - libhsakmt. Builds for ROCm link it beside HSA's library, but call none of its functions.
 */
extern const char softgpu_hsakmt[];
const char softgpu_hsakmt[] = "softgpu";
