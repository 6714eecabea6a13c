/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - what the kernel reports of an adapter, a GPU and their translations: sysfs, debugfs, tracepoints.
 * Both file systems are mounted in the usual places; root reads them.
 */
#ifndef HCA_DEMO_KERNEL_H
#define HCA_DEMO_KERNEL_H

#include "side.h"

/* The PCI function that an adapter is. */
bool kernel_adapter_pci(const char *adapter, char *pci, size_t size, struct why *why);
bool kernel_iommu_translates(const char *adapter);

/* Has the kernel note what it maps in IOMMUs, and peerdma what it maps for devices. */
bool kernel_trace_start(struct why *why);
void kernel_trace_clear(void);
/* Of s->addr, which was pinned and mapped since kernel_trace_clear(). */
bool kernel_translation(struct side *s, struct translation *t);
/* The IOMMU's translation of dma was taken away since kernel_trace_clear(). */
bool kernel_unmapped(uint64_t dma);

/* Bytes that softgpu's copy engine has copied. */
bool kernel_gpu_copied(int gpu, uint64_t *bytes, struct why *why);
/* Pins and mappings of peerdma, MRs of the adapter. */
bool kernel_counts(const char *adapter, struct counts *c, struct why *why);

#endif
