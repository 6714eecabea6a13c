/* SPDX-License-Identifier: MIT */
/*
 * side.h - one end of the demonstration: a GPU, an adapter, and memory of the GPU that the adapter reaches in one of
 * three ways.  Calls that return bool say with false that side->why has the reason.
 */
#ifndef HCA_DEMO_SIDE_H
#define HCA_DEMO_SIDE_H

#include <infiniband/verbs.h>

#include "../../fpga/src/gpu.h"
#include "peerdma.h"

enum way {
	WAY_PEER,	/* ibv_reg_mr() of the GPU's pointer */
	WAY_DMABUF,	/* ibv_reg_dmabuf_mr() of a dma-buf */
	WAY_STAGING,	/* ibv_reg_mr() of host memory, and the GPU copies between the two */
};

/* Where to reach a queue pair. */
struct address {
	union ibv_gid gid;
	uint32_t qp;
};

/* What the adapter has for the memory, by the kernel's counts and events. */
struct translation {
	uint64_t pointer;	/* the program's */
	uint64_t dma;		/* in the MR's translation */
	uint64_t phys;		/* what that leads to */
	int bar;		/* of the GPU, that has phys; -1: none */
	uint64_t offset;	/* in that BAR */
	bool translates;	/* the adapter is behind an IOMMU that does */
	bool mapped;		/* the kernel says that its IOMMU leads dma to phys */
};

/* What must be as before. */
struct counts {
	uint64_t pins, maps, mrs, bar1, vram;
};

struct side {
	struct gpu all[GPUS_MAX], gpu;	/* gpu: of all, the one that is used */
	int gpus;
	char adapter[32], adapter_pci[32];
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct address own;
	int gid_index;
	enum ibv_mtu mtu;
	struct peerdma *peerdma;
	uint64_t addr, length;		/* the GPU's memory; 0: none */
	void *staged;			/* host memory beside it, or NULL */
	struct peerdma_region *region;
	struct ibv_mr *mr;
	enum way way;
	struct why why;
};

/* second: the last GPU, not the first. */
bool side_open(struct side *s, bool second);
void side_close(struct side *s);

/* A new queue pair, in the place of the one before; its address is s->own. Then the other's. */
bool side_queue(struct side *s);
bool side_connect(struct side *s, const struct address *other);

/* GPU memory, registered with the adapter in one of the ways. */
bool side_register(struct side *s, enum way way, uint64_t length, struct translation *t);
/* What the adapter's addresses are counted from. */
uint64_t side_base(const struct side *s);
/* Frees the GPU's memory only: the MR stays. */
bool side_free(struct side *s);
/* Everything that side_register() has made. */
bool side_end(struct side *s);

/* Staging: to the host memory that the adapter reads, or from the one that it wrote. Else nothing. */
bool side_stage(struct side *s, bool to_host);

/* So many bytes did the GPU copy between itself and host memory, by its own count. */
bool side_copied(struct side *s, uint64_t *bytes);
bool side_counts(struct side *s, struct counts *c);

/* A write to the other end's memory; its completion is tag. */
bool side_write(struct side *s, uint64_t at, uint64_t length, uint64_t remote, uint32_t rkey, uint64_t tag);
/* Of one write, within ms; 0: none came, 1: one did. -1: the queue fails. */
int side_poll(struct side *s, struct ibv_wc *wc, unsigned int ms);

#endif
