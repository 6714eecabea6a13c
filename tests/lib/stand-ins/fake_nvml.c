// SPDX-License-Identifier: MIT
/*
 * fake_nvml.c - a stand-in for libnvidia-ml.so.1 with the functions that the
 * peerdma command calls.  FAKE_NVML: "" two GPUs, one without BAR1 figures;
 * "fail" nvmlInit fails; "many" an impossible number of GPUs; "most" the most that are possible; "uncounted" their
 * number is not told; "lost" the second does not answer; "dumb" names, addresses and figures are not told, after
 * something was written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci {
	char legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char bus_id[32];
};

struct bar1 {
	unsigned long long total, free, used;
};

static int mode(const char *s)
{
	const char *now = getenv("FAKE_NVML");

	return now && !strcmp(now, s);
}

int nvmlInit_v2(void)
{
	return mode("fail") ? 9 : 0;
}

int nvmlShutdown(void)
{
	return 0;
}

const char *nvmlErrorString(int r)
{
	return r == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned int *n)
{
	*n = mode("many") ? 1025 : mode("most") ? 1024 : 2;
	return mode("uncounted") ? 999 : 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **device)
{
	*device = (void *)(unsigned long)(i + 1);
	return mode("lost") && i == 1 ? 15 : 0;
}

/* The first GPU has MIG, the second a board that has no such thing. */
int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *next)
{
	*now = 1;
	*next = 0;
	return device == (void *)1UL ? 0 : 3;
}

int nvmlDeviceGetVirtualizationMode(void *device, unsigned int *mode)
{
	*mode = 2;
	return 0;
}

int nvmlSystemGetConfComputeState(unsigned int state[3])
{
	state[0] = 2;
	state[1] = 1;
	state[2] = 0;
	return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned int length)
{
	snprintf(name, length, "Stand-in \xff GPU");	/* not UTF-8 */
	return mode("dumb") ? 3 : 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length)
{
	snprintf(uuid, length, "GPU-%lu", (unsigned long)device);
	return mode("dumb") ? 3 : 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci)
{
	memset(pci, 0, sizeof(*pci));
	snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:%02lX:00.0", 0xc0 + (unsigned long)device);
	/* Not an address, and no end of a text. */
	if (mode("dumb"))
		memset(pci->bus_id, 'x', sizeof(pci->bus_id));
	return mode("dumb") && device == (void *)1 ? 3 : 0;
}

int nvmlDeviceGetBAR1MemoryInfo(void *device, struct bar1 *bar1)
{
	bar1->total = bar1->used = bar1->free = 1;
	if (device == (void *)2 || mode("dumb"))
		return 3;	/* NVML_ERROR_NOT_SUPPORTED */
	bar1->total = 256ULL << 20;
	bar1->used = 36ULL << 20;
	bar1->free = 220ULL << 20;
	return 0;
}
