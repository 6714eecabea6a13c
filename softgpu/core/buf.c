// SPDX-License-Identifier: MIT
/*
 * buf.c - allocations (bufs) and the mapped ranges of VRAM behind them (ranges).
 *
 * A buf is an allocation as the program sees it.  A range is a mapping of whole 64 KiB
 * pages, which pins refer to.  Most bufs have a range of their own.  Small ones share a
 * slab, a range of one page divided into slots.  If a small buf is freed while its slab is
 * pinned or open in another process, its slots go to limbo: a device or that process may
 * still write to them, so they are reused only after the last pin and the last import are
 * gone.
 *
 * With desc.blocks a slab has 2 MiB, and all shorter bufs share one.  As with NVIDIA's
 * driver an import then keeps nothing in limbo: a process that has the slab open can access
 * what is allocated there next.
 */
#include "sg_int.h"

#define SYSTEM_MAX	((u64)1 << 48)		/* larger than any system memory */

struct sg_buf *sg_buf_new(struct sg_proc *proc, struct sg_ctx *ctx, u32 kind)
{
	struct sg_buf *buf = sg_zalloc(sizeof(*buf));

	if (buf) {
		buf->proc = proc;
		buf->ctx = ctx;
		buf->kind = kind;
		sg_list_init(&buf->in_owner);
		sg_list_init(&buf->in_share);
		sg_list_init(&buf->in_ended);
	}
	return buf;
}

void sg_buf_publish_locked(struct sg_buf *buf, u64 va, u64 len, struct sg_link *owner)
{
	buf->buffer_id = buf->proc->sg->next_buffer_id++;
	buf->node.key = va;
	buf->node.len = len;
	sg_tree_insert(&buf->proc->bufs, &buf->node);
	buf->proc->sg->objects++;
	sg_list_add_tail(owner, &buf->in_owner);
	if (buf->range)
		buf->range->bufs++;
}

struct sg_range *sg_range_new(struct sg_proc *proc, struct sg_ctx *ctx, struct sg_mem *mem)
{
	struct sg_range *range = sg_zalloc(sizeof(*range));

	if (range) {
		range->proc = proc;
		/* A pin may outlive the file, and no_ctx with it. */
		range->ctx = ctx && ctx == ctx->client->no_ctx ? NULL : ctx;
		range->mem = mem;
		range->tree = &proc->ranges;
		range->access = SG_READ | SG_WRITE;
		sg_list_init(&range->pins);
		sg_list_init(&range->kept);
		sg_list_init(&range->in_slabs);
	}
	return range;
}

void sg_range_publish_locked(struct sg_range *range, u64 va)
{
	range->node.key = va;
	range->node.len = range->mem->size;
	sg_tree_insert(range->tree, &range->node);
	/* Pins name it until they have ended, which may be after the context has. */
	if (range->ctx)
		range->ctx->obj.refs++;
}

void sg_range_hide_locked(const struct sg_range *range)
{
	const struct sg_gpu_desc *desc = &range->mem->gpu->desc;
	struct sg *sg = range->proc->sg;

	sg_mutex_unlock(&sg->lock);
	desc->hide(desc->priv, range->proc->key, range->node.key, range->node.len);
	sg_mutex_lock(&sg->lock);
}

void sg_range_end_locked(struct sg_range *range)
{
	struct sg_proc *proc = range->proc;
	struct sg_ctx *ctx = range->ctx;
	struct sg *sg = proc->sg;

	sg_tree_erase(range->tree, &range->node);
	sg_list_del(&range->in_slabs);
	proc->refs++;
	sg_pins_revoke_locked(range);
	if (range->visible)
		sg_range_hide_locked(range);
	if (range->window)
		sg_space_give(&proc->window, range->window);
	if (range->imported)
		range->mem->imports--;
	sg_mem_put_locked(range->mem);
	sg_free(range->slots);
	sg_free(range);
	if (ctx)
		sg_obj_put_locked(&ctx->obj);
	sg_proc_put_locked(proc);
	sg_cond_broadcast(&sg->ended);
}

static void slots_set(struct sg_range *slab, u32 first, u32 count, enum sg_slot state)
{
	u32 i;

	for (i = first; i < first + count; i++)
		slab->slots[i] = state;
	slab->unused += state == SG_SLOT_USED ? -count : count;
	slab->limbo += state == SG_SLOT_LIMBO ? count : 0;
}

/* The unit in which a context gets memory for its bufs, shared or not. */
static u64 unit_of(const struct sg_ctx *ctx)
{
	return ctx->gpu->desc.blocks && !ctx->visible ? SG_BLOCK_SIZE : SG_PAGE_SIZE;
}

static u32 slots_of(const struct sg_range *slab)
{
	return (u32)(slab->mem->size / SG_SLOT_SIZE);
}

