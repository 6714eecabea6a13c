// SPDX-License-Identifier: MIT
/*
 * machine.c - reads the facts from sysfs and procfs.
 *
 * PCI is read here and not by libpci or hwloc: all that is read must go through
 * the tree, for evidence and bundles, and libpci ends the program on a file that
 * it does not understand.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "base/tool.h"

static void device_path(const struct device *d, const char *file, char out[128])
{
	snprintf(out, 128, PCI_DEVICES "%s/%s", d->name, file);
}

static unsigned int hex_file(struct tree *t, const struct device *d, const char *file)
{
	char path[128];
	int64_t n;

	device_path(d, file, path);
	return tree_number(t, path, &n) || n < 0 || n > 0xffffff ? 0 : (unsigned int)n;
}

/* ---- links ----------------------------------------------------------------- */

/* "16.0 GT/s PCIe" in MT/s; 0: not a speed. */
static unsigned int speed(const char *s)
{
	char *end;
	double gt = strtod(s, &end);

	return end == s || strncmp(end, " GT/s", 5) || !(gt > 0 && gt < 1000) ? 0 :
	       (unsigned int)(gt * 1000 + 0.5);
}

static void read_link(struct tree *t, struct device *d)
{
	static const char *const files[] = { "current_link_speed", "max_link_speed",
					     "current_link_width", "max_link_width" };
	unsigned int values[4];
	char path[128], word[32];
	int64_t n = 0;

	for (int i = 0; i < 4; i++) {
		device_path(d, files[i], path);
		if (tree_word(t, path, word, sizeof(word)))
			return;
		if (i < 2) {
			values[i] = speed(word);
		} else {
			if (tree_number(t, path, &n) || n < 0 || n > 64)
				return;
			values[i] = (unsigned int)n;
		}
	}
	/* Virtual functions and devices inside the processor say 0 or 255. */
	if (!values[1] || !values[3] || values[3] > 32)
		return;
	d->link = (struct link){ true, values[0], values[1], values[2], values[3] };
}

const char *link_text(unsigned int speed_mt, unsigned int width, char buf[32])
{
	if (!speed_mt || !width)
		snprintf(buf, 32, "down");
	else if (speed_mt % 1000)
		snprintf(buf, 32, "%u.%u GT/s x%u", speed_mt / 1000, speed_mt % 1000 / 100, width);
	else
		snprintf(buf, 32, "%u GT/s x%u", speed_mt / 1000, width);
	return buf;
}

bool link_is_upward(const struct device *d)
{
	return d->kind != DEVICE_BRIDGE || d->port == PORT_UPSTREAM;
}

bool link_is_slow(const struct machine *m, const struct device *d, unsigned int *best_speed,
		  unsigned int *best_width)
{
	const struct link *up;

	if (!d->link.known)
		return false;
	*best_speed = d->link.max_speed;
	*best_width = d->link.max_width;
	if (d->parent >= 0) {
		up = &m->devices[d->parent].link;
		/* The bridge above has the other end, unless it is a switch's own upstream port. */
		if (up->known && m->devices[d->parent].port != PORT_UPSTREAM) {
			*best_speed = up->max_speed < *best_speed ? up->max_speed : *best_speed;
			*best_width = up->max_width < *best_width ? up->max_width : *best_width;
		}
	}
	return d->link.speed < *best_speed || d->link.width < *best_width;
}

/* ---- one device ------------------------------------------------------------ */

static void read_driver(struct tree *t, struct device *d)
{
	const char *target, *name;
	char path[128];

	device_path(d, "driver", path);
	if (tree_link(t, path, &target))
		return;
	name = strrchr(target, '/');
	name = name ? name + 1 : target;
	tree_clean(d->driver, sizeof(d->driver), name, strlen(name));
}

