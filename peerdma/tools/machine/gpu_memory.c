// SPDX-License-Identifier: MIT
/*
 * gpu_memory.c - where a GPU's memory is: behind its BAR, at the end of a coherent link, or in the
 * processor's own memory.  What a peer needs differs by that.
 */
#include <stdio.h>
#include <string.h>

#include "base/tool.h"
#include "machine.h"

#define NVIDIA	0x10de
#define AMD	0x1002

/* By PCI number.  A new one is a row. */
static const struct known {
	unsigned int vendor, device;
	enum gpu_memory memory;
} known[] = {
	/* DGX Spark and its like (GB10); Thor */
	{ NVIDIA, 0x2e12, MEMORY_UNIFIED }, { NVIDIA, 0x2b00, MEMORY_UNIFIED },
	/* GH200, GB200, GB300: on Grace only */
	{ NVIDIA, 0x2342, MEMORY_COHERENT }, { NVIDIA, 0x2345, MEMORY_COHERENT },
	{ NVIDIA, 0x2348, MEMORY_COHERENT }, { NVIDIA, 0x2941, MEMORY_COHERENT },
	{ NVIDIA, 0x31c2, MEMORY_COHERENT },
	/* MI300A, Strix Halo */
	{ AMD, 0x74a0, MEMORY_UNIFIED }, { AMD, 0x1586, MEMORY_UNIFIED },
};

static bool status_line(const char *line, size_t length, void *arg)
{
	(void)arg;
	return length > 7 && (!strncmp(line, "Node:", 5) || !strncmp(line, "Status:", 7));
}

/* "Node:      1\nStatus:    online": NVIDIA's driver, of a GPU whose memory is a NUMA node.  -1: it is none. */
static int memory_node(struct tree *t, const struct device *d)
{
	const char *data, *status;
	char path[96];
	uint64_t n;

	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/numa_status", d->name);
	if (tree_lines(t, path, status_line, NULL, &data, NULL) || strncmp(data, "Node:", 5))
		return -1;
	status = strstr(data, "Status:");
	if (!status || strncmp(status + 7 + strspn(status + 7, " "), "online\n", 7))
		return -1;
	data += 5 + strspn(data + 5, " ");
	return text_u64(data, strcspn(data, "\n"), &n) && n < 65536 ? (int)n : -1;
}

void gpu_memory_read(struct tree *t, struct device *d)
{
	d->memory_node = -1;
	if (d->kind != DEVICE_GPU)
		return;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (d->vendor == known[i].vendor && d->device == known[i].device)
			d->memory = known[i].memory;
	}
	/* Tegra's own driver, of GPUs in the processor only: Thor's is a PCI function. */
	if (!strcmp(d->driver, "nvgpu"))
		d->memory = MEMORY_UNIFIED;
	if (d->vendor != NVIDIA || d->memory == MEMORY_UNIFIED)
		return;
	d->memory_node = memory_node(t, d);
	/* POWER9 with NVLink, too */
	if (d->memory_node >= 0)
		d->memory = MEMORY_COHERENT;
}
