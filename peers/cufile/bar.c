// SPDX-License-Identifier: MIT
/* bar.c - cuFileGetBARSizeInKB(). */
#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cufile_int.h"

typedef CUresult device_fn(CUdevice *device, int ordinal);
typedef CUresult bus_id_fn(char *text, int length, CUdevice device);

/* A GPU's memory is behind the largest of its BARs.  0: no such PCI device. */
static uint64_t largest_bar(const char *bus_id)
{
	uint64_t largest = 0;
	char path[128];
	struct stat s;

	for (int i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource%d", bus_id, i);
		if (!stat(path, &s) && (uint64_t)s.st_size > largest)
			largest = (uint64_t)s.st_size;
	}
	return largest;
}

EXPORT CUfileError_t cuFileGetBARSizeInKB(int index, size_t *size)
{
	device_fn *get = (device_fn *)(uintptr_t)cuda_function("cuDeviceGet");
	bus_id_fn *name = (bus_id_fn *)(uintptr_t)cuda_function("cuDeviceGetPCIBusId");
	CUfileOpError error = size ? driver_use() : CU_FILE_INVALID_VALUE;
	char bus_id[32];
	uint64_t bytes;
	CUdevice device;

	if (error)
		return status(error);
	if (!get || !name)
		return status(CU_FILE_CUDA_DRIVER_ERROR);
	if (get(&device, index) || name(bus_id, sizeof(bus_id), device))
		return status(CU_FILE_INVALID_VALUE);
	for (char *c = bus_id; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	bytes = largest_bar(bus_id);
	if (!bytes)
		return status(CU_FILE_PLATFORM_NOT_SUPPORTED);
	*size = bytes / 1024;
	return status(CU_FILE_SUCCESS);
}
