/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - what the kernel reports about an adapter, a GPU and their translations: sysfs,
 * debugfs, tracepoints. debugfs and tracefs must be mounted in the usual places, readable
 * by root.
 */
#ifndef HCA_DEMO_KERNEL_H
#define HCA_DEMO_KERNEL_H

#include "side.h"

/* Gets the PCI address of an adapter. */
bool kernel_adapter_pci(const char *adapter, char *pci, size_t size, struct why *why);
bool kernel_iommu_translates(const char *adapter);

/* Makes the kernel record mappings in IOMMUs, and peerdma its mappings for devices. */
bool kernel_trace_start(struct why *why);
void kernel_trace_clear(void);
/*
 * Gets the translation of s->addr, which must have been pinned and mapped since
 * kernel_trace_clear().
 */
bool kernel_translation(struct side *s, struct translation *t);
/* Was the IOMMU's translation of dma removed since kernel_trace_clear()? */
bool kernel_unmapped(uint64_t dma);

/* Bytes that softgpu's copy engine has copied. */
bool kernel_gpu_copied(int gpu, uint64_t *bytes, struct why *why);
/* Pins and mappings of peerdma, MRs of the adapter. */
bool kernel_counts(const char *adapter, struct counts *c, struct why *why);

#endif
