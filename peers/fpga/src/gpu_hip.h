/* SPDX-License-Identifier: MIT */
/* gpu_hip.h - memory of an AMD GPU, by HIP, loaded at run time; gpu.c uses it. */
#ifndef FPGA_GPU_HIP_H
#define FPGA_GPU_HIP_H

#include "gpu.h"

/* HIP's number of the GPU at this PCI address.  False and why. */
bool hip_find(const char *pci, int *device, struct why *why);
bool hip_alloc(int device, size_t length, uint64_t *addr, struct why *why);
bool hip_free(uint64_t addr, struct why *why);
/* Copies between any two addresses. */
bool hip_copy(uint64_t to, uint64_t from, size_t length, struct why *why);
/* Exports memory as a dma-buf, by HSA; *offset is the offset of addr in it. */
bool hip_export(uint64_t addr, size_t length, int *fd, uint64_t *offset, struct why *why);
bool hip_set(uint64_t addr, unsigned char value, size_t length, struct why *why);

#endif
