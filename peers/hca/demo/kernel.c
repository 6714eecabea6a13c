// SPDX-License-Identifier: MIT
/* kernel.c - see kernel.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../fpga/src/sysfs.h"
#include "kernel.h"

#define TRACING	"/sys/kernel/tracing/"
#define LINE	4096

static bool put(const char *path, const char *text, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/*
 * Calls each() with the lines of a file until it returns true. False: it never did, or the
 * file cannot be read.
 */
static bool find_line(const char *path, bool (*each)(char *line, void *data), void *data)
{
	static char line[LINE];
	FILE *file = fopen(path, "r");
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = each(line, data);
	if (file)
		fclose(file);
	return found;
}

/* ---- the adapter ---- */

static bool last_of_link(const char *path, char *name, size_t size)
{
	char full[PATH_MAX];

	if (!realpath(path, full))
		return false;
	snprintf(name, size, "%.*s", (int)size - 1, strrchr(full, '/') + 1);
	return true;
}

bool kernel_adapter_pci(const char *adapter, char *pci, size_t size, struct why *why)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", adapter);
	if (last_of_link(path, pci, size) && pci_present(pci))
		return true;
	why_set(why, "%s is not a PCI function, so not an adapter of peerdma_hca", adapter);
	return false;
}

static bool is_dma(char *line, void *unused)
{
	(void)unused;
	return !strncmp(line, "DMA", 3);
}

bool kernel_iommu_translates(const char *adapter)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/iommu_group/type", adapter);
	return find_line(path, is_dma, NULL);
}

/* ---- translations ---- */

bool kernel_trace_start(struct why *why)
{
	if (put(TRACING "events/iommu/map/enable", "1", 0) && put(TRACING "events/iommu/unmap/enable", "1", 0) &&
	    put(TRACING "events/peerdma/peerdma_map/enable", "1", 0))
		return true;
	why_set(why, TRACING "events: %s (be root; mount -t tracefs none " TRACING ")", strerror(errno));
	return false;
}

void kernel_trace_clear(void)
{
	put(TRACING "trace", "", O_TRUNC);
}

struct search {
	uint64_t addr, phys, dma, last;
	pid_t pid;
};

static const char *column(char *line, int number)
{
	char *field;

	while ((field = strsep(&line, "\t\n")) && number)
		number--;
	return field ? field : "";
}

/* A line of peerdma's table of pins: this process's pin of the address. */
static bool is_pin(char *line, void *data)
{
	struct search *s = data;
	char copy[LINE];

	snprintf(copy, sizeof(copy), "%s", line);
	if (atoi(column(copy, 1)) != s->pid)
		return false;
	snprintf(copy, sizeof(copy), "%s", line);
	if (strtoull(column(copy, 7), NULL, 16) != s->addr)
		return false;
	snprintf(copy, sizeof(copy), "%s", line);
	s->phys = strtoull(column(copy, 14), NULL, 16);
	return s->phys;
}

/*
 * A peerdma_map event: peerdma's first DMA address for a device. Importers of a dma-buf map
 * without this event.
 */
static bool is_device_map(char *line, void *data)
{
	const char *event = strstr(line, " peerdma_map: ");
	struct search *s = data;
	const char *addr = event ? strstr(event, " addr=") : NULL, *dma = addr ? strstr(addr, " dma_addr=") : NULL;

	if (!dma || strtoull(addr + 6, NULL, 16) != s->addr)
		return false;
	s->dma = strtoull(dma + 10, NULL, 16);
	return true;
}

/*
 * An event of an IOMMU mapping that contains s->phys: at s->dma or, if that is unknown, the
 * last one.
 */
static bool is_map(char *line, void *data)
{
	const char *event = strstr(line, " map: IOMMU: iova=");
	struct search *s = data;
	uint64_t iova, end, paddr;

	if (!event || sscanf(event, " map: IOMMU: iova=%" SCNx64 " - %" SCNx64 " paddr=%" SCNx64, &iova, &end, &paddr) != 3 ||
	    s->phys < paddr || s->phys - paddr >= end - iova)
		return false;
	if (s->dma)
		return s->dma == iova + (s->phys - paddr);
	s->last = iova + (s->phys - paddr);
	return false;
}

static bool is_unmap(char *line, void *data)
{
	const char *event = strstr(line, " unmap: IOMMU: iova=");
	struct search *s = data;
	uint64_t iova, end;

	return event && sscanf(event, " unmap: IOMMU: iova=%" SCNx64 " - %" SCNx64, &iova, &end) == 2 && s->dma >= iova && s->dma < end;
}

bool kernel_unmapped(uint64_t dma)
{
	struct search s = { .dma = dma };

	return find_line(TRACING "trace", is_unmap, &s);
}

bool kernel_translation(struct side *side, struct translation *t)
{
	struct search s = { .addr = side->addr, .pid = getpid() };

	if (!find_line("/sys/kernel/debug/peerdma/pins", is_pin, &s)) {
		why_set(&side->why, "peerdma has no pin of %#" PRIx64 ", which the adapter has registered", side->addr);
		return false;
	}
	find_line(TRACING "trace", is_device_map, &s);
	t->mapped = find_line(TRACING "trace", is_map, &s) || s.last;
	t->phys = s.phys;
	/* Without an IOMMU no event reports a dma-buf's mapping, and its DMA address is the physical one. */
	t->dma = s.dma ? s.dma : s.last ? s.last : s.phys;
	t->bar = pci_bar_of(side->gpu.pci, t->phys, &t->offset);
	return true;
}

/* ---- counts ---- */

struct figure {
	const char *name;
	uint64_t value;
};

static bool is_figure(char *line, void *data)
{
	struct figure *f = data;
	size_t length = strlen(f->name);

	if (strncmp(line, f->name, length))
		return false;
	f->value = strtoull(line + length + strspn(line + length, ": \t"), NULL, 10);
	return true;
}

static bool figure(const char *path, const char *name, uint64_t *value, struct why *why)
{
	struct figure f = { .name = name };

	if (!find_line(path, is_figure, &f)) {
		why_set(why, "%s has no line '%s'", path, name);
		return false;
	}
	*value = f.value;
	return true;
}

bool kernel_gpu_copied(int gpu, uint64_t *bytes, struct why *why)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/kernel/debug/softgpu/%d/info", gpu);
	return figure(path, "bytes_copied", bytes, why);
}

/* The rdma command counts them: it asks the kernel over netlink. */
static bool adapter_mrs(const char *adapter, uint64_t *mrs, struct why *why)
{
	char command[80], text[512] = "";
	const char *found;
	FILE *out;

	snprintf(command, sizeof(command), "rdma resource show %s", adapter);
	out = popen(command, "r");
	if (out) {
		if (!fgets(text, sizeof(text), out))
			text[0] = '\0';
		pclose(out);
	}
	found = strstr(text, " mr ");
	if (!found) {
		why_set(why, "'%s' does not count MRs", command);
		return false;
	}
	*mrs = strtoull(found + 4, NULL, 10);
	return true;
}

bool kernel_counts(const char *adapter, struct counts *c, struct why *why)
{
	static const char stats[] = "/sys/kernel/debug/peerdma/stats";
	uint64_t maps, unmaps;

	if (!figure(stats, "live", &c->pins, why) || !figure(stats, "maps", &maps, why) ||
	    !figure(stats, "unmaps", &unmaps, why))
		return false;
	c->maps = maps - unmaps;
	return adapter_mrs(adapter, &c->mrs, why);
}
