// SPDX-License-Identifier: MIT
/*
 * share.c - what an IPC key opens.
 *
 * A share belongs to one allocation and is freed with it: from then on its key opens
 * nothing, even if another allocation gets that address.  The id names the share; the 128
 * random bits prove the right to it.
 */
#include "memory.h"

struct sg_share *sg_share_new(void)
{
	struct sg_share *share = sg_zalloc(sizeof(*share));

	if (share) {
		sg_key_make(share->key);
		sg_list_init(&share->imports);
	}
	return share;
}

const struct sg_share *sg_share_locked(struct sg_buf *buf, struct sg_share **fresh)
{
	struct sg *sg = buf->proc->sg;

	if (!buf->share) {
		buf->share = *fresh;
		*fresh = NULL;
		buf->share->buf = buf;
		buf->share->node.key = sg->next_share_id++;
		sg_tree_insert(&sg->shares, &buf->share->node);
	}
	return buf->share;
}

struct sg_share *sg_share_by_key_locked(struct sg *sg, u64 id, const u64 key[2])
{
	struct sg_share *share = SG_NODE_OF(sg_tree_find(&sg->shares, id), struct sg_share);

	if (!share || !sg_key_opens(share->key, key))
		return NULL;
	return share;
}

void sg_share_end_locked(struct sg_buf *buf)
{
	struct sg_share *share = buf->share;

	sg_list_del(&buf->in_share);
	if (!share)
		return;
	sg_tree_erase(&buf->proc->sg->shares, &share->node);
	while (!sg_list_empty(&share->imports))
		sg_list_del(share->imports.next);
	sg_free(share);
	buf->share = NULL;
}
