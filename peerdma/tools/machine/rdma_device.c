// SPDX-License-Identifier: MIT
/*
 * rdma_device.c - which network adapters have RDMA, which lack the driver for it, and whether a
 * port of theirs is up.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool.h"
#include "machine.h"

/*
 * Adapters that are made for RDMA.  Of others (Intel's and Broadcom's Ethernet, for example) many are
 * capable of it and are never meant for it: these count once they have an RDMA device.
 */
static bool is_made_for_rdma(const struct device *d)
{
	switch (d->vendor) {
	/* Mellanox, NVIDIA; 0x2100: a second way of another function (Data Direct) */
	case 0x15b3:
		return d->device != 0x2100 && (d->class >> 8 == 0x0200 || d->class >> 8 == 0x0207);
	case 0x1d0f:			/* Amazon: EFA */
		return d->device >> 4 == 0xefa;
	case 0x1414:			/* Microsoft: MANA */
		return d->device == 0x00ba;
	case 0x8086:			/* Omni-Path */
		return d->device == 0x24f0 || d->device == 0x24f1;
	case 0x434e:			/* Cornelis Networks */
		return true;
	default:
		return false;
	}
}

static enum port_state port_state(struct tree *t, const char *device, const char *port)
{
	char path[256], word[32];

	snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/ports/%.16s/state", device, port);
	if (tree_word(t, path, word, sizeof(word)))
		return PORTS_UNKNOWN;
	/* "4: ACTIVE" */
	return *word == '4' ? PORTS_ACTIVE : PORTS_DOWN;
}

enum port_state rdma_ports(struct tree *t, const char *device)
{
	enum port_state best = PORTS_UNKNOWN;
	const char *ports;
	char path[160];

	snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/ports", device);
	if (tree_list(t, path, &ports))
		return PORTS_UNKNOWN;
	for (; *ports; ports = tree_next(ports)) {
		enum port_state state = port_state(t, device, ports);

		best = state > best ? state : best;
	}
	return best;
}

static int by_name(const void *name, const void *r)
{
	return strcmp(name, ((const struct rdma_name *)r)->name);
}

/* The list is as the tree lists the folder: sorted. */
struct rdma_name *rdma_find(const struct machine *m, const char *name)
{
	return m->rdma_count ? bsearch(name, m->rdma, m->rdma_count, sizeof(m->rdma[0]), by_name) :
	       NULL;
}

/* Each node says whose it is: once through all of them, not once for each device. */
static void read_uverbs(struct machine *m)
{
	char path[128], name[64];
	const char *names = "";
	struct rdma_name *r;
	uint64_t n;

	if (tree_list(m->tree, RDMA_VERBS, &names))
		return;
	for (; *names; names = tree_next(names)) {
		if (strncmp(names, "uverbs", 6) ||
		    !text_u64(names + 6, strlen(names + 6), &n) || n > 65535)
			continue;
		snprintf(path, sizeof(path), RDMA_VERBS "/uverbs%u/ibdev", (unsigned int)n);
		if (tree_word(m->tree, path, name, sizeof(name)))
			continue;
		r = rdma_find(m, name);
		if (r && r->uverbs < 0)
			r->uverbs = (int)n;
	}
}

/* The last PCI function in the way down to it, and what stands below that: "mlx5_core.sf.4". */
static bool function_of(const struct machine *m, const char *target, struct rdma_name *r)
{
	char part[64], name[PCI_NAME_MAX];
	bool below = false;

	for (const char *s = target; *s; s += strspn(s, "/")) {
		size_t length = strcspn(s, "/");

		snprintf(part, sizeof(part), "%.*s", length < 64 ? (int)length : 64, s);
		s += length;
		if (pci_name(part, name) && !strcmp(part, name)) {
			r->function = machine_find(m, name);
			*r->part = 0;
			below = true;
		} else if (below) {
			below = false;
			if (strcmp(part, "infiniband"))
				tree_clean(r->part, sizeof(r->part), part, strlen(part));
		}
	}
	return r->function >= 0;
}

/* NULL: any. */
static bool has_device(const struct machine *m, const struct device *d, const char *name)
{
	const char *names;
	char path[128];

	snprintf(path, sizeof(path), PCI_DEVICES "%s/infiniband", d->name);
	if (tree_list(m->tree, path, &names))
		return false;
	while (name && *names && strcmp(names, name))
		names = tree_next(names);
	return *names;
}

/* By its folder's place, or its device's; by the functions' own lists where a bundle has neither. */
static void find_function(const struct machine *m, struct rdma_name *r)
{
	const char *target;
	char path[160];

	r->function = -1;
	snprintf(path, sizeof(path), RDMA_DEVICES "/%s", r->name);
	if (!tree_link(m->tree, path, &target) && function_of(m, target, r))
		return;
	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/device", r->name);
	if (!tree_link(m->tree, path, &target) && function_of(m, target, r))
		return;
	for (unsigned int i = 0; i < m->count && r->function < 0; i++) {
		if (m->devices[i].kind == DEVICE_NIC && has_device(m, &m->devices[i], r->name))
			r->function = (int)i;
	}
}

/* In a list like "mlx5_0, eth0". */
static bool is_listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *s = list; *s; s += strcspn(s, ","), s += strspn(s, ", ")) {
		if (strcspn(s, ",") == length && !memcmp(s, name, length))
			return true;
	}
	return false;
}

/* A scalable function is not in the function's own lists.  It comes first if it is all that the function has. */
static void add_known_as(struct device *d, const char *name, bool first)
{
	char clean[sizeof(d->known_as)], both[2 * sizeof(d->known_as) + 3];

	tree_clean(clean, sizeof(clean), name, strlen(name));
	if (is_listed(d->known_as, clean))
		return;
	snprintf(both, sizeof(both), "%s%s%s", first ? clean : d->known_as,
		 *d->known_as ? ", " : "",
		 first ? d->known_as : clean);
	if (strlen(both) < sizeof(d->known_as))
		strcpy(d->known_as, both);
}

static void of_function(struct machine *m, const struct rdma_name *r)
{
	struct device *d = &m->devices[r->function];
	enum port_state state = rdma_ports(m->tree, r->name);

	if (*r->part)
		add_known_as(d, r->name, d->rdma != RDMA_HAS);
	d->rdma = RDMA_HAS;
	d->ports = state > d->ports ? state : d->ports;
}

int rdma_read(struct machine *m)
{
	const char *names = "", *s;
	unsigned int n = 0;

	for (unsigned int i = 0; i < m->count; i++) {
		struct device *d = &m->devices[i];

		if (d->kind != DEVICE_NIC)
			continue;
		if (has_device(m, d, NULL))
			d->rdma = RDMA_HAS;
		else if (!device_is_handed_on(d) && is_made_for_rdma(d))
			d->rdma = RDMA_LACKS;
	}
	if (tree_list(m->tree, RDMA_DEVICES, &names))
		return 0;
	for (s = names; *s; s = tree_next(s))
		n++;
	m->rdma = calloc(n ? n : 1, sizeof(m->rdma[0]));
	if (!m->rdma)
		return -ENOMEM;
	for (s = names; *s; s = tree_next(s)) {
		struct rdma_name *r = &m->rdma[m->rdma_count++];

		snprintf(r->name, sizeof(r->name), "%s", s);
		r->uverbs = -1;
		find_function(m, r);
		if (r->function >= 0)
			of_function(m, r);
	}
	read_uverbs(m);
	return 0;
}
