// SPDX-License-Identifier: MIT
/*
 * vmm.c - a process's window of device addresses, reservations in it, and CUDA's virtual
 * memory management.
 */
#include "clients.h"

#define VA_LIMIT	((u64)1 << 56)	/* larger than any address of a supported CPU */

static bool page_multiple(u64 v)
{
	return !(v % SG_PAGE_SIZE);
}

int sg_vmm_window(struct sg_client *client, struct softgpu_window *a)
{
	struct sg_proc *proc = client->proc;
	int err = 0;

	sg_mutex_lock(&client->sg->lock);
	if (!proc->has_window) {
		if (a->flags || a->reserved || !a->base || !a->length ||
		    !page_multiple(a->base | a->length) || a->base >= VA_LIMIT ||
		    a->length > VA_LIMIT - a->base)
			err = -EINVAL;
		else
			err = sg_space_init(&proc->window, a->base, a->length);
		if (!err && a->server) {
			err = sg_server_join_locked(proc, client->user, a->server, a->base,
						    a->length);
			if (err)
				sg_space_fini(&proc->window);
		}
		if (!err) {
			proc->window_base = a->base;
			proc->window_len = a->length;
			proc->has_window = true;
		}
	}
	if (!err) {
		a->base = proc->window_base;
		a->length = proc->window_len;
		a->server = proc->server ? proc->server->number : 0;
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

int sg_vmm_reserve(struct sg_client *client, struct softgpu_va_reserve *a)
{
	struct sg_proc *proc = client->proc;
	struct sg_reservation *r;
	u64 align = a->align ? a->align : SG_PAGE_SIZE;
	int err = -ENOSPC;

	if (a->flags || !a->length || !page_multiple(a->length | align) || align & (align - 1))
		return -EINVAL;
	r = sg_zalloc(sizeof(*r));
	if (!r)
		return -ENOMEM;
	sg_mutex_lock(&client->sg->lock);
	if (!proc->has_window) {
		err = -EINVAL;
		goto out;
	}
	if (a->hint && !(a->hint & (align - 1)))
		err = sg_space_take_at(&proc->window, a->hint, a->length, &r->window);
	/* Without memory at the hint the call is repeated, and does not get other addresses. */
	if (err && err != -ENOMEM)
		err = sg_space_take(&proc->window, a->length, align, &r->window);
	if (err)
		goto out;
	r->node.key = r->window->node.key;
	r->node.len = a->length;
	sg_tree_insert(&proc->reservations, &r->node);
	proc->sg->objects++;
	sg_list_add_tail(&client->reservations, &r->in_client);
	a->va = r->node.key;
	r = NULL;
out:
	sg_mutex_unlock(&client->sg->lock);
	sg_free(r);
	return err;
}

/*
 * Removes a reservation from the look-up, so that nothing new is mapped in it and only this
 * thread releases it.
 */
static void reservation_hide_locked(struct sg_proc *proc, struct sg_reservation *r)
{
	sg_tree_erase(&proc->reservations, &r->node);
	proc->sg->objects--;
	sg_list_del(&r->in_client);
}

static void reservation_free_locked(struct sg_proc *proc, struct sg_reservation *r)
{
	sg_space_give(&proc->window, r->window);
	sg_free(r);
}

/* The first buf that touches [va, va + len). */
static struct sg_buf *first_buf(struct sg_proc *proc, u64 va, u64 len)
{
	struct sg_node *n = sg_covering(&proc->bufs, va);

	if (!n) {
		n = sg_tree_ceil(&proc->bufs, va);
		if (n && n->key - va >= len)
			n = NULL;
	}
	return SG_NODE_OF(n, struct sg_buf);
}

void sg_reservation_destroy_locked(struct sg_proc *proc, struct sg_reservation *r)
{
	struct sg_buf *buf;

	/* Hide it first, since the lock is dropped in between. */
	reservation_hide_locked(proc, r);
	while ((buf = first_buf(proc, r->node.key, r->node.len)))
		sg_buf_release_locked(buf);
	reservation_free_locked(proc, r);
}

int sg_vmm_release(struct sg_client *client, u64 va)
{
	struct sg_proc *proc = client->proc;
	struct sg_reservation *r;
	int err = -ENOENT;

	sg_mutex_lock(&client->sg->lock);
	r = SG_NODE_OF(sg_tree_find(&proc->reservations, va), struct sg_reservation);
	if (r) {
		err = -EBUSY;
		if (!sg_overlaps(&proc->bufs, r->node.key, r->node.len) &&
		    !sg_overlaps(&proc->ranges, r->node.key, r->node.len)) {
			reservation_hide_locked(proc, r);
			reservation_free_locked(proc, r);
			err = 0;
		}
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

/* Checks where a mapping is to be made. */
static int map_place_locked(struct sg_proc *proc, const struct softgpu_map *a,
			    const struct sg_phys *phys)
{
	struct sg_node *r = sg_covering(&proc->reservations, a->va);

	if (a->offset || a->length != phys->mem->size || !page_multiple(a->va))
		return -EINVAL;
	if (!r || a->length > r->len - (a->va - r->key))
		return -ENOENT;
	if (sg_overlaps(&proc->bufs, a->va, a->length) ||
	    sg_overlaps(&proc->ranges, a->va, a->length))
		return -EEXIST;
	return 0;
}

int sg_vmm_map(struct sg_client *client, struct softgpu_map *a)
{
	struct sg_proc *proc = client->proc;
	struct sg_range *range = NULL;
	struct sg_ctx *ctx = NULL;
	struct sg_phys *phys;
	struct sg_buf *buf;
	struct sg_obj *obj;
	int err;

	if (a->flags || !a->length || a->va + a->length < a->va)
		return -EINVAL;
	buf = sg_buf_new(proc, NULL, SOFTGPU_KIND_VMM);
	if (!buf)
		return -ENOMEM;
	sg_mutex_lock(&client->sg->lock);
	err = -ENOENT;
	obj = sg_obj_get_locked(&proc->handles, a->handle, SG_OBJ_PHYS);
	if (!obj)
		goto out;
	phys = container_of(obj, struct sg_phys, obj);
	if (a->ctx) {
		ctx = sg_ctx_of(sg_obj_get_locked(&proc->handles, a->ctx, SG_OBJ_CTX));
		if (!ctx)
			goto put;
	}
	err = phys->mem->gpu->removed ? -ENODEV : map_place_locked(proc, a, phys);
	if (err)
		goto put;
	err = -ENOMEM;
	range = sg_range_new(proc, ctx ? &ctx->heap : NULL, phys->mem);
	if (!range)
		goto put;
	sg_mem_get_locked(phys->mem);
	sg_range_publish_locked(range, a->va);
	buf->heap = ctx ? &ctx->heap : NULL;
	buf->range = range;
	buf->phys = &phys->obj;
	range->access = 0;	/* until SOFTGPU_ACCESS allows some */
	/* Memory of a context for system memory is VRAM here, which the BAR may not show. */
	range->visible = ctx && ctx->heap.visible && !ctx->heap.system;
	sg_buf_publish_locked(buf, a->va, a->length, ctx ? &ctx->heap.bufs : &client->bufs);
	a->buffer_id = buf->buffer_id;
	buf = NULL;
	obj = NULL;	/* the buf keeps the reference */
	err = 0;
put:
	if (obj)
		sg_obj_put_locked(obj);
	if (ctx)
		sg_obj_put_locked(&ctx->obj);
out:
	sg_mutex_unlock(&client->sg->lock);
	sg_free(buf);
	return err;
}

/* Returns whether [va, va + len) consists of whole mappings without holes. */
static bool whole_mappings(struct sg_proc *proc, u64 va, u64 len)
{
	while (len) {
		struct sg_buf *buf = SG_NODE_OF(sg_tree_find(&proc->bufs, va), struct sg_buf);

		if (!buf || buf->kind != SOFTGPU_KIND_VMM || buf->node.len > len)
			return false;
		va += buf->node.len;
		len -= buf->node.len;
	}
	return true;
}

int sg_vmm_unmap(struct sg_client *client, u64 va, u64 len)
{
	struct sg_proc *proc = client->proc;
	u64 end = va + len, later;
	struct sg_buf *buf;
	int err = -EINVAL;

	if (!len || end < va)
		return -EINVAL;
	sg_mutex_lock(&client->sg->lock);
	if (whole_mappings(proc, va, len)) {
		/*
		 * The lock is dropped in between, so another thread may map memory where this
		 * call has unmapped some. Such a mapping has a later id, and stays.
		 */
		later = client->sg->next_buffer_id;
		while (va < end && (buf = first_buf(proc, va, end - va))) {
			va = buf->node.key + buf->node.len;
			if (buf->buffer_id < later)
				sg_buf_release_locked(buf);
		}
		err = 0;
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

/* Drops the lock.  The CPU no longer sees those mappings in [va, end) that allow no access. */
static void hide_forbidden_locked(struct sg_proc *proc, u64 va, u64 end)
{
	struct sg_buf *buf;

	while (va < end && (buf = first_buf(proc, va, end - va))) {
		const struct sg_range *range = buf->range;

		va = buf->node.key + buf->node.len;
		if (range && range->visible && !range->access)
			sg_range_hide_locked(range);
	}
}

int sg_vmm_access(struct sg_client *client, u64 va, u64 len, u32 access)
{
	struct sg_proc *proc = client->proc;
	u64 begin = va, end = va + len;
	int err = -EINVAL;

	if (!len || end < va || (access != 0 && access != 1 && access != 3))
		return -EINVAL;
	sg_mutex_lock(&client->sg->lock);
	if (whole_mappings(proc, va, len)) {
		while (va < end) {
			struct sg_buf *buf = SG_NODE_OF(sg_tree_find(&proc->bufs, va),
							struct sg_buf);

			buf->range->access = access;
			va += buf->node.len;
		}
		if (!access)
			hide_forbidden_locked(proc, begin, end);
		err = 0;
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}
