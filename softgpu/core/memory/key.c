// SPDX-License-Identifier: MIT
/*
 * key.c - the key that opens memory in other processes: the basis of
 * cuMemExportToShareableHandle and its counterpart.
 *
 * A key belongs to its memory, and opens it as long as a handle, mapping or pin of it exists
 * anywhere.  The id names the memory; the 128 random bits prove the right to it.
 */
#include "memory.h"

struct sg_mem_key *sg_mem_key_new(void)
{
	struct sg_mem_key *key = sg_zalloc(sizeof(*key));

	if (key)
		sg_key_make(key->key);
	return key;
}

const struct sg_mem_key *sg_mem_key_locked(struct sg_mem *mem, struct sg_mem_key **fresh)
{
	struct sg *sg = mem->gpu->sg;

	if (!mem->key) {
		mem->key = *fresh;
		*fresh = NULL;
		mem->key->mem = mem;
		mem->key->node.key = sg->next_share_id++;
		sg_tree_insert(&sg->mem_keys, &mem->key->node);
	}
	return mem->key;
}

struct sg_mem *sg_mem_by_key_locked(struct sg *sg, u64 id, const u64 key[2])
{
	struct sg_mem_key *found = SG_NODE_OF(sg_tree_find(&sg->mem_keys, id), struct sg_mem_key);

	return found && sg_key_opens(found->key, key) ? found->mem : NULL;
}

void sg_mem_key_end_locked(struct sg_mem *mem)
{
	if (!mem->key)
		return;
	sg_tree_erase(&mem->gpu->sg->mem_keys, &mem->key->node);
	sg_free(mem->key);
	mem->key = NULL;
}
