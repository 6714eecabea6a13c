// SPDX-License-Identifier: MIT
/* detail.c - -q: what is known of each GPU, a line for each field. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "smi.h"

/* -d: sections by name.  NONE is printed only without -d. */
enum {
	NONE = 0, MEMORY = 1, UTILIZATION = 2, ECC = 4, TEMPERATURE = 8, POWER = 16, CLOCK = 32,
	COMPUTE = 64, PIDS = 128, PERFORMANCE = 256,
};

static const struct {
	const char *name;
	unsigned int bit;
} sections[] = {
	{ "MEMORY", MEMORY }, { "UTILIZATION", UTILIZATION }, { "ECC", ECC },
	{ "TEMPERATURE", TEMPERATURE }, { "POWER", POWER }, { "CLOCK", CLOCK },
	{ "COMPUTE", COMPUTE }, { "PIDS", PIDS }, { "PERFORMANCE", PERFORMANCE },
};
#define SECTIONS (sizeof(sections) / sizeof(sections[0]))

#define WIDTH 55	/* of a label with its indent */

struct row {
	unsigned int section, depth;
	const char *label;
	const char *field;	/* of smi_fields; NULL: a heading */
	const char *suffix;	/* of a known value */
};

/* A name that is no field's: this program has no call for it. */
#define UNKNOWN ""

