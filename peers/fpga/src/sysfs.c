// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sysfs.h"

static bool read_line(const char *path, char *buf, size_t size)
{
	FILE *file = fopen(path, "re");
	bool ok = file && fgets(buf, (int)size, file);

	if (file)
		fclose(file);
	if (ok)
		buf[strcspn(buf, "\n")] = '\0';
	return ok;
}

/* "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0" */
static bool device_path(const char *pci, char path[PATH_MAX])
{
	char link[PATH_MAX];

	snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", pci);
	return realpath(link, path);
}

bool pci_present(const char *pci)
{
	char path[PATH_MAX];

	return device_path(pci, path);
}

static int numa_node(const char *device)
{
	char path[PATH_MAX + 16], text[16];

	snprintf(path, sizeof(path), "%s/numa_node", device);
	return read_line(path, text, sizeof(text)) ? atoi(text) : -1;
}

/* The last part of path[0 .. length). */
static const char *last_part(char path[PATH_MAX], size_t length)
{
	char *slash;

	path[length] = '\0';
	slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/*
 * Returns the length of the path up to the last "pciNNNN:NN". On a PC that is below
 * /sys/devices itself, elsewhere below the controller's device.
 */
static size_t host_bridge_end(const char *path)
{
	size_t end = 0;

	for (const char *s = strstr(path, "/pci"); s; s = strstr(s + 1, "/pci"))
		end = (size_t)(s - path) + 1 + strcspn(s + 1, "/");
	return end;
}

enum pci_path pci_path(const char *a, const char *b, char text[SYSFS_TEXT])
{
	char path_a[PATH_MAX], path_b[PATH_MAX], root[PATH_MAX];
	size_t common = 0, bridge;

	if (!device_path(a, path_a) || !device_path(b, path_b) || !strcmp(a, b)) {
		snprintf(text, SYSFS_TEXT, "unknown");
		return PCI_PATH_UNKNOWN;
	}
	/*
	 * Finds the longest common prefix in whole parts; is it longer than the host
	 * bridge's path, or shorter?
	 */
	for (size_t i = 0; path_a[i] && path_a[i] == path_b[i]; i++) {
		if (path_a[i] == '/')
			common = i;
	}
	bridge = host_bridge_end(path_a);
	if (common < bridge) {
		int node_a = numa_node(path_a), node_b = numa_node(path_b);

		snprintf(text, SYSFS_TEXT, "two host bridges, NUMA nodes %d and %d", node_a, node_b);
		return PCI_PATH_BRIDGES;
	}
	memcpy(root, path_a, common + 1);
	if (common == bridge) {
		snprintf(text, SYSFS_TEXT, "one host bridge (%.32s), two of its ports",
			 last_part(root, common));
		return PCI_PATH_BRIDGE;
	}
	snprintf(text, SYSFS_TEXT, "one PCIe switch (%.32s)", last_part(root, common));
	return PCI_PATH_SWITCH;
}

int pci_bar_of(const char *pci, uint64_t phys, uint64_t *offset)
{
	char path[PATH_MAX];
	uint64_t start, end;
	FILE *file;
	int found = -1;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource", pci);
	file = fopen(path, "re");
	if (!file)
		return -1;
	for (int bar = 0; bar < 6 && found < 0; bar++) {
		if (fscanf(file, "%" SCNx64 " %" SCNx64 " %*x", &start, &end) != 2)
			break;
		if (end && phys >= start && phys <= end) {
			*offset = phys - start;
			found = bar;
		}
	}
	fclose(file);
	return found;
}

int module_refs(const char *name)
{
	char path[PATH_MAX], text[16];

	snprintf(path, sizeof(path), "/sys/module/%s/refcnt", name);
	return read_line(path, text, sizeof(text)) ? atoi(text) : -1;
}

bool module_param_set(const char *module, const char *name, const char *value)
{
	char path[PATH_MAX];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	close(fd);
	return ok;
}

void pci_bar(const char *pci, int bar, uint64_t *start, uint64_t *length)
{
	uint64_t end = 0;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource", pci);
	f = fopen(path, "re");
	*start = 0;
	for (int i = 0; f && i <= bar; i++) {
		if (fscanf(f, "%" SCNx64 " %" SCNx64 " %*x", start, &end) != 2)
			*start = end = 0;
	}
	if (f)
		fclose(f);
	*length = end ? end + 1 - *start : 0;
}

bool bar_report(const char *path, const char *pci, int bar, uint64_t bytes)
{
	FILE *f = fopen(path, "we");
	uint64_t start, length;

	if (!f)
		return false;
	pci_bar(pci, bar, &start, &length);
	fprintf(f, "%#" PRIx64 " %" PRIu64 " %" PRIu64 "\n", start, length, bytes);
	return !fclose(f);
}

int debugfs_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	int lines = -1, c;

	if (!f)
		return -1;
	while ((c = getc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}
