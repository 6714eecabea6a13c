// SPDX-License-Identifier: MIT
/*
 * check_port.c - is a port of each adapter up, and has it an address?
 */
#include <stdio.h>
#include <string.h>

#include "adapters.h"

#define GIDS_LOOKED_AT	16

static bool applies(const struct doctor *d)
{
	return any_of_kind(d, DEVICE_NIC);
}

/* The nearest adapter of a GPU, through which its traffic should go. */
static bool is_nearest(const struct doctor *d, int nic)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		if ((int)d->pairs[i].a == nic || (int)d->pairs[i].b == nic)
			return true;
	}
	return false;
}

static bool any_active(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (d->machine->devices[i].ports == PORTS_ACTIVE && device_concerned(d, i))
			return true;
	}
	return false;
}

static const char *port_file(struct doctor *d, const char *adapter, const char *port,
			     const char *file, char out[48])
{
	char path[160];

	snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/ports/%.8s/%s", adapter, port, file);
	if (tree_word(d->tree, path, out, 48))
		snprintf(out, 48, "not known");
	return out;
}

static void evidence_ports(struct doctor *d, struct finding *f, const char *adapter)
{
	char path[128], state[48], physical[48], layer[48], rate[48];
	const char *ports;

	snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/ports", adapter);
	if (tree_list(d->tree, path, &ports))
		return;
	for (; *ports; ports = tree_next(ports)) {
		snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/ports/%.8s", adapter, ports);
		evidence(d, f, path, "%s, %s, %s, %s", port_file(d, adapter, ports, "state", state),
			 port_file(d, adapter, ports, "phys_state", physical),
			 port_file(d, adapter, ports, "link_layer", layer),
			 port_file(d, adapter, ports, "rate", rate));
	}
	snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/fw_ver", adapter);
	if (tree_exists(d->tree, path))
		evidence_file(d, f, path);
}

/* What a port that is down waits for, by its link's state. */
static const char *remedy_of(const char *physical, const char *state, bool ethernet)
{
	switch (*physical) {
	case '3':
		return "the port is turned off: 'ip link set DEVICE up', or see its settings (mlxconfig, the switch)";
	case '2':
		return "no signal comes from the other end: see cable, transceiver and the switch's port";
	case '5':
		return *state == '2' && !ethernet ? "no subnet manager answers: start opensm, or see the switch's" :
		       "'ip link set DEVICE up', and see the switch's port";
	default:
		return "see cable, transceiver and the switch's port";
	}
}

static void down(struct doctor *d, unsigned int nic, const char *adapter)
{
	bool nearest = is_nearest(d, (int)nic), others = any_active(d);
	char state[48], physical[48], layer[48];
	struct finding *f = say_device(d, !nearest ? VERDICT_OK : others ? VERDICT_SLOW :
				       VERDICT_BROKEN, nic, WAYS_RDMA);

	evidence_ports(d, f, adapter);
	if (!nearest) {
		consequence(d, f, "the adapter is not connected; no GPU has it for its nearest");
		return;
	}
	consequence(d, f, others ?
		    "the GPU's nearest adapter is not connected: its traffic goes through one that is farther away" :
		    "no adapter is connected: memory can be registered, and nothing sent");
	port_file(d, adapter, "1", "state", state);
	port_file(d, adapter, "1", "phys_state", physical);
	port_file(d, adapter, "1", "link_layer", layer);
	/* Turned off, it is this machine's to turn on; a cable is not a tenant's. */
	if (*physical == '3')
		remedy(d, f, "%s", remedy_of(physical, state, !strcmp(layer, "Ethernet")));
	else
		remedy_owner(d, f, "an adapter whose port is connected", "%s",
			     remedy_of(physical, state, !strcmp(layer, "Ethernet")));
}

/* -1: cannot be seen.  Addresses themselves are read nowhere: they would be in bundles. */
static int addresses(struct doctor *d, const char *adapter)
{
	char path[160], type[32];
	const char *names;
	int n = 0;

	snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/ports/1/gid_attrs/types", adapter);
	if (tree_list(d->tree, path, &names))
		return -1;
	for (unsigned int i = 0; *names && i < GIDS_LOOKED_AT; names = tree_next(names), i++) {
		snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/ports/1/gid_attrs/types/%.8s", adapter, names);
		n += !tree_word(d->tree, path, type, sizeof(type));
	}
	return n;
}

static void up(struct doctor *d, unsigned int nic, const char *adapter)
{
	char layer[48];
	bool ethernet = !strcmp(port_file(d, adapter, "1", "link_layer", layer), "Ethernet");
	bool silent = ethernet && !addresses(d, adapter);
	struct finding *f = say_device(d, silent ? VERDICT_BROKEN : VERDICT_OK, nic, WAYS_RDMA);

	evidence_ports(d, f, adapter);
	if (!silent)
		return;
	evidence(d, f, "gid_attrs/types", "the port has no GID");
	consequence(d, f, "RoCE has no address to send from: connections fail with \"Invalid argument\" or time out");
	remedy(d, f, "give its network interface an address (an IPv6 link-local one does)");
}

static void run(struct doctor *d)
{
	const char *names;
	struct adapter a;

	if (tree_list(d->tree, RDMA_DEVICES, &names))
		return;
	for (; *names; names = tree_next(names)) {
		unsigned int nic;

		adapter_read(d, names, &a);
		if (!a.function)
			continue;
		nic = (unsigned int)(a.function - d->machine->devices);
		if (!device_concerned(d, nic))
			continue;
		if (a.function->ports == PORTS_DOWN)
			down(d, nic, names);
		/* Of several RDMA devices of one adapter those that are down are not in use. */
		else if (rdma_ports(d->tree, names) == PORTS_ACTIVE)
			up(d, nic, names);
	}
}

const struct check check_port = { "port", "Ports", applies, run };
