// SPDX-License-Identifier: MIT
/*
 * devices.c - counts of DMA, from the drivers that have them: drivers with a table of
 * clients, the project's cards, and RDMA devices, which count all traffic, of GPU
 * memory or not.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fpga_ioctl.h"
#include "top.h"

#define DEBUGFS		"/sys/kernel/debug"
#define RDMA		"/sys/class/infiniband"
#define CARDS_MAX	64
#define NAMES_MAX	1024

/* Calls `each` for the names in a folder that begin with `begin`; a folder that is not there has none. */
static int names(const struct tool *tool, const char *folder, const char *begin,
		 int (*each)(const struct tool *tool, const char *name, struct top_sample *s),
		 struct top_sample *s)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int n = 0, ret = 0;
	DIR *dir;

	if (snprintf(path, sizeof(path), "%s%s", tool->root, folder) >= (int)sizeof(path))
		return 0;
	dir = opendir(path);
	if (!dir)
		return errno == ENOMEM ? -ENOMEM : 0;
	while (!ret && n < NAMES_MAX && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.' && !strncmp(entry->d_name, begin, strlen(begin))) {
			n++;
			ret = each(tool, entry->d_name, s);
		}
	}
	closedir(dir);
	return ret;
}

/* ---- drivers' tables of clients ---- */

static int table(const struct tool *tool, const char *name, const char *file, struct top_sample *s)
{
	char path[PATH_MAX], *data;
	size_t length;
	int ret;

	snprintf(path, sizeof(path), DEBUGFS "/%s/%s", name, file);
	ret = file_read(tool->root, path, &data, &length);
	if (ret)
		return ret == -ENOMEM ? ret : 0;
	ret = top_clients_parse(data, length, name, s);
	free(data);
	if (ret != -EBADMSG)
		return ret;
	return top_missing(s, "%s by process: %s: not a table of %s",
			   strcmp(file, "users") ? "DMA" : "revocations",
			   strcmp(file, "users") ? DEBUGFS "/peerdma_*/clients" : path, file);
}

static int clients(const struct tool *tool, const char *name, struct top_sample *s)
{
	return table(tool, name, "clients", s);
}

/* Whose pins the bridge took back, also those that are gone. */
int top_read_users(const struct tool *tool, struct top_sample *s)
{
	return table(tool, "peerdma", "users", s);
}

int top_read_clients(const struct tool *tool, struct top_sample *s)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s" DEBUGFS, tool->root) < (int)sizeof(path) &&
	    access(path, R_OK | X_OK) && errno == EACCES)
		return top_missing(s, "DMA by process, what a software GPU counts: " DEBUGFS
				   ": this user may not read it; run as root");
	return names(tool, DEBUGFS, "peerdma_", clients, s);
}

/* ---- cards: what they say of themselves needs no root ---- */

static int card(int fd, struct top_sample *s)
{
	struct fpga_info info = { .size = sizeof(info) };
	struct top_device *device;
	char name[TOP_DEVICES_TEXT];

	if (ioctl(fd, FPGA_INFO, &info))
		return 0;
	snprintf(name, sizeof(name), "%04x:%02x:%02x.%x", info.pci_domain, info.pci_bus,
		 info.pci_devfn >> 3 & 0x1f, info.pci_devfn & 7);
	device = top_device(s, name);
	if (!device)
		return -ENOMEM;
	/* All since the card was found, where the table of clients has those that are open now. */
	memset(&device->counts, 0, sizeof(device->counts));
	snprintf(device->driver, sizeof(device->driver), "peerdma_fpga");
	top_count(&device->counts, TOP_READ, info.bytes_read);
	top_count(&device->counts, TOP_WRITTEN, info.bytes_written);
	top_count(&device->counts, TOP_REVOCATIONS, info.revocations);
	/* The table of pins, which root can read, has the mappings of all drivers. */
	if (!s->has_pins)
		device->mappings = info.mappings;
	return 0;
}

int top_read_cards(const struct tool *tool, struct top_sample *s)
{
	int ret = 0;

	for (int i = 0; !ret && !*tool->root && i < CARDS_MAX; i++) {
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/dev/fpga%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		ret = card(fd, s);
		close(fd);
	}
	return ret;
}

/* ---- RDMA devices ---- */

/* Counters of a port, in words of four bytes. */
static bool port_counter(const struct tool *tool, const char *device, const char *port,
			 const char *counter, uint64_t *out)
{
	char path[PATH_MAX], *data;
	size_t length;
	bool told;

	snprintf(path, sizeof(path), RDMA "/%s/ports/%s/counters/%s", device, port, counter);
	if (file_read(tool->root, path, &data, &length))
		return false;
	told = text_u64(data, strcspn(data, "\n"), out) && *out <= UINT64_MAX / 4;
	*out *= 4;
	free(data);
	return told;
}

static int rdma(const struct tool *tool, const char *name, struct top_sample *s)
{
	struct top_device *device = NULL;
	char *clean = text_clean(name, strlen(name));

	if (!clean)
		return -ENOMEM;
	for (int i = 1; i < 9; i++) {
		char port[4];
		uint64_t sent, received;

		snprintf(port, sizeof(port), "%d", i);
		if (!port_counter(tool, name, port, "port_xmit_data", &sent) ||
		    !port_counter(tool, name, port, "port_rcv_data", &received))
			break;
		device = top_device(s, clean);
		if (!device)
			break;
		snprintf(device->driver, sizeof(device->driver), "rdma, all it carries");
		/* What is sent was read from memory. */
		top_count(&device->counts, TOP_READ, sent);
		top_count(&device->counts, TOP_WRITTEN, received);
	}
	free(clean);
	return 0;
}

int top_read_rdma(const struct tool *tool, struct top_sample *s)
{
	return names(tool, RDMA, "", rdma, s);
}
