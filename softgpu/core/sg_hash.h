/* SPDX-License-Identifier: MIT */
/*
 * sg_hash.h - objects by key, nodes inside the objects: what finding one costs
 * does not depend on how many there are.  Keys are unique.  The caller locks.
 *
 * The table doubles when there are more objects than places.  Without memory for
 * that it stays as it is and gets slower; adding never fails.
 */
#ifndef SG_HASH_H
#define SG_HASH_H

#include "sg_os.h"

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
/* node->key is set. */
void sg_hash_add(struct sg_hash *hash, struct sg_hash_node *node);
void sg_hash_del(struct sg_hash *hash, struct sg_hash_node *node);
struct sg_hash_node *sg_hash_find(const struct sg_hash *hash, u64 key);

#endif
