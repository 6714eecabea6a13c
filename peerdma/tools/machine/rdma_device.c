// SPDX-License-Identifier: MIT
/*
 * rdma_device.c - which network adapters have RDMA, which lack the driver for it, and whether a
 * port of theirs is up.
 */
#include <stdio.h>
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
	case 0x15b3:			/* Mellanox, NVIDIA */
		return true;
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

int rdma_uverbs(struct tree *t, const char *device)
{
	char path[128], name[64];
	const char *names;
	uint64_t n;

	if (tree_list(t, RDMA_VERBS, &names))
		return -1;
	for (; *names; names = tree_next(names)) {
		if (strncmp(names, "uverbs", 6) || !text_u64(names + 6, strlen(names + 6), &n) || n > 65535)
			continue;
		snprintf(path, sizeof(path), RDMA_VERBS "/uverbs%u/ibdev", (unsigned int)n);
		if (!tree_word(t, path, name, sizeof(name)) && !strcmp(name, device))
			return (int)n;
	}
	return -1;
}

void rdma_device_read(struct tree *t, struct device *d)
{
	const char *names = "";
	char path[128];

	if (d->kind != DEVICE_NIC)
		return;
	snprintf(path, sizeof(path), PCI_DEVICES "%s/infiniband", d->name);
	if (tree_list(t, path, &names) || !*names) {
		d->rdma = is_made_for_rdma(d) ? RDMA_LACKS : RDMA_NONE;
		return;
	}
	d->rdma = RDMA_HAS;
	for (; *names; names = tree_next(names)) {
		enum port_state state = rdma_ports(t, names);

		d->ports = state > d->ports ? state : d->ports;
	}
}
