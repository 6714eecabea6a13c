// SPDX-License-Identifier: MIT
/*
 * fields.c - the fields of --query-gpu: all names that NVIDIA's command of driver 580 knows, in its
 * order.  A field without a function, or whose call the library lacks or refuses, is N/A: a software
 * GPU has neither a temperature nor clocks.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "smi.h"

#define FIELD(get) \
	static bool get(const struct smi_field *f, const struct smi_gpu *gpu, char text[SMI_TEXT])
#define UNUSED (void)f, (void)gpu

static __attribute__((format(printf, 2, 3))) bool put(char text[SMI_TEXT], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, SMI_TEXT, format, arguments);
	va_end(arguments);
	return true;
}

/* ---- of the machine ---- */

FIELD(timestamp)
{
	struct timespec now;
	struct tm local;
	size_t n;

	UNUSED;
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &local);
	n = strftime(text, SMI_TEXT, "%Y/%m/%d %H:%M:%S", &local);
	snprintf(text + n, SMI_TEXT - n, ".%03ld", now.tv_nsec / 1000000);
	return true;
}

FIELD(driver_version)
{
	UNUSED;
	smi_driver_version(text);
	return strcmp(text, SMI_NONE) != 0;
}

FIELD(count)
{
	nvmlReturn_t (*get)(unsigned int *count);
	unsigned int n;

	UNUSED;
	*(void **)&get = smi_call("nvmlDeviceGetCount_v2");
	if (!get || get(&n))
		return false;
	snprintf(text, SMI_TEXT, "%u", n);
	return true;
}

FIELD(hostname)
{
	UNUSED;
	return !gethostname(text, SMI_TEXT);
}

/* ---- of the GPU, by the form of the library's call ---- */

static bool number_of(const struct smi_field *f, const struct smi_gpu *gpu, unsigned int *n)
{
	nvmlReturn_t (*get)(nvmlDevice_t device, unsigned int *n);

	*(void **)&get = smi_call(f->call);
	return get && !get(gpu->device, n);
}

/* The call has a kind, such as a clock's, before the result. */
static bool number_of_kind(const struct smi_field *f, const struct smi_gpu *gpu, unsigned int *n)
{
	nvmlReturn_t (*get)(nvmlDevice_t device, unsigned int kind, unsigned int *n);

	*(void **)&get = smi_call(f->call);
	return get && !get(gpu->device, f->arg, n);
}

FIELD(text)
{
	nvmlReturn_t (*get)(nvmlDevice_t device, char *text, unsigned int length);

	*(void **)&get = smi_call(f->call);
	return get && !get(gpu->device, text, NVML_DEVICE_NAME_V2_BUFFER_SIZE);
}

FIELD(number)
{
	unsigned int n;

	return number_of(f, gpu, &n) && put(text, "%u", n);
}

FIELD(number_by_kind)
{
	unsigned int n;

	return number_of_kind(f, gpu, &n) && put(text, "%u", n);
}

FIELD(enabled)
{
	unsigned int n;

	return number_of(f, gpu, &n) && put(text, "%s", n ? "Enabled" : "Disabled");
}

FIELD(watts)
{
	unsigned int n;

	return number_of(f, gpu, &n) && put(text, "%u.%02u", n / 1000, n % 1000 / 10);
}

/* Two numbers: now, and after the next reset. */
static bool pair(const struct smi_field *f, const struct smi_gpu *gpu, unsigned int n[2])
{
	nvmlReturn_t (*get)(nvmlDevice_t device, unsigned int *current, unsigned int *pending);

	*(void **)&get = smi_call(f->call);
	return get && !get(gpu->device, &n[0], &n[1]);
}

FIELD(enabled_pair)
{
	unsigned int n[2];

	return pair(f, gpu, n) && put(text, "%s", n[f->arg] ? "Enabled" : "Disabled");
}

FIELD(utilization)
{
	unsigned int n[2];
	nvmlReturn_t (*get)(nvmlDevice_t device, unsigned int n[2]);

	*(void **)&get = smi_call(f->call);
	return get && !get(gpu->device, n) && put(text, "%u", n[f->arg]);
}

