// SPDX-License-Identifier: MIT
/* hash.c - see hash.h. */
#include "hash.h"

#define BITS_MIN	6u
#define BITS_MAX	28u

static struct sg_hash_node **head_of(const struct sg_hash *hash, u64 key)
{
	/* The upper bits of a product with the golden ratio depend on all bits of the key. */
	return &hash->heads[(key * 0x9e3779b97f4a7c15ULL) >> (64 - hash->bits)];
}

int sg_hash_init(struct sg_hash *hash)
{
	hash->heads = sg_zalloc(sizeof(*hash->heads) << BITS_MIN);
	hash->bits = BITS_MIN;
	hash->count = 0;
	return hash->heads ? 0 : -ENOMEM;
}

void sg_hash_fini(struct sg_hash *hash)
{
	SG_WARN_ON(hash->count);
	sg_free(hash->heads);
	hash->heads = NULL;
}

static void add(struct sg_hash *hash, struct sg_hash_node *node)
{
	struct sg_hash_node **head = head_of(hash, node->key);

	node->next = *head;
	*head = node;
}

static void grow(struct sg_hash *hash)
{
	struct sg_hash_node **heads;
	struct sg_hash old = *hash;
	u32 i;

	heads = sg_zalloc(sizeof(*heads) << (old.bits + 1));
	if (!heads)
		return;
	hash->heads = heads;
	hash->bits++;
	for (i = 0; i < 1u << old.bits; i++) {
		struct sg_hash_node *node = old.heads[i], *next;

		for (; node; node = next) {
			next = node->next;
			add(hash, node);
		}
	}
	sg_free(old.heads);
}

void sg_hash_add(struct sg_hash *hash, struct sg_hash_node *node)
{
	if (hash->count >> hash->bits && hash->bits < BITS_MAX)
		grow(hash);
	add(hash, node);
	hash->count++;
}

void sg_hash_del(struct sg_hash *hash, struct sg_hash_node *node)
{
	struct sg_hash_node **link = head_of(hash, node->key);

	while (*link != node)
		link = &(*link)->next;
	*link = node->next;
	hash->count--;
}

struct sg_hash_node *sg_hash_find(const struct sg_hash *hash, u64 key)
{
	struct sg_hash_node *node = *head_of(hash, key);

	while (node && node->key != key)
		node = node->next;
	return node;
}
