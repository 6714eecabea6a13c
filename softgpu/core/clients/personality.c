// SPDX-License-Identifier: MIT
/*
 * personality.c - the calls of personalities that name a process, by its key or by tokens: to
 * pin memory, to refer to movable memory, and to find the allocation at an address.
 */
#include "clients.h"

static u32 memory_of(const struct sg_range *range)
{
	return range->visible ? SG_MEMORY_HSA : SG_MEMORY_CUDA;
}

/* May drop the lock.  Returns the range that contains [va, va + length), if `who` may pin it. */
static int resolve_locked(struct sg *sg, const struct sg_pin_who *who, u64 va, u64 length,
			  struct sg_range **out)
{
	struct sg_ctx *ctx = NULL;
	struct sg_proc *proc;
	struct sg_range *range;
	struct sg_buf *buf;
	int err;

	if (who->p2p_token || who->va_space_token) {
		if (!who->va_space_token)
			return -EIO;
		ctx = sg_ctx_by_token_locked(sg, who->p2p_token, who->va_space_token, va);
		if (!ctx)
			return -EINVAL;
		proc = ctx->proc;
	} else {
		proc = sg_proc_by_key_locked(sg, who->proc_key);
		if (!proc)
			return -EINVAL;
	}
	range = sg_range_at(proc, va);
	if (!range && who->managed) {
		buf = sg_buf_at(proc, va);
		if (ctx && (!buf || !sg_ctx_same(sg_ctx_of_heap(buf->heap), ctx)))
			return -EINVAL;
		err = sg_managed_copy_locked(proc, va, &range);
		if (err)
			return err;
		ctx = NULL;	/* was compared above, and may be gone by now */
	}
	if (!range || (ctx && !sg_ctx_same(sg_ctx_of_heap(range->heap), ctx)) ||
	    length > range->node.len - (va - range->node.key))
		return -EINVAL;
	if (who->memory && who->memory != memory_of(range))
		return -EINVAL;
	*out = range;
	return 0;
}

int sg_pin_get(struct sg *sg, struct sg_pin *pin, const struct sg_pin_ops *ops,
	       const struct sg_pin_who *who, u64 va, u64 length, bool persistent)
{
	struct sg_range *range;
	int err;

	if (!length || (va | length) % SG_PAGE_SIZE || va + length < va ||
	    length / SG_PAGE_SIZE > 0xffffffffu)
		return -EINVAL;
	sg_mutex_lock(&sg->lock);
	err = resolve_locked(sg, who, va, length, &range);
	if (!err && range->mem->no_rdma)
		err = -EACCES;
	if (err)
		goto out;
	err = sg_pin_take_locked(pin, ops, range->mem, va - range->node.key, va, length,
				 persistent);
	if (err)
		goto out;
	sg_pin_attach_locked(pin, range);
	if (sg->chaos.strict)
		sg_strict_pinned_locked(range, va, length);
	sg_chaos_pinned_locked(pin->gpu);
out:
	sg_mutex_unlock(&sg->lock);
	return err;
}

/*
 * Returns whether the pinned memory belongs to the process of `who` or, if `who` has a token,
 * to the context with that token.
 */
static bool is_of_locked(const struct sg_pin *pin, const struct sg_pin_who *who)
{
	const struct sg_range *range = pin->range;
	const struct sg_ctx *ctx;
	bool is = false;

	if (!range)
		return false;
	if (!who->p2p_token)
		return range->proc->key == who->proc_key;
	/* Looks at all contexts, so that the time taken reveals nothing about tokens. */
	sg_list_for_each(ctx, &pin->sg->ctxs, struct sg_ctx, in_sg)
		is |= !(ctx->p2p_token ^ who->p2p_token) &&
		      sg_ctx_same(sg_ctx_of_heap(range->heap), ctx);
	return is;
}

bool sg_pin_is_of(const struct sg_pin *pin, const struct sg_pin_who *who)
{
	bool is;

	sg_mutex_lock(&pin->sg->lock);
	is = is_of_locked(pin, who);
	sg_mutex_unlock(&pin->sg->lock);
	return is;
}

