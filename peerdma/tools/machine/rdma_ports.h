/* SPDX-License-Identifier: MIT */
/* rdma_ports.h - the RDMA devices of PCI functions, and the states of their ports. */
#pragma once

#include <stddef.h>

#include "machine.h"

struct rdma_port {
	unsigned int device;	/* the PCI function: an index of machine.devices */
	char name[128];		/* the RDMA device: "mlx5_0", cleaned */
	unsigned int number;	/* from 1 on */
	char state[32];		/* "ACTIVE", "DOWN", ...; "" not known */
	char layer[32];		/* "InfiniBand", "Ethernet", ...; "" not known */
};

struct rdma_ports {
	struct rdma_port *ports;	/* those of a function together, in the order of shown */
	size_t count;
};

/*
 * Of all network adapters that have a label.  An RDMA device whose ports cannot be listed has port 1, as
 * each has.  0 or -ENOMEM.
 */
int rdma_ports_read(const struct machine *m, struct rdma_ports *out);
void rdma_ports_free(struct rdma_ports *ports);
