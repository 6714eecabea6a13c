/* SPDX-License-Identifier: MIT */
/*
 * hash.h - hash table of objects by key, with the nodes inside the objects: the cost of
 * a look-up does not depend on the number of objects.  Keys are unique.  The caller holds a
 * lock.
 *
 * The table doubles when it has more objects than heads.  If there is no memory for that,
 * it keeps its size and gets slower; adding never fails.
 */
#ifndef SG_BASE_HASH_H
#define SG_BASE_HASH_H

#include "../sg_os.h"

struct sg_hash_node {
	struct sg_hash_node *next;
	u64 key;
};

struct sg_hash {
	struct sg_hash_node **heads;
	u32 bits;		/* there are 2^bits heads */
	u32 count;
};

int sg_hash_init(struct sg_hash *hash);
void sg_hash_fini(struct sg_hash *hash);
/* node->key must be set. */
void sg_hash_add(struct sg_hash *hash, struct sg_hash_node *node);
void sg_hash_del(struct sg_hash *hash, struct sg_hash_node *node);
struct sg_hash_node *sg_hash_find(const struct sg_hash *hash, u64 key);

#endif
