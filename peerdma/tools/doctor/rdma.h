/* SPDX-License-Identifier: MIT */
/*
 * rdma.h - an RDMA device that writes and reads memory by itself: a queue pair connected to
 * itself, or to one of another machine, by libibverbs, which is loaded and not linked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs_abi.h"

struct rdma {
	void *library;
	void **(*list)(int *count);
	void (*list_free)(void **list);
	const char *(*name)(void *device);
	struct verbs_opened *(*open)(void *device);
	int (*close)(struct verbs_opened *context);
	int (*query_port)(struct verbs_opened *context, uint8_t port, struct verbs_port *out);
	int (*query_gid)(struct verbs_opened *context, uint8_t port, int index, void *gid);
	void *(*alloc_pd)(struct verbs_opened *context);
	int (*dealloc_pd)(void *pd);
	void *(*create_cq)(struct verbs_opened *context, int entries, void *own, void *channel,
			   int vector);
	int (*destroy_cq)(void *cq);
	struct verbs_qp *(*create_qp)(void *pd, struct verbs_qp_init *init);
	int (*modify_qp)(struct verbs_qp *qp, struct verbs_qp_attr *attr, int which);
	int (*destroy_qp)(struct verbs_qp *qp);
	struct verbs_mr *(*reg)(void *pd, void *addr, size_t length, int access);
	/* May be NULL */
	struct verbs_mr *(*reg_dmabuf)(void *pd, uint64_t offset, size_t length, uint64_t iova,
				       int fd, int access);
	int (*dereg)(struct verbs_mr *mr);
	const char *(*status_text)(int status);

	struct verbs_opened *context;
	void *pd, *cq;
	struct verbs_qp *qp;
	struct verbs_port port;
	uint8_t port_number, gid[16];
	int gid_index;		/* -1: none, by LID */
	unsigned char *trial;	/* memory of its own, registered as `own` */
	struct verbs_mr *own;
	/* The last dma-buf was registered past the provider, which refuses dma-bufs */
	bool by_kernel;
	bool apart;		/* connected to another queue pair */
	/* For a device that reports nothing, in seconds; called once, if it takes two or longer */
	unsigned int patience;
	void (*slow)(void);
	char why[160];		/* what has failed last */
};

/* By what another machine's queue pair is found. */
struct rdma_end {
	uint32_t number;
	uint16_t lid;
	int mtu;		/* as verbs counts: 1 is 256 bytes, 5 is 4096 */
	uint8_t gid[16];	/* zeros: by LID */
};

/* A part of a registered region: its address for the device. */
struct rdma_place {
	const struct verbs_mr *mr;
	uint64_t addr;
};

/*
 * A device that is open and connected to itself, shown by memory of the host that arrived.
 * false: why.  rdma_close() in any case.
 */
bool rdma_open(struct rdma *r, const char *device);
/*
 * For a queue pair of another machine: opens only; gid_index -1: by LID.  Then, as often as wanted, a new
 * queue pair: this end of it, and the other.  false: why.
 */
bool rdma_open_apart(struct rdma *r, const char *device, int gid_index);
bool rdma_offer(struct rdma *r, struct rdma_end *own);
bool rdma_meet(struct rdma *r, const struct rdma_end *other);
void rdma_close(struct rdma *r);

/* For writing and reading from both sides.  NULL: why. */
struct verbs_mr *rdma_register(struct rdma *r, void *addr, size_t length);
struct verbs_mr *rdma_register_dmabuf(struct rdma *r, int fd, size_t length, uint64_t iova);
void rdma_unregister(struct rdma *r, struct verbs_mr *mr);

/*
 * One transfer of `length` bytes, which the device says has ended well; what it wrote is where it was
 * to go, as far as the order of transfers can see to it.  false: why.
 * by_read: the target's side reads, instead of the source's side writing.
 */
bool rdma_carry(struct rdma *r, struct rdma_place to, struct rdma_place from, uint32_t length,
		bool by_read);
