/* SPDX-License-Identifier: MIT */
/* nvml_query.h - the few queries to NVML, which is loaded at run time. */
#ifndef FPGA_NVML_QUERY_H
#define FPGA_NVML_QUERY_H

#include <stdbool.h>
#include <stdint.h>

bool nvml_open(void);
void nvml_close(void);
void *nvml_device(const char *pci, int index);	/* NULL: unknown, or no NVML */
bool nvml_bar1(void *device, uint64_t *total, uint64_t *used);
bool nvml_memory(void *device, uint64_t *total, uint64_t *used);
const char *nvml_driver_version(void);

#endif
