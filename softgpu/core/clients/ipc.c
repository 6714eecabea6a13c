// SPDX-License-Identifier: MIT
/*
 * ipc.c - one process's memory in another's address space: the basis of cuIpcGetMemHandle
 * and related calls.
 *
 * A key opens a share (share.c), which belongs to one allocation.  An import is a buf of the
 * importing process, in a range of its own over the same VRAM.  So its pins, access rights and
 * end are independent of the exporter; it holds a reference only to the VRAM.
 *
 * A key for memory that the CPU sees can be opened only in a context for such memory, and
 * one for system memory only in a context for that; then the CPU sees the import, too.  So
 * the library of one vendor cannot open what the other's exports.
 *
 * The share of a small allocation maps its whole slab, as pins do, and as CUDA's IPC
 * exposes a small allocation's neighbours.  With desc.blocks a context maps a slab once,
 * for all allocations that it opens in it.  If the exporter frees one and allocates another
 * at the same address, the new one is open already if it has the same length; with another
 * length it cannot be opened (-EADDRINUSE).
 */
#include "clients.h"

int sg_ipc_export(struct sg_client *client, struct softgpu_ipc_export *a)
{
	u32 kind = a->flags ? SOFTGPU_KIND_VISIBLE : SOFTGPU_KIND_DEVICE;
	const struct sg_share *share;
	struct sg_share *fresh;
	struct sg_buf *buf;
	int err = -ENOENT;

	if (a->flags & ~(u32)SOFTGPU_IPC_VISIBLE)
		return -EINVAL;
	fresh = sg_share_new();
	if (!fresh)
		return -ENOMEM;
	sg_mutex_lock(&client->sg->lock);
	buf = sg_buf_known_at(client->proc, a->va);
	if (buf && buf->kind == kind) {
		share = sg_share_locked(buf, &fresh);
		a->id = share->node.key;
		a->key[0] = share->key[0];
		a->key[1] = share->key[1];
		err = 0;
	}
	sg_mutex_unlock(&client->sg->lock);
	sg_free(fresh);
	return err;
}

/* Returns the import of this share that a process already has in contexts of this GPU, or NULL. */
static struct sg_buf *import_of_locked(struct sg_share *share, const struct sg_proc *proc,
				       const struct sg_gpu *gpu)
{
	struct sg_buf *buf;

	sg_list_for_each(buf, &share->imports, struct sg_buf, in_share) {
		if (buf->proc == proc && buf->heap->gpu == gpu)
			return buf;
	}
	return NULL;
}

/*
 * Returns the range in which this heap's context has mapped the memory already, to open
 * another allocation there; or NULL.
 */
static struct sg_range *import_range_locked(struct sg_heap *heap, const struct sg_mem *mem)
{
	struct sg_buf *buf;

	sg_list_for_each(buf, &heap->bufs, struct sg_buf, in_owner) {
		if (buf->kind == SOFTGPU_KIND_IPC && buf->range->mem == mem)
			return buf->range;
	}
	return NULL;
}

/* Opens one more allocation of a slab that is open already. */
static int import_more_locked(struct sg_proc *proc, struct sg_heap *heap, struct sg_share *share,
			      struct sg_range *range, struct sg_buf **out)
{
	const struct sg_node *from = &share->buf->node;
	u64 va = range->node.key + (from->key - share->buf->range->node.key);
	struct sg_buf *buf = SG_NODE_OF(sg_tree_find(&proc->bufs, va), struct sg_buf);

	if (buf && buf->node.len == from->len) {
		/*
		 * The earlier allocation's share is gone, or import_of_locked() would have
		 * found the buf.
		 */
		buf->opens++;
	} else if (sg_overlaps(&proc->bufs, va, from->len)) {
		return -EADDRINUSE;
	} else {
		buf = sg_buf_new(proc, heap, SOFTGPU_KIND_IPC);
		if (!buf)
			return -ENOMEM;
		buf->range = range;
		buf->opens = 1;
		sg_buf_publish_locked(buf, va, from->len, &heap->bufs);
	}
	sg_list_add_tail(&share->imports, &buf->in_share);
	*out = buf;
	return 0;
}

/* Maps the exporter's range once more, for the importer. */
static int import_locked(struct sg_proc *proc, struct sg_heap *heap, struct sg_share *share,
			 struct sg_buf **out)
{
	struct sg_range *from = share->buf->range, *range;
	struct sg_buf *buf;
	int err = -ENOMEM;

	range = from->mem->gpu->desc.blocks ? import_range_locked(heap, from->mem) : NULL;
	if (range)
		return import_more_locked(proc, heap, share, range, out);
	buf = sg_buf_new(proc, heap, heap->visible ? SOFTGPU_KIND_VISIBLE_IPC : SOFTGPU_KIND_IPC);
	range = sg_range_new(proc, heap, from->mem);
	if (!buf || !range)
		goto fail;
	err = sg_range_place_locked(range);
	if (err)
		goto fail;
	sg_mem_get_locked(from->mem);
	from->mem->imports++;
	range->imported = true;
	range->visible = heap->visible;
	buf->range = range;
	buf->opens = 1;
	sg_buf_publish_locked(buf, range->node.key + (share->buf->node.key - from->node.key),
			      share->buf->node.len, &heap->bufs);
	sg_list_add_tail(&share->imports, &buf->in_share);
	*out = buf;
	return 0;
fail:
	sg_free(range);
	sg_free(buf);
	return err;
}

int sg_ipc_open(struct sg_client *client, struct softgpu_ipc_open *a)
{
	struct sg *sg = client->sg;
	struct sg_share *share;
	struct sg_heap *heap;
	struct sg_buf *buf;
	int err;

	sg_mutex_lock(&sg->lock);
	err = sg_heap_get_locked(client, a->ctx, &heap);
	if (err)
		goto out;
	err = -ENOKEY;
	share = sg_share_by_key_locked(sg, a->id, a->key);
	if (!share || share->buf->heap->visible != heap->visible ||
	    share->buf->heap->system != heap->system)
		goto put;
	err = -EEXIST;
	if (share->buf->proc == client->proc)
		goto put;
	buf = import_of_locked(share, client->proc, heap->gpu);
	if (buf) {
		err = buf->heap == heap ? 0 : -EBUSY;
		buf->opens += !err;
	} else {
		err = -ENODEV;
		if (!share->buf->range->mem->gpu->removed)
			err = import_locked(client->proc, heap, share, &buf);
	}
	if (!err)
		a->va = buf->node.key;
put:
	sg_heap_put_locked(heap);
out:
	sg_mutex_unlock(&sg->lock);
	return err;
}

int sg_ipc_close(struct sg_client *client, u64 va, u32 kinds)
{
	struct sg_buf *buf;
	int err;

	sg_mutex_lock(&client->sg->lock);
	err = sg_buf_drain_locked(client, va, kinds, &buf);
	if (!err && !--buf->opens)
		sg_buf_release_locked(buf);
	sg_mutex_unlock(&client->sg->lock);
	return err;
}
