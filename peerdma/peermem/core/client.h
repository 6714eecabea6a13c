/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * client.h - the clients that have registered.  The core asks them one after the other,
 * without holding a lock.
 *
 * Locks of this module, none of them held over a call of a client's or a driver's, and none
 * while another is taken:
 *	clients_lock (mutex, client.c)	the list of clients, their names, sysfs
 *	peer_region.lock (spinlock)	a region's state (region.c)
 *	peer_client.regions' own lock	from a region's context to the region
 */
#ifndef PEER_CORE_CLIENT_H
#define PEER_CORE_CLIENT_H

#include <linux/completion.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/xarray.h>
#include <rdma/peer_mem.h>

enum peer_count {
	PEER_ALLOC_MRS, PEER_DEALLOC_MRS, PEER_REG_PAGES, PEER_DEREG_PAGES,
	PEER_REG_BYTES, PEER_DEREG_BYTES, PEER_FREE_CALLBACKS, PEER_COUNTS,
};

struct peer_client {
	const struct peer_memory_client *ops;
	bool revocable;		/* it may invalidate */
	bool unmaps;		/* it has PEER_MEM_INVALIDATE_UNMAPS */
	u64 number;		/* order of registration, from 1 */
	struct list_head entry;
	refcount_t users;	/* regions, calls under way, and one until unregistered */
	struct completion unused;
	struct xarray regions;	/* by context */
	atomic64_t last_context;
	atomic64_t counts[PEER_COUNTS];
	struct kobject kobj;	/* memory_peers/NAME; frees the client */
};

int peer_clients_init(void);
void peer_clients_exit(void);

struct peer_client *peer_client_add(const struct peer_memory_client *ops, bool revocable);
/* Waits until it has no users. */
void peer_client_remove(struct peer_client *client);

/*
 * Both take a user. after: of the first client that registered after number; NULL: none.
 * get: of this client; false: it is being removed.
 */
struct peer_client *peer_client_after(u64 number);
bool peer_client_get(struct peer_client *client);
void peer_client_put(struct peer_client *client);
bool peer_clients_any(void);

#endif
