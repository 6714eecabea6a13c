/* SPDX-License-Identifier: MIT */
/*
 * near.h - for each GPU the network adapters that are nearest to it, and the lists of ports by which UCX and
 * NCCL take these.
 *
 * Nearest are, of the adapters with an RDMA port that may be used, all those at the least distance.  Where none
 * has one, of those with an RDMA device; where none has that, of all.
 */
#pragma once

#include <stdio.h>

#include "machine/rdma_ports.h"

enum near_level { NEAR_USABLE, NEAR_RDMA, NEAR_ANY, NEAR_LEVELS };

struct near {
	unsigned int gpu;
	enum path_class path;
	unsigned int adapters[SHOWN_MAX], count;
};

struct nears {
	const struct machine *m;
	struct rdma_ports ports;
	struct near *of;	/* of each GPU, in the order of shown; none without adapters */
	unsigned int count;
	enum near_level level;	/* of all adapters named */
};

int nears_read(const struct machine *m, struct nears *out);	/* 0 or -ENOMEM */
void nears_free(struct nears *n);

/* Why a port is in no list, or NULL. */
const char *near_why_not(const struct rdma_port *p, char buf[96]);
/* The port is of an adapter as near as the nearest, or nearer, and in no list. */
bool near_leaves_out(const struct nears *n, const struct near *near, const struct rdma_port *p);

/* "mlx5_0:1,mlx5_1:1".  The number of ports; `to' NULL: only that. */
unsigned int near_ucx(const struct nears *n, const struct near *near, FILE *to);
/* The ports of all GPUs, each once, after "=": each name is to be equal, else mlx5_1 would be mlx5_10, too. */
unsigned int near_nccl(const struct nears *n, FILE *to);
/* The states of all ports in the lists are known. */
bool near_states_known(const struct nears *n);
