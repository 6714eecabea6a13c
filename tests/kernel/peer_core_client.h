/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * peer_core_client.h - a peer-memory client that owns a range of addresses, writes down each call
 * and checks its arguments, and fails or calls back where a test wants it to.
 *
 * The trace has a letter per event: A acquire, G get_pages begins and g ends, M and m dma_map, U and u
 * dma_unmap, P and p put_pages, R release; F the device's stop, I an invalidation that has returned.
 */
#ifndef PEER_CORE_CLIENT_H
#define PEER_CORE_CLIENT_H

#include <linux/completion.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_peer.h>
#include <rdma/peer_mem.h>

enum kind { PERSISTENT, PLAIN, UNMAPS };

struct test_client {
	struct peer_memory_client_ex ex;
	enum kind kind;
	void *handle;
	invalidate_peer_memory invalidate;

	/* What it owns, and how. */
	unsigned long base;
	size_t size;
	struct device *dev;		/* that dma_map must be for */
	unsigned long page_size;
	unsigned long gap;		/* between the DMA addresses of its pages */

	/* What a test wants. */
	int acquire_result;		/* 1 */
	int get_result, map_result;
	bool keep_table;		/* a dma_map that fails leaves a valid table */
	int missing_entries;
	unsigned int misaligned;
	void (*in_get)(struct test_client *client);
	void (*in_map)(struct test_client *client);
	void (*in_unmap)(struct test_client *client);
	void (*in_put)(struct test_client *client);

	/* What it expects, and saw. */
	unsigned long addr;
	size_t length;
	bool read_only;
	u64 context;			/* the core's, of the last get_pages */
	struct sg_table table;		/* as dma_map left it */
	bool held, mapped;
	int wrong;			/* arguments and orders that break the contract */
	spinlock_t lock;
	char trace[64];
};

/* The DMA address of the client's page that addr is in. */
dma_addr_t client_dma(const struct test_client *client, unsigned long addr);

void client_init(struct test_client *client, const char *name, enum kind kind, struct device *dev);
bool client_register(struct test_client *client);
void client_unregister(struct test_client *client);

void client_event(struct test_client *client, char event);

/* Something that another thread does for a test. */
struct async {
	struct work_struct work;
	struct test_client *client;
	void (*what)(struct async *async);
	struct ib_umem *umem;
	u64 context;
	size_t began;		/* how long the trace was */
	struct completion begun, done;
};

/* Before the first, and after the last. */
int async_init(void);
void async_exit(void);

void async_begin(struct async *async, struct test_client *client, void (*what)(struct async *async));
/* Begun, and not ended a while later; and the opposite, however slow the machine is. */
bool async_waits(struct async *async);
bool async_returns(struct async *async);
void async_end(struct async *async);

void async_invalidate(struct async *async);	/* of client->context; then I */
void async_release(struct async *async);	/* of umem */
void async_unregister(struct async *async);

#endif