static void read_group(struct tree *t, struct device *d)
{
	char path[128], type[32];
	const char *target, *name;
	uint64_t n;

	d->group = -1;
	device_path(d, "iommu_group", path);
	if (tree_link(t, path, &target))
		return;
	name = strrchr(target, '/');
	if (!name || !text_u64(name + 1, strlen(name + 1), &n) || n > INT_MAX)
		return;
	d->group = (int)n;
	snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/%d/type", d->group);
	if (tree_word(t, path, type, sizeof(type)))
		return;
	if (!strcmp(type, "identity"))
		d->iommu = IOMMU_PASSTHROUGH;
	else if (!strncmp(type, "DMA", 3))
		d->iommu = IOMMU_TRANSLATING;
}

/* The names of net, infiniband, nvme, video devices that the function has. */
static void read_known_as(struct tree *t, struct device *d)
{
	static const char *const folders[] = { "infiniband", "net", "nvme", "softgpu", "fpga",
					       "drm", "video4linux" };
	char path[128], netdev[32], *clean;
	const char *names;
	size_t used = 0;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		device_path(d, folders[i], path);
		if (tree_list(t, path, &names))
			continue;
		for (unsigned int n = 0; *names && n < 2; names = tree_next(names), n++) {
			/* Only rxe's devices have this file, and peerdma_hca is rxe that has a PCI function. */
			snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/parent", names);
			if (!i && !tree_word(t, path, netdev, sizeof(netdev)))
				d->software = true;
			clean = text_clean(names, strlen(names));
			if (clean && used + strlen(clean) + 3 < sizeof(d->known_as))
				used += (size_t)sprintf(d->known_as + used, "%s%s",
							used ? ", " : "", clean);
			free(clean);
		}
	}
}

static void read_device(struct tree *t, struct device *d)
{
	const char *data;
	char path[128];
	size_t length;
	int64_t n;

	d->vendor = hex_file(t, d, "vendor");
	d->device = hex_file(t, d, "device");
	d->class = hex_file(t, d, "class");
	device_path(d, "config", path);
	d->port = PORT_UNKNOWN;
	if (!tree_read(t, path, &data, &length))
		pci_config_parse(d, (const uint8_t *)data, length);
	read_driver(t, d);
	device_kind(d);

	device_path(d, "numa_node", path);
	if (!tree_number(t, path, &n) && n >= 0 && n < 1024) {
		d->numa_known = true;
		d->numa = (int)n;
	}
	read_group(t, d);
	read_link(t, d);
	if (d->kind == DEVICE_OTHER || d->kind == DEVICE_BRIDGE)
		return;
	device_path(d, "resource", path);
	d->has_bars = !tree_read(t, path, &data, &length) &&
		      !pci_parse_resources(data, length, &d->bars);
	device_path(d, "physfn", path);
	d->virtual_function = !tree_link(t, path, &data);
	d->software = device_is_softgpu(d);
	read_known_as(t, d);
}

/* ---- the tree of devices --------------------------------------------------- */

/* "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0": the way down to the device. */
static void read_place(struct machine *m, struct device *d)
{
	char path[128], part[64], name[PCI_NAME_MAX];
	const char *target, *s;

	d->parent = -1;
	snprintf(path, sizeof(path), PCI_DEVICES "%s", d->name);
	if (tree_link(m->tree, path, &target))
		return;
	for (s = target; *s; s += strspn(s, "/")) {
		size_t length = strcspn(s, "/");

		if (length < sizeof(part)) {
			memcpy(part, s, length);
			part[length] = 0;
			if (!strncmp(part, "pci", 3) && strchr(part, ':') &&
			    strlen(part) < sizeof(d->host) &&
			    strspn(part + 3, "0123456789abcdef:") == length - 3)
				memcpy(d->host, part, length + 1);
			else if (pci_name(part, name) && strcmp(name, d->name))
				d->parent = machine_index(m, name);
		}
		s += length;
	}
}

