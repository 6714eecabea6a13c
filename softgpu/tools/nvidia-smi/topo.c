// SPDX-License-Identifier: MIT
/*
 * topo.c - topo -m: how GPUs reach each other, and which processors are near, by sysfs of their PCI
 * functions; nvlink -s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <limits.h>

#include "smi.h"

#define SYSFS "/sys/bus/pci/devices/"

/* The GPU's folder in sysfs, with the bridges above it. False: it is no PCI function. */
static bool folder(const struct smi_gpu *gpu, char path[PATH_MAX])
{
	char id[SMI_TEXT], link[SMI_TEXT + sizeof(SYSFS)];

	/* A GPU that is no PCI function has an address of zeros, which is another function's. */
	smi_value("pci.device_id", gpu, id);
	if (!strcmp(id, SMI_NONE))
		return false;
	smi_value("pci.bus_id", gpu, id);
	/* sysfs has four digits of the domain and small letters */
	for (char *p = id; *p; p++)
		if (*p >= 'A' && *p <= 'F')
			*p += 'a' - 'A';
	snprintf(link, sizeof(link), SYSFS "%s", strncmp(id, "0000", 4) ? id : id + 4);
	return realpath(link, path) != NULL;
}

static void attribute(const char *path, const char *name, char text[SMI_TEXT])
{
	char file[PATH_MAX + 64];
	FILE *f;

	snprintf(file, sizeof(file), "%s/%s", path, name);
	f = fopen(file, "re");
	if (!f || !fgets(text, SMI_TEXT, f))
		strcpy(text, SMI_NONE);
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = 0;
	if (!strcmp(text, "-1") || !*text)
		strcpy(text, SMI_NONE);
}

/* Folders below the last common one: the PCI functions on the way. */
static unsigned int below(const char *path, size_t common)
{
	unsigned int n = 0;

	for (const char *p = path + common; *p; p++)
		n += *p == '/';
	return n;
}

static const char *connection(const struct smi_gpu *a, const struct smi_gpu *b)
{
	char pa[PATH_MAX], pb[PATH_MAX], node_a[SMI_TEXT], node_b[SMI_TEXT];
	size_t common = 0, slash = 0;

	if (!folder(a, pa) || !folder(b, pb))
		return SMI_NONE;
	for (; pa[common] && pa[common] == pb[common]; common++)
		if (pa[common] == '/')
			slash = common;
	if (strncmp(pa, "/sys/devices/pci", 16))
		return SMI_NONE;
	/* Of two functions of one bridge, each has one folder below the common one. */
	if (slash > strlen("/sys/devices/"))
		return strchr(pa + strlen("/sys/devices/"), '/') == pa + slash ? "PHB" :
		       below(pa, slash) + below(pb, slash) <= 4 ? "PIX" : "PXB";
	attribute(pa, "numa_node", node_a);
	attribute(pb, "numa_node", node_b);
	return strcmp(node_a, node_b) ? "SYS" : "NODE";
}

int smi_topo(const struct smi *smi)
{
	char path[PATH_MAX], cpus[SMI_TEXT], node[SMI_TEXT];

	for (unsigned int i = 0; i < smi->count; i++)
		printf("\tGPU%u", smi->gpus[i].index);
	puts("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID");
	for (unsigned int i = 0; i < smi->count; i++) {
		printf("GPU%u", smi->gpus[i].index);
		for (unsigned int k = 0; k < smi->count; k++)
			printf("\t%s", i == k ? " X " : connection(&smi->gpus[i], &smi->gpus[k]));
		strcpy(cpus, SMI_NONE);
		strcpy(node, SMI_NONE);
		if (folder(&smi->gpus[i], path)) {
			attribute(path, "local_cpulist", cpus);
			attribute(path, "numa_node", node);
		}
		printf("\t%s\t%s\t\t%s\n", cpus, node, SMI_NONE);
	}
	puts("\nLegend:\n\n"
	     "  X    = the GPU itself\n"
	     "  SYS  = by way of the link between NUMA nodes\n"
	     "  NODE = by way of two host bridges of one NUMA node\n"
	     "  PHB  = by way of a host bridge\n"
	     "  PXB  = by way of several PCIe switches or bridges, below the host bridge\n"
	     "  PIX  = by way of one PCIe switch or bridge\n"
	     "  N/A  = not a PCI function");
	return SMI_OK;
}

/* ---- nvlink ---- */

#define SPEED 90	/* NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON */

static double speed(const struct smi_gpu *gpu)
{
	nvmlReturn_t (*get)(nvmlDevice_t device, int n, nvmlFieldValue_t *values);
	nvmlFieldValue_t v = { .fieldId = SPEED };

	*(void **)&get = smi_call("nvmlDeviceGetFieldValues");
	if (!get || get(gpu->device, 1, &v) || v.nvmlReturn)
		return 0;
	return v.value.uiVal / 1000.0;
}

static void print_links(const struct smi_gpu *gpu)
{
	nvmlReturn_t (*state)(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active);
	char name[SMI_TEXT], uuid[SMI_TEXT];
	nvmlEnableState_t active;

	*(void **)&state = smi_call("nvmlDeviceGetNvLinkState");
	for (unsigned int i = 0; i < NVML_NVLINK_MAX_LINKS; i++) {
		if (!state || state(gpu->device, i, &active))
			return;
		smi_value("name", gpu, name);
		smi_value("uuid", gpu, uuid);
		if (!i)
			printf("GPU %u: %s (UUID: %s)\n", gpu->index, name, uuid);
		if (active)
			printf("\t Link %u: %.3f GB/s\n", i, speed(gpu));
		else
			printf("\t Link %u: <inactive>\n", i);
	}
}

int smi_nvlink(const struct smi *smi)
{
	for (unsigned int i = 0; i < smi->count; i++)
		print_links(&smi->gpus[i]);
	return SMI_OK;
}