static u32 slots_for(u64 len)
{
	return (u32)((len + SG_SLOT_SIZE - 1) / SG_SLOT_SIZE);
}

/* May a device or another process still write to slots freed in this slab? */
static bool in_use_elsewhere(const struct sg_range *slab)
{
	return !sg_list_empty(&slab->pins) || !sg_list_empty(&slab->kept) || slab->mem->keeps ||
	       (slab->mem->imports && !slab->mem->gpu->desc.blocks);
}

void sg_range_unpinned_locked(struct sg_range *range)
{
	u32 i;

	if (!range->limbo || in_use_elsewhere(range))
		return;
	for (i = 0; i < slots_of(range); i++) {
		if (range->slots[i] == SG_SLOT_LIMBO)
			range->slots[i] = SG_SLOT_FREE;
	}
	range->limbo = 0;
}

void sg_buf_release_locked(struct sg_buf *buf)
{
	struct sg_range *range = buf->range;
	struct sg_range *copy = SG_NODE_OF(sg_tree_find(&buf->proc->copies, buf->node.key), struct sg_range);
	struct sg_phys *phys = buf->phys;

	sg_tree_erase(&buf->proc->bufs, &buf->node);
	buf->proc->sg->objects--;
	sg_list_del(&buf->in_owner);
	sg_list_del(&buf->in_ended);
	sg_ipc_forget_locked(buf);
	sg_alias_end_locked(buf);
	if (range && range->slots)
		slots_set(range, (u32)((buf->node.key - range->node.key) / SG_SLOT_SIZE),
			  slots_for(buf->node.len),
			  in_use_elsewhere(range) ? SG_SLOT_LIMBO : SG_SLOT_FREE);
	sg_free(buf);
	if (phys)
		sg_obj_put_locked(&phys->obj);
	if (range && !--range->bufs)
		sg_range_end_locked(range);
	if (copy)
		sg_range_end_locked(copy);
}

/* First fit among a slab's slots; returns the number of slots if there is no room. */
static u32 slots_find(const struct sg_range *slab, u32 count)
{
	u32 i, run = 0;

	for (i = 0; i < slots_of(slab); i++) {
		run = slab->slots[i] == SG_SLOT_FREE ? run + 1 : 0;
		if (run == count)
			return i + 1 - count;
	}
	return slots_of(slab);
}

/* Places a small buf in one of its context's slabs; false: none has room. */
static bool place_small_locked(struct sg_ctx *ctx, struct sg_buf *buf, u64 len, u64 *va)
{
	struct sg_range *slab;
	u32 count = slots_for(len), at;

	sg_list_for_each(slab, &ctx->slabs, struct sg_range, in_slabs) {
		/* The end of the last import or keep does not update the slots, so do it here. */
		sg_range_unpinned_locked(slab);
		if (slab->unused < count)
			continue;
		at = slots_find(slab, count);
		if (at == slots_of(slab))
			continue;
		slots_set(slab, at, count, SG_SLOT_USED);
		buf->range = slab;
		*va = slab->node.key + (u64)at * SG_SLOT_SIZE;
		return true;
	}
	return false;
}

int sg_range_place_locked(struct sg_range *range)
{
	struct sg_proc *proc = range->proc;
	u64 align = SG_PAGE_SIZE;
	int err;

	if (!proc->has_window)
		return -EINVAL;
	/* Blocks are aligned to their size, in every process. */
	if (range->mem->gpu->desc.blocks && !(range->mem->size % SG_BLOCK_SIZE))
		align = SG_BLOCK_SIZE;
	err = sg_space_take(&proc->window, range->mem->size, align, &range->window);
	if (!err)
		sg_range_publish_locked(range, range->window->node.key);
	return err;
}

int sg_ctx_for_memory_locked(struct sg_client *client, u32 handle, struct sg_ctx **out)
{
	if (handle)
		return sg_ctx_live_locked(client, handle, out);
	*out = NULL;
	if (client->gpu->removed)
		return -ENODEV;
	*out = client->no_ctx;
	(*out)->obj.refs++;
	return 0;
}

/* The CPU maps visible memory by the page, so such allocations share no page. */
static bool is_small(const struct sg_ctx *ctx, u64 len)
{
	return !ctx->visible && (ctx->gpu->desc.blocks ? len < SG_BLOCK_SIZE : len <= SG_SMALL_MAX);
}

/* Allocates zeroed memory for a context. */
static int create_mem(const struct sg_ctx *ctx, u64 size, struct sg_mem **out)
{
	int err;

	if (!ctx->system)
		return sg_mem_create(ctx->gpu, size, out);
	err = sg_mem_create_system(ctx->gpu, size, out);
	if (!err)
		memset((*out)->system, 0, size);
	return err;
}

