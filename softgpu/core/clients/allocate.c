// SPDX-License-Identifier: MIT
/* allocate.c - the calls that allocate, register and free memory. */
#include "clients.h"

#define SYSTEM_MAX	((u64)1 << 48)		/* larger than any system memory */

int sg_heap_get_locked(struct sg_client *client, u32 handle, struct sg_heap **out)
{
	struct sg_ctx *ctx;
	int err;

	*out = &client->heap;
	if (!handle)
		return client->gpu->removed ? -ENODEV : 0;
	err = sg_ctx_live_locked(client, handle, &ctx);
	if (!err)
		*out = &ctx->heap;
	return err;
}

void sg_heap_put_locked(struct sg_heap *heap)
{
	if (heap->obj)
		sg_obj_put_locked(heap->obj);
}

/*
 * Drops the lock.  VRAM is full.  Waits until a stream has freed memory that belongs to no context,
 * and releases that memory.  0: try again; -ENOSPC: no such free is queued; -EINTR.
 */
static int wait_for_room_locked(struct sg_proc *proc)
{
	struct sg *sg = proc->sg;
	struct sg_ctx *ctx;

	if (sg_list_empty(&proc->freed)) {
		if (!proc->contextless_frees)
			return -ENOSPC;
		if (proc->held) {
			sg_list_for_each(ctx, &sg->ctxs, struct sg_ctx, in_sg) {
				if (ctx->proc == proc)
					sg_strict_release_ctx_locked(ctx);
			}
		}
		if (sg_cond_wait_killable(&sg->ended, &sg->lock))
			return -EINTR;
	}
	sg_async_frees_release_locked(proc);
	return 0;
}

int sg_buf_alloc(struct sg_client *client, struct softgpu_mem_alloc *a)
{
	u64 len = a->length, va = 0;
	struct sg *sg = client->sg;
	struct sg_heap *heap;
	struct sg_buf *buf;
	int err;

	if (!len || a->flags & ~(u32)SOFTGPU_ALLOC_WAIT || a->reserved)
		return -EINVAL;
	buf = sg_buf_new(client->proc, NULL, SOFTGPU_KIND_DEVICE);
	if (!buf)
		return -ENOMEM;
	sg_mutex_lock(&sg->lock);
	err = sg_heap_get_locked(client, a->ctx, &heap);
	/* After this check no sum with len overflows. */
	if (len > (!err && heap->system ? SYSTEM_MAX : client->gpu->desc.vram_size)) {
		if (!err)
			sg_heap_put_locked(heap);
		err = -ENOSPC;
	}
	if (err)
		goto out;
	buf->heap = heap;
	if (heap->visible)
		buf->kind = SOFTGPU_KIND_VISIBLE;
	for (;;) {
		err = sg_buf_place_locked(buf, len, &va);
		if (err != -ENOSPC || !(a->flags & SOFTGPU_ALLOC_WAIT))
			break;
		err = wait_for_room_locked(client->proc);
		if (err)
			break;
	}
	if (!err) {
		sg_buf_publish_locked(buf, va, len, &heap->bufs);
		a->va = va;
		a->buffer_id = buf->buffer_id;
		buf = NULL;
	}
	sg_heap_put_locked(heap);
out:
	sg_mutex_unlock(&sg->lock);
	sg_free(buf);
	return err;
}

int sg_buf_free(struct sg_client *client, u64 va, u32 kinds)
{
	struct sg_buf *buf;
	int err;

	sg_mutex_lock(&client->sg->lock);
	err = sg_buf_drain_locked(client, va, kinds, &buf);
	if (!err)
		sg_buf_release_locked(buf);
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

/*
 * Checks the place of host memory: allocated memory must lie in a reservation of the window,
 * and registered memory wholly outside the window.
 */
static int host_place_locked(struct sg_proc *proc, const struct softgpu_host_register *a)
{
	struct sg_node *r = sg_covering(&proc->reservations, a->va);

	if (a->kind == SOFTGPU_KIND_REGISTERED) {
		if (proc->has_window && a->va < proc->window_base + proc->window_len &&
		    a->va + a->length > proc->window_base)
			return -EINVAL;
	} else if (!r || a->length > r->len - (a->va - r->key)) {
		return -ENOENT;
	}
	return sg_overlaps(&proc->bufs, a->va, a->length) ? -EEXIST : 0;
}

int sg_buf_register(struct sg_client *client, struct softgpu_host_register *a)
{
	struct sg *sg = client->sg;
	struct sg_ctx *ctx;
	struct sg_buf *buf;
	int err;

	if (!a->length || a->va + a->length < a->va || !a->va ||
	    (a->kind != SOFTGPU_KIND_HOST && a->kind != SOFTGPU_KIND_MANAGED &&
	     a->kind != SOFTGPU_KIND_REGISTERED))
		return -EINVAL;
	buf = sg_buf_new(client->proc, NULL, a->kind);
	if (!buf)
		return -ENOMEM;
	buf->host_flags = a->host_flags;
	sg_mutex_lock(&sg->lock);
	err = sg_ctx_live_locked(client, a->ctx, &ctx);
	if (err)
		goto out;
	err = host_place_locked(client->proc, a);
	if (!err && sg->chaos.device_pointers && a->kind != SOFTGPU_KIND_MANAGED)
		err = sg_alias_new_locked(buf, a->va, a->length);
	if (!err) {
		buf->heap = &ctx->heap;
		sg_buf_publish_locked(buf, a->va, a->length, &ctx->heap.bufs);
		a->buffer_id = buf->buffer_id;
		buf = NULL;
	}
	sg_obj_put_locked(&ctx->obj);
out:
	sg_mutex_unlock(&sg->lock);
	sg_free(buf);
	return err;
}

int sg_buf_unregister(struct sg_client *client, u64 va)
{
	return sg_buf_free(client, va, 1u << SOFTGPU_KIND_HOST | 1u << SOFTGPU_KIND_MANAGED |
				       1u << SOFTGPU_KIND_REGISTERED);
}
