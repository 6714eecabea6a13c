// SPDX-License-Identifier: MIT
/* device_fpga.c - the FPGA card, which takes a tenth of a second for each transfer. */
#include "device_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fpga_ioctl.h"

#define RULES_FILE "/sys/kernel/debug/softgpu/chaos/rules"

static int fd = -1;

static const char *fpga_open(void)
{
	fd = open("/dev/fpga0", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return "no /dev/fpga0: load peerdma_fpga.ko, or set SOFTGPU_INPROCESS=1";
	return NULL;
}

static void copy(uint64_t dst, uint64_t src, size_t length)
{
	struct fpga_copy copy = { .size = sizeof(copy), .dst = dst, .src = src, .length = length };

	if (ioctl(fd, FPGA_COPY, &copy))
		device_broken(strerror(errno));
}

static void fpga_read(uint64_t gpu, void *to, size_t length)
{
	copy((uintptr_t)to, gpu, length);
}

static void fpga_write(uint64_t gpu, const void *from, size_t length)
{
	copy(gpu, (uintptr_t)from, length);
}

static int fpga_rules(struct rule rules[RULES_MAX])
{
	FILE *f = fopen(RULES_FILE, "r");
	char line[sizeof(rules[0].text) + 32];
	int n = 0;

	if (!f)
		device_broken("cannot read " RULES_FILE ": is debugfs mounted?");
	while (n < RULES_MAX && fgets(line, sizeof(line), f)) {
		unsigned long long count;
		char *tab = strchr(line, '\t');

		/* The first line says what the columns are. */
		if (!tab || sscanf(line, "%llu", &count) != 1)
			continue;
		rules[n].broken = count;
		snprintf(rules[n].text, sizeof(rules[n].text), "%.*s", (int)strcspn(tab + 1, "\n"), tab + 1);
		n++;
	}
	fclose(f);
	return n;
}

const struct device device_fpga = {
	.patience_ms = 8000,
	.open = fpga_open,
	.read = fpga_read,
	.write = fpga_write,
	.rules = fpga_rules,
};