/* A loop of parents can only be a lie: it is cut. */
static void set_depths(struct machine *m)
{
	for (unsigned int i = 0; i < m->count; i++) {
		unsigned int depth = 0;

		for (int up = m->devices[i].parent; up >= 0; up = m->devices[up].parent) {
			if (++depth > 64) {
				m->devices[i].parent = -1;
				depth = 0;
				break;
			}
		}
		m->devices[i].depth = depth;
	}
	/* Cutting one loop changes what is below it. */
	for (unsigned int i = 0; i < m->count; i++) {
		unsigned int depth = 0;

		for (int up = m->devices[i].parent; up >= 0; up = m->devices[up].parent)
			depth++;
		m->devices[i].depth = depth;
	}
}

static int set_labels(struct machine *m)
{
	m->shown = calloc(m->count ? m->count : 1, sizeof(m->shown[0]));
	if (!m->shown)
		return -ENOMEM;
	for (enum device_kind kind = DEVICE_GPU; kind <= DEVICE_CARD; kind++) {
		unsigned int number = 0;

		for (unsigned int i = 0; i < m->count; i++) {
			struct device *d = &m->devices[i];

			if (d->kind != kind || !d->given || m->shown_count == SHOWN_MAX ||
			    (d->virtual_function && !(m->container && d->rdma == RDMA_HAS)))
				continue;
			d->number = number++;
			snprintf(d->label, sizeof(d->label), "%s%u", device_kind_label(kind),
				 d->number % 1000000);
			m->shown[m->shown_count++] = i;
			for (int up = (int)i; up >= 0 && !m->devices[up].shown;
			     up = m->devices[up].parent)
				m->devices[up].shown = true;
		}
	}
	return 0;
}

static int read_devices(struct machine *m)
{
	const char *names, *s;
	unsigned int count = 0;
	int ret = tree_list(m->tree, "/sys/bus/pci/devices", &names);

	if (ret)
		return ret == -ENOMEM ? ret : -ENOENT;
	for (s = names; *s; s = tree_next(s))
		count++;
	if (count > DEVICES_MAX)
		return -E2BIG;
	m->devices = calloc(count ? count : 1, sizeof(m->devices[0]));
	if (!m->devices)
		return -ENOMEM;
	for (s = names; *s; s = tree_next(s)) {
		char name[PCI_NAME_MAX];

		/* "0000:03:00.0" and nothing that only means it: the files are below that name. */
		if (pci_name(s, name) && !strcmp(s, name))
			strcpy(m->devices[m->count++].name, name);
	}
	for (unsigned int i = 0; i < m->count; i++) {
		read_device(m->tree, &m->devices[i]);
		read_place(m, &m->devices[i]);
		gpu_memory_read(m->tree, &m->devices[i]);
	}
	ret = rdma_read(m);
	if (ret)
		return ret;
	given_read(m);
	set_depths(m);
	return set_labels(m);
}

/* ---- the rest of the machine ----------------------------------------------- */

static void read_iommu(struct machine *m)
{
	const char *names;
	bool known = !tree_list(m->tree, "/sys/class/iommu", &names);

	m->iommu_present = known && *names;
	for (unsigned int i = 0; i < m->count; i++) {
		struct device *d = &m->devices[i];

		/* A device in no group is behind none, or behind one that leaves it alone. */
		if (d->group < 0 && known)
			d->iommu = IOMMU_OFF;
	}
}

int machine_read(struct machine *m, struct tree *tree)
{
	int ret;

	memset(m, 0, sizeof(*m));
	m->tree = tree;
	system_read(m);
	ret = read_devices(m);
	read_iommu(m);
	if (!ret)
		ret = names_read(m);
	return ret;
}

const char *machine_why(int error)
{
	if (error == -E2BIG)
		return "/sys/bus/pci/devices has more functions than any machine";
	return "/sys/bus/pci/devices cannot be read; is there a PCI bus, and is /sys mounted?";
}

void machine_free(struct machine *m)
{
	free(m->devices);
	free(m->shown);
	free(m->rdma);
	m->rdma = NULL;
	m->rdma_count = 0;
	m->shown = NULL;
	m->shown_count = 0;
	m->devices = NULL;
	m->count = 0;
}
