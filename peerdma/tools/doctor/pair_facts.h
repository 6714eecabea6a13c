/* SPDX-License-Identifier: MIT */
/*
 * pair_facts.h - what decides whether two machines talk to each other: of each rail, and of the machine.
 *
 * A rail is a GPU with its nearest adapter; adapters that are the nearest of no GPU are rails without one.
 */
#pragma once

#include "doctor.h"

/*
 * Of the addresses themselves nothing gets into a tree, and so into a bundle: only of which kind
 * they are.  Lines of device, port, index and kind, with tabs between them.
 */
#define GID_KINDS_PATH	"/gid-kinds.tsv"
enum gid_kind {			/* what programs choose: last */
	GID_UNKNOWN,
	GID_LINK_LOCAL,
	GID_GLOBAL,
	GID_IPV4,
	GID_KINDS
};
#define GIDS_MAX	32		/* that are looked at */

struct gid {
	unsigned int index;
	enum gid_kind kind;
};

#define PFC_UNKNOWN	(-1)

/* Text that is "" and numbers that are 0 are not known. */
struct rail {
	int gpu, nic;			/* indexes of devices; -1: none */
	unsigned int rank;		/* of the adapter among those with RDMA */
	char name[160];			/* "GPU0 and NIC0 (mlx5_0)" */
	char device[64];		/* "mlx5_0"; "": the adapter has no RDMA device */
	char adapter[96], driver[32], firmware[64];
	char port[12];			/* the first active port, else the first */
	bool ports_known;
	unsigned int active;		/* ports */
	char layer[32];			/* "InfiniBand", "Ethernet", "Ethernet, iWARP" */
	char rate[48];
	unsigned int rate_mbit;
	char net[32];			/* the network interface of the GID */
	unsigned int mtu;		/* of that */
	bool gids_known;
	unsigned int gid_count, v2_count;
	struct gid v2[GIDS_MAX];	/* RoCE v2 */
	int pfc;			/* a bit for each priority */
	char trust[32];			/* "dscp pcp" */
	enum answer dmabuf, peermem;	/* of a rail with a GPU */
};

struct node {
	struct rail *rails;		/* those with a GPU first, in its order */
	unsigned int count, with_gpu;
	unsigned int gpus, adapters, distinct;	/* adapters that are nearest to a GPU */
	char kind[96], kernel[64], gpu[96], gpu_driver[48], rdma[80];
	char verbs[48], nccl[48];	/* "2.21.5" */
};

/* Reads through the tree.  0 or -ENOMEM. */
int node_read(struct node *n, struct doctor *d);
void node_free(struct node *n);

bool rail_is_roce(const struct rail *r);
bool rail_is_down(const struct rail *r);	/* no port is up */

/* pair_gids.c */
const char *gid_kind_word(enum gid_kind kind);
/* Of "fe80:0000:0000:0000:0202:c9ff:fe00:0001"; GID_UNKNOWN: it is none, or zero. */
enum gid_kind gid_kind_of(const char *text);
/* Of this machine: puts the kinds into the tree. */
void gid_kinds_remember(struct doctor *d);
/* What programs take: of the kind that they prefer, the first; NULL: there is none of RoCE v2. */
const struct gid *rail_gid(const struct rail *r);
/* gids_known, gid_count and v2 */
void rail_gids(struct doctor *d, struct rail *r);