/*
 * Gives a buf new pages: its own range, or a new slab of which it gets the first slots.
 * Returns with the lock held.
 */
static int alloc_pages(struct sg_client *client, struct sg_ctx *ctx, struct sg_buf *buf, u64 len,
		       u64 *va)
{
	struct sg *sg = client->sg;
	u64 unit = unit_of(ctx);
	struct sg_range *range;
	struct sg_mem *mem;
	u8 *slots = NULL;
	int err;

	err = create_mem(ctx, (len + unit - 1) & ~(unit - 1), &mem);
	if (err) {
		sg_mutex_lock(&sg->lock);
		return err;
	}
	range = sg_range_new(client->proc, ctx, mem);
	if (is_small(ctx, len))
		slots = sg_zalloc(unit / SG_SLOT_SIZE);
	sg_mutex_lock(&sg->lock);
	err = -ENOMEM;
	if (!range || (is_small(ctx, len) && !slots))
		goto fail;
	range->visible = ctx->visible;
	/* The context may have been destroyed meanwhile, or the GPU removed: what it had was freed. */
	err = ctx->obj.gone ? -ENOENT : ctx->gpu->removed ? -ENODEV : sg_range_place_locked(range);
	if (err)
		goto fail;
	range->slots = slots;
	if (slots) {
		range->unused = slots_of(range);
		slots_set(range, 0, slots_for(len), SG_SLOT_USED);
		sg_list_add_tail(&ctx->slabs, &range->in_slabs);
	}
	buf->range = range;
	*va = range->node.key;
	return 0;
fail:
	sg_mem_put_locked(mem);
	sg_free(slots);
	sg_free(range);
	return err;
}

/*
 * Drops the lock.  There is no room: waits until a stream has freed memory of no context, and releases it. 0: try again;
 * -ENOSPC: no stream will; -EINTR.
 */
static int room_comes_locked(struct sg_proc *proc)
{
	struct sg *sg = proc->sg;
	struct sg_ctx *ctx;

	if (sg_list_empty(&proc->ended)) {
		if (!proc->hidden_frees)
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
	sg_reap_locked(proc);
	return 0;
}

int sg_buf_alloc(struct sg_client *client, struct softgpu_mem_alloc *a)
{
	u64 len = a->length, va = 0;
	struct sg *sg = client->sg;
	struct sg_ctx *ctx;
	struct sg_buf *buf;
	int err;

	if (!len || a->flags & ~(u32)SOFTGPU_ALLOC_WAIT || a->reserved)
		return -EINVAL;
	buf = sg_buf_new(client->proc, NULL, SOFTGPU_KIND_DEVICE);
	if (!buf)
		return -ENOMEM;
	sg_mutex_lock(&sg->lock);
	err = sg_ctx_for_memory_locked(client, a->ctx, &ctx);
	/* After this check sums with len do not wrap. */
	if (len > (ctx && ctx->system ? SYSTEM_MAX : client->gpu->desc.vram_size)) {
		if (ctx)
			sg_obj_put_locked(&ctx->obj);
		err = -ENOSPC;
	}
	if (err)
		goto out;
	buf->ctx = ctx;
	if (ctx->visible)
		buf->kind = SOFTGPU_KIND_VISIBLE;
	while (!is_small(ctx, len) || !place_small_locked(ctx, buf, len, &va)) {
		sg_mutex_unlock(&sg->lock);
		err = alloc_pages(client, ctx, buf, len, &va);
		if (err != -ENOSPC || !(a->flags & SOFTGPU_ALLOC_WAIT))
			break;
		err = room_comes_locked(client->proc);
		if (err)
			break;
	}
	if (!err) {
		sg_buf_publish_locked(buf, va, len, &ctx->bufs);
		a->va = va;
		a->buffer_id = buf->buffer_id;
		buf = NULL;
	}
	sg_obj_put_locked(&ctx->obj);
out:
	sg_mutex_unlock(&sg->lock);
	sg_free(buf);
	return err;
}

struct sg_buf *sg_buf_same_locked(const struct sg_proc *proc, u64 va, u64 id)
{
	struct sg_buf *buf = SG_NODE_OF(sg_tree_find(&proc->bufs, va), struct sg_buf);

	return buf && buf->buffer_id == id ? buf : NULL;
}

int sg_buf_free(struct sg_client *client, u64 va, u32 kinds)
{
	struct sg_buf *buf;
	int err;

	sg_mutex_lock(&client->sg->lock);
	err = sg_buf_settled_locked(client, va, kinds, &buf);
	if (!err)
		sg_buf_release_locked(buf);
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

/*
 * Host memory must lie in a reservation of the window; registered memory wholly outside the
 * window.
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
		buf->ctx = ctx;
		sg_buf_publish_locked(buf, a->va, a->length, &ctx->bufs);
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