static const struct row rows[] = {
	{ NONE, 1, "Product Name", "name", "" },
	{ NONE, 1, "Product Brand", UNKNOWN, "" },
	{ NONE, 1, "Product Architecture", UNKNOWN, "" },
	{ NONE, 1, "Display Active", "display_active", "" },
	{ NONE, 1, "Persistence Mode", "persistence_mode", "" },
	{ NONE, 1, "Addressing Mode", "addressing_mode", "" },
	{ NONE, 1, "MIG Mode", NULL, "" },
	{ NONE, 2, "Current", "mig.mode.current", "" },
	{ NONE, 2, "Pending", "mig.mode.pending", "" },
	{ NONE, 1, "Accounting Mode", "accounting.mode", "" },
	{ NONE, 1, "Accounting Mode Buffer Size", "accounting.buffer_size", "" },
	{ NONE, 1, "Serial Number", "serial", "" },
	{ NONE, 1, "GPU UUID", "uuid", "" },
	{ NONE, 1, "VBIOS Version", "vbios_version", "" },
	{ NONE, 1, "Inforom Version", NULL, "" },
	{ NONE, 2, "Image Version", "inforom.img", "" },
	{ NONE, 1, "PCI", NULL, "" },
	{ NONE, 2, "Bus", "pci.bus", "" },
	{ NONE, 2, "Device", "pci.device", "" },
	{ NONE, 2, "Domain", "pci.domain", "" },
	{ NONE, 2, "Device Id", "pci.device_id", "" },
	{ NONE, 2, "Bus Id", "pci.bus_id", "" },
	{ NONE, 2, "Sub System Id", "pci.sub_device_id", "" },
	{ NONE, 2, "GPU Link Info", NULL, "" },
	{ NONE, 3, "PCIe Generation", NULL, "" },
	{ NONE, 4, "Max", "pcie.link.gen.max", "" },
	{ NONE, 4, "Current", "pcie.link.gen.current", "" },
	{ NONE, 3, "Link Width", NULL, "" },
	{ NONE, 4, "Max", "pcie.link.width.max", "x" },
	{ NONE, 4, "Current", "pcie.link.width.current", "x" },
	{ NONE, 1, "Fan Speed", "fan.speed", "" },
	{ PERFORMANCE, 1, "Performance State", "pstate", "" },
	{ MEMORY, 1, "FB Memory Usage", NULL, "" },
	{ MEMORY, 2, "Total", "memory.total", "" },
	{ MEMORY, 2, "Reserved", "memory.reserved", "" },
	{ MEMORY, 2, "Used", "memory.used", "" },
	{ MEMORY, 2, "Free", "memory.free", "" },
	{ MEMORY, 1, "BAR1 Memory Usage", NULL, "" },
	{ MEMORY, 2, "Total", "bar1.total", "" },
	{ MEMORY, 2, "Used", "bar1.used", "" },
	{ MEMORY, 2, "Free", "bar1.free", "" },
	{ COMPUTE, 1, "Compute Mode", "compute_mode", "" },
	{ UTILIZATION, 1, "Utilization", NULL, "" },
	{ UTILIZATION, 2, "GPU", "utilization.gpu", "" },
	{ UTILIZATION, 2, "Memory", "utilization.memory", "" },
	{ ECC, 1, "ECC Mode", NULL, "" },
	{ ECC, 2, "Current", "ecc.mode.current", "" },
	{ ECC, 2, "Pending", "ecc.mode.pending", "" },
	{ TEMPERATURE, 1, "Temperature", NULL, "" },
	{ TEMPERATURE, 2, "GPU Current Temp", "temperature.gpu", " C" },
	{ POWER, 1, "GPU Power Readings", NULL, "" },
	{ POWER, 2, "Average Power Draw", "power.draw", "" },
	{ POWER, 2, "Current Power Limit", "enforced.power.limit", "" },
	{ POWER, 2, "Requested Power Limit", "power.limit", "" },
	{ POWER, 2, "Default Power Limit", "power.default_limit", "" },
	{ CLOCK, 1, "Clocks", NULL, "" },
	{ CLOCK, 2, "Graphics", "clocks.current.graphics", "" },
	{ CLOCK, 2, "SM", "clocks.current.sm", "" },
	{ CLOCK, 2, "Memory", "clocks.current.memory", "" },
	{ CLOCK, 2, "Video", "clocks.current.video", "" },
	{ CLOCK, 1, "Max Clocks", NULL, "" },
	{ CLOCK, 2, "Graphics", "clocks.max.graphics", "" },
	{ CLOCK, 2, "SM", "clocks.max.sm", "" },
	{ CLOCK, 2, "Memory", "clocks.max.memory", "" },
	{ PIDS, 1, "Processes", UNKNOWN, "" },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static int parse(const char *names, unsigned int *mask)
{
	char copy[SMI_TEXT];

	snprintf(copy, sizeof(copy), "%s", names);
	for (char *name = strtok(copy, ","); name; name = strtok(NULL, ",")) {
		size_t i = 0;

		while (i < SECTIONS && strcasecmp(sections[i].name, name))
			i++;
		if (i == SECTIONS) {
			puts("Failed to parse --display/-d flags");
			return SMI_ARGUMENT;
		}
		*mask |= sections[i].bit;
	}
	return SMI_OK;
}

static void print_row(const struct row *row, const struct smi_gpu *gpu)
{
	unsigned int indent = 4 * row->depth;
	char value[SMI_TEXT];

	if (!row->field) {
		printf("%*s%s\n", indent, "", row->label);
		return;
	}
	smi_value(row->field, gpu, value);
	printf("%*s%-*s: %s%s\n", indent, "", WIDTH - indent, row->label, value,
	       strcmp(value, SMI_NONE) ? row->suffix : "");
}

static void print_head(const struct smi *smi)
{
	char driver[SMI_TEXT], cuda[SMI_TEXT], now[64];
	time_t t = time(NULL);
	struct tm local;

	smi_driver_version(driver);
	smi_cuda_version(cuda);
	strftime(now, sizeof(now), "%a %b %e %H:%M:%S %Y", localtime_r(&t, &local));
	printf("\n==============NVSMI LOG==============\n\n%-*s: %s\n%-*s: %s\n", WIDTH, "Timestamp", now,
	       WIDTH, "Driver Version", driver);
	printf("%-*s: %s\n\n%-*s: %u\n", WIDTH, "CUDA Version", cuda, WIDTH, "Attached GPUs",
	       smi->total);
}

int smi_detail(const struct smi *smi, const char *names)
{
	unsigned int mask = 0;
	char id[SMI_TEXT];
	int ret = names ? parse(names, &mask) : SMI_OK;

	if (ret)
		return ret;
	print_head(smi);
	for (unsigned int g = 0; g < smi->count; g++) {
		smi_value("pci.bus_id", &smi->gpus[g], id);
		printf("GPU %s\n", id);
		for (size_t i = 0; i < ROWS; i++)
			if (!names || rows[i].section & mask)
				print_row(&rows[i], &smi->gpus[g]);
		puts("");
	}
	return SMI_OK;
}
