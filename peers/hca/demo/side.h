/* SPDX-License-Identifier: MIT */
/*
 * side.h - one end of the demonstration: a GPU, an adapter, and GPU memory that the adapter
 * reaches in one of three ways. Calls that return false have set side->why to the reason.
 */
#ifndef HCA_DEMO_SIDE_H
#define HCA_DEMO_SIDE_H

#include <infiniband/verbs.h>

#include "../../fpga/src/gpu.h"
#include "peerdma.h"

enum way {
	WAY_PEER,	/* ibv_reg_mr() of the GPU's pointer */
	WAY_DMABUF,	/* ibv_reg_dmabuf_mr() of a dma-buf */
	WAY_STAGING,	/* ibv_reg_mr() of host memory; the GPU copies to or from it */
};

/* Address of a queue pair. */
struct address {
	union ibv_gid gid;
	uint32_t qp;
};

/* The adapter's addresses of the memory, from the kernel's counts and events. */
struct translation {
	uint64_t pointer;	/* the program's */
	uint64_t dma;		/* DMA address in the MR */
	uint64_t phys;		/* its translation */
	int bar;		/* the GPU's BAR that contains phys; -1: none */
	uint64_t offset;	/* in that BAR */
	bool translates;	/* an IOMMU translates for the adapter */
	bool mapped;		/* the kernel reports that the IOMMU maps dma to phys */
};

/* Counts that must be the same before and after. */
struct counts {
	uint64_t pins, maps, mrs, bar1, vram;
};

struct side {
	struct gpu all[GPUS_MAX], gpu;	/* gpu: the one that is used */
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
	uint64_t addr, length;		/* GPU memory; 0: none */
	void *staged;			/* host memory for staging, or NULL */
	struct peerdma_region *region;
	struct ibv_mr *mr;
	enum way way;
	struct why why;
};

/* second: use the last GPU, not the first. */
bool side_open(struct side *s, bool second);
void side_close(struct side *s);

/*
 * side_queue: makes a new queue pair, s->own, in place of the old one. side_connect:
 * connects it.
 */
bool side_queue(struct side *s);
bool side_connect(struct side *s, const struct address *other);

/* Allocates GPU memory and registers it with the adapter in one of the ways. */
bool side_register(struct side *s, enum way way, uint64_t length, struct translation *t);
/* Base of the addresses used for the MR. */
uint64_t side_base(const struct side *s);
/* Frees the GPU's memory only: the MR stays. */
bool side_free(struct side *s);
/* Frees everything that side_register() has made. */
bool side_end(struct side *s);

/*
 * Staging: copies to the host memory that the adapter reads, or from the host memory that
 * it has written. Otherwise does nothing.
 */
bool side_stage(struct side *s, bool to_host);

/* Bytes that the GPU has copied to or from host memory, by its own count. */
bool side_copied(struct side *s, uint64_t *bytes);
bool side_counts(struct side *s, struct counts *c);

/* Posts a write to the other end's memory; tag identifies its completion. */
bool side_write(struct side *s, uint64_t at, uint64_t length, uint64_t remote, uint32_t rkey, uint64_t tag);
/* Waits up to ms for one completion. 1: one came; 0: none; -1: the queue has failed. */
int side_poll(struct side *s, struct ibv_wc *wc, unsigned int ms);

#endif