int sg_pin_put_by(struct sg *sg, const void *key, const struct sg_pin_claim *claim)
{
	const struct sg_pin *live;
	int err;

	sg_mutex_lock(&sg->lock);
	live = sg_pin_live_at_locked(sg, key, claim->serial);
	if (claim->who && live && !live->persistent && !is_of_locked(live, claim->who))
		err = -EACCES;
	else
		err = sg_pin_put_locked(sg, key, false, claim->serial, claim->no_wait);
	sg_mutex_unlock(&sg->lock);
	return err;
}

int sg_movable_get(struct sg *sg, struct sg_movable *movable, const struct sg_pin_who *who, u64 va,
		   u64 length)
{
	struct sg_range *range;
	int err;

	if (!length || (va | length) % SG_PAGE_SIZE || va + length < va)
		return -EINVAL;
	sg_mutex_lock(&sg->lock);
	err = resolve_locked(sg, who, va, length, &range);
	if (!err && range->mem->gpu->removed)
		err = -ENODEV;
	if (!err) {
		movable->sg = sg;
		movable->mem = range->mem;
		movable->proc_key = range->proc->key;
		movable->va = va;
		movable->length = length;
		movable->offset = va - range->node.key;
		sg_mem_get_locked(movable->mem);
		movable->mem->movables++;
	}
	sg_mutex_unlock(&sg->lock);
	return err;
}

int sg_movable_pin(struct sg_movable *movable, struct sg_pin *pin, const struct sg_pin_ops *ops)
{
	struct sg *sg = movable->sg;
	struct sg_range *range;
	int err;

	sg_mutex_lock(&sg->lock);
	/*
	 * Chaos does not count this pin, because the caller may hold locks that a revocation
	 * takes.
	 */
	err = sg_pin_take_locked(pin, ops, movable->mem, movable->offset, movable->va,
				 movable->length, true);
	range = err ? NULL : sg_movable_range_locked(movable);
	if (range) {
		sg_pin_attach_locked(pin, range);
		if (sg->chaos.strict)
			sg_strict_pinned_locked(range, movable->va, movable->length);
	}
	sg_mutex_unlock(&sg->lock);
	return err;
}

/* Finds the buf at an address of a process, either on a GPU or in host memory. */
static int find_buf_locked(struct sg *sg, const void *proc_key, u64 va, bool on_host,
			   struct sg_buf **out)
{
	struct sg_proc *proc = sg_proc_by_key_locked(sg, proc_key);

	if (!proc)
		return -ESRCH;
	*out = sg_buf_at(proc, va);
	return *out && !(*out)->range == on_host ? 0 : -ENOENT;
}

int sg_find(struct sg *sg, const void *proc_key, u64 va, struct sg_found *out)
{
	struct sg_buf *buf;
	int err;

	sg_mutex_lock(&sg->lock);
	err = find_buf_locked(sg, proc_key, va, false, &buf);
	if (!err) {
		out->base = buf->node.key;
		out->length = buf->node.len;
		out->memory = memory_of(buf->range);
	}
	sg_mutex_unlock(&sg->lock);
	return err;
}

/* Finds a buf in host memory.  *va may be a device pointer; it is replaced by the host pointer. */
static int find_host_locked(struct sg *sg, const void *proc_key, u64 *va, struct sg_buf **out)
{
	const struct sg_proc *proc = sg_proc_by_key_locked(sg, proc_key);

	if (proc)
		sg_alias_resolve_locked(proc, va, 1);
	return find_buf_locked(sg, proc_key, *va, true, out);
}

int sg_find_host(struct sg *sg, const void *proc_key, u64 va, struct sg_found_host *out)
{
	struct sg_buf *buf;
	u64 host = va;
	int err;

	sg_mutex_lock(&sg->lock);
	err = find_host_locked(sg, proc_key, &host, &buf);
	if (!err) {
		out->base = buf->node.key + (va - host);
		out->length = buf->node.len;
		out->host_va = host;
		out->device_va = buf->alias ? buf->alias->node.key + (host - buf->node.key) : host;
		out->buffer_id = buf->buffer_id;
		out->kind = buf->kind;
		out->host_flags = buf->host_flags;
	}
	sg_mutex_unlock(&sg->lock);
	return err;
}