/* ---- of the GPU, by calls of their own ---- */

FIELD(index_of)
{
	(void)f;
	return put(text, "%u", gpu->index);
}

#define NO_PSTATE 32

FIELD(pstate)
{
	unsigned int n;

	return number_of(f, gpu, &n) && n != NO_PSTATE && put(text, "P%u", n);
}

FIELD(compute_mode)
{
	static const char *const modes[] = {
		"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process",
	};
	unsigned int n;

	return number_of(f, gpu, &n) && n < NVML_COMPUTEMODE_COUNT && strcpy(text, modes[n]);
}

FIELD(compute_cap)
{
	nvmlReturn_t (*get)(nvmlDevice_t device, int *major, int *minor);
	int major, minor;

	*(void **)&get = smi_call(f->call);
	return get && !get(gpu->device, &major, &minor) && put(text, "%d.%d", major, minor);
}

enum { TOTAL, RESERVED, USED, FREE };

static bool mebibytes(char text[SMI_TEXT], unsigned long long bytes)
{
	return put(text, "%llu", (bytes + (1 << 19)) >> 20);
}

FIELD(memory)
{
	nvmlReturn_t (*get)(nvmlDevice_t device, nvmlMemory_v2_t *memory);
	nvmlMemory_v2_t m = { .version = nvmlMemory_v2 };

	*(void **)&get = smi_call(f->call);
	if (!get || get(gpu->device, &m))
		return false;
	return mebibytes(text, f->arg == TOTAL ? m.total : f->arg == RESERVED ? m.reserved :
			       f->arg == USED ? m.used : m.free);
}

FIELD(bar1)
{
	nvmlReturn_t (*get)(nvmlDevice_t device, nvmlBAR1Memory_t *memory);
	nvmlBAR1Memory_t m;

	*(void **)&get = smi_call(f->call);
	if (!get || get(gpu->device, &m))
		return false;
	return mebibytes(text, f->arg == TOTAL ? m.bar1Total :
			       f->arg == USED ? m.bar1Used : m.bar1Free);
}

enum { BUS_ID, DOMAIN, BUS, DEVICE, DEVICE_ID, SUB_DEVICE_ID };

FIELD(pci)
{
	nvmlReturn_t (*get)(nvmlDevice_t device, nvmlPciInfo_t *pci);
	nvmlPciInfo_t pci;

	*(void **)&get = smi_call("nvmlDeviceGetPciInfo_v3");
	if (!get || get(gpu->device, &pci))
		return false;
	switch (f->arg) {
	case BUS_ID:
		return put(text, "%s", pci.busId);
	case DOMAIN:
		return put(text, "0x%04X", pci.domain);
	case BUS:
		return put(text, "0x%02X", pci.bus);
	case DEVICE:
		return put(text, "0x%02X", pci.device);
	case DEVICE_ID:
		return pci.pciDeviceId && put(text, "0x%08X", pci.pciDeviceId);
	default:
		return pci.pciSubSystemId && put(text, "0x%08X", pci.pciSubSystemId);
	}
}

/* ---- the table ---- */

#define NO(name) { name, NULL, NULL, NULL, NULL, 0, NULL }
#define NO2(name, alias) { name, alias, NULL, NULL, NULL, 0, NULL }

const struct smi_field smi_fields[] = {
#include "fields.def"
	{ 0 },
};

const struct smi_field *smi_field(const struct smi_field *list, const char *name, size_t length)
{
	for (const struct smi_field *f = list; f->name; f++) {
		if (strlen(f->name) == length && !strncmp(f->name, name, length))
			return f;
		if (f->alias && strlen(f->alias) == length && !strncmp(f->alias, name, length))
			return f;
	}
	return NULL;
}

void smi_value(const char *name, const struct smi_gpu *gpu, char value[SMI_TEXT])
{
	const struct smi_field *f = smi_field(smi_fields, name, strlen(name));
	size_t n;

	if (!f || !f->get || !f->get(f, gpu, value)) {
		strcpy(value, SMI_NONE);
		return;
	}
	n = strlen(value);
	if (f->unit)
		snprintf(value + n, SMI_TEXT - n, " %s", f->unit);
}
