/* SPDX-License-Identifier: MIT */
/*
 * adapters.h - RDMA devices: what drives them, and which memory besides the host's their driver takes.
 */
#pragma once

#include "doctor.h"

#define INFINIBAND	RDMA_DEVICES
#define PEER_REGISTER	"ib_register_peer_memory_client"
#define PEER_CORE	"peerdma_peer_core"
#define PEER_OURS	"peerdma_peermem"

struct adapter {
	char name[64];			/* "mlx5_0" */
	/* NULL: it is no PCI function's, or not one that is shown */
	const struct device *function;
	char driver[32];		/* the module that is its RDMA driver; "" not known */
	bool software;			/* a program that carries data as an adapter does */
	bool given;			/* to this container */
};
void adapter_read(struct doctor *d, const char *name, struct adapter *out);

/* Does its driver take this?  why: what was seen; remedy: what to change, NULL if it does or nothing is known to help. */
struct adapter_answer {
	enum answer answer;
	char source[64], why[160];
	const char *remedy;
};
void adapter_dmabuf(struct doctor *d, const struct adapter *a, struct adapter_answer *out);
void adapter_peer(struct doctor *d, const struct adapter *a, struct adapter_answer *out);

/*
 * Can the adapter register memory of a GPU in any way?  false: no, and why it cannot and what to change.  What cannot be told
 * may be so.
 */
bool adapter_can_work(struct doctor *d, const struct device *nic, char why[160], char remedy[160]);
/* The module that makes an RDMA device of the adapter, by its maker. */
const char *adapter_module(const struct device *nic);
/* What has a peer-memory core for the adapters here: their maker's own RDMA drivers. */
const char *adapters_stack(struct doctor *d);

/* peer_clients.c */
struct peer_client {
	const char *folder;		/* where it is listed */
	char name[64], version[32];	/* "" without one */
	unsigned int vendor;		/* whose memory it speaks for; 0: not known */
	bool ours;			/* peerdma_peermem's */
};
/* The nth; false: there are no more. */
bool peer_client(struct doctor *d, unsigned int n, struct peer_client *out);
/* The first of that maker's that is not ours. */
bool peer_client_of(struct doctor *d, unsigned int vendor, struct peer_client *out);

/*
 * Amazon's own EFA driver (amzn-drivers, efa_sysfs.c) asks NVIDIA's driver about memory by itself, without a core that takes
 * clients, and says so in the device's file p2p: "NVIDIA".  NULL: any adapter here.
 */
bool efa_takes_nvidia(struct doctor *d, const struct device *adapter, char path[128]);
/*
 * Can amdgpu's own client register with this RDMA core?  It finds the core by symbol_get(), which since Linux 6.6
 * (commit 9011e49d54dc) finds GPL symbols only; MLNX_OFED's core exports others, this project's exports GPL ones.
 */
bool amd_can_register(struct doctor *d);

/* Is the GPU's memory given to peers at all?  why: "" or what is missing. */
enum answer gpu_has_peer_client(struct doctor *d, const struct device *gpu, char why[160]);
enum answer gpu_exports_dmabuf(struct doctor *d, const struct device *gpu, char why[160]);

/* Whether network adapters here can be given the GPUs' memory as dma-buf. */
enum answer dmabuf_works(struct doctor *d, char why[160]);
