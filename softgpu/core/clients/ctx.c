// SPDX-License-Identifier: MIT
/* ctx.c - contexts, which own work and allocations, and the tokens that name them. */
#include "clients.h"

static u64 random_nonzero(void)
{
	u64 r;

	do {
		r = sg_random64();
	} while (!r || !(u32)r);
	return r;
}

/* Exclusive mode allows one context per GPU: even the same process cannot have a second. */
static int may_make_locked(const struct sg_gpu *gpu, const struct sg_shared_ctx *shared)
{
	if (gpu->removed)
		return -ENODEV;
	if (gpu->desc.compute_mode == SOFTGPU_COMPUTE_PROHIBITED)
		return -EACCES;
	if (shared && shared->ctxs)
		return shared->faulted ? -EIO : 0;
	return gpu->desc.compute_mode == SOFTGPU_COMPUTE_EXCLUSIVE && gpu->ctxs ? -EBUSY : 0;
}

static void free_ctx(struct sg_ctx *ctx)
{
	SG_WARN_ON(!sg_list_empty(&ctx->heap.bufs) || !sg_list_empty(&ctx->heap.slabs));
	sg_cond_destroy(&ctx->done);
	sg_cond_destroy(&ctx->reached);
	sg_free(ctx);
}

static void release_locked(struct sg_obj *obj)
{
	struct sg_ctx *ctx = sg_ctx_of(obj);

	ctx->proc->streams--;
	ctx->client->ctxs--;
	ctx->gpu->ctxs--;
	sg_cond_broadcast(&ctx->gpu->sg->ended);
	free_ctx(ctx);
}

static struct sg_ctx *new_ctx(struct sg_client *client)
{
	struct sg_ctx *ctx = sg_zalloc(sizeof(*ctx));

	if (!ctx)
		return NULL;
	sg_obj_init(&ctx->obj, SG_OBJ_CTX, &client->proc->handles, release_locked);
	ctx->client = client;
	ctx->proc = client->proc;
	ctx->gpu = client->gpu;
	sg_heap_init(&ctx->heap, &ctx->obj, ctx->gpu);
	sg_cond_init(&ctx->done);
	sg_cond_init(&ctx->reached);
	sg_list_init(&ctx->funcs);
	sg_list_init(&ctx->handed_out);
	sg_list_init(&ctx->streams);
	sg_stream_init(&ctx->stream0, ctx, false);
	return ctx;
}

int sg_ctx_create(struct sg_client *client, u32 flags, u32 *handle)
{
	struct sg *sg = client->sg;
	struct sg_ctx *ctx;
	int err;

	if (flags & ~(u32)(SOFTGPU_CTX_VISIBLE | SOFTGPU_CTX_SYSTEM) ||
	    flags == SOFTGPU_CTX_SYSTEM || (flags && !client->gpu->desc.hide))
		return -EINVAL;
	/* The CPU sees VRAM only in the BAR, and the memory may get any page of VRAM. */
	if (flags == SOFTGPU_CTX_VISIBLE &&
	    client->gpu->desc.bar1_size < client->gpu->desc.vram_size)
		return -EOPNOTSUPP;
	ctx = new_ctx(client);
	if (!ctx)
		return -ENOMEM;
	ctx->heap.visible = flags & SOFTGPU_CTX_VISIBLE;
	ctx->heap.system = flags & SOFTGPU_CTX_SYSTEM;
	ctx->p2p_token = random_nonzero();
	ctx->va_space_token = (u32)random_nonzero();

	sg_mutex_lock(&sg->lock);
	if (client->proc->server)
		ctx->shared = &client->proc->server->at[ctx->gpu->index];
	err = may_make_locked(ctx->gpu, ctx->shared);
	if (!err)
		err = sg_stream_count_locked(client->proc);
	if (err) {
		sg_mutex_unlock(&sg->lock);
		free_ctx(ctx);
		return err;
	}
	sg_shared_enter_locked(ctx);
	sg_list_add_tail(&ctx->streams, &ctx->stream0.in_ctx);
	sg_list_add_tail(&sg->ctxs, &ctx->in_sg);
	client->ctxs++;
	ctx->gpu->ctxs++;
	*handle = sg_obj_publish_locked(&ctx->obj, &client->ctx_objs);
	sg_mutex_unlock(&sg->lock);
	return 0;
}

/* The context's streams lose their handles with it. */
static void retire_objs_locked(struct sg_ctx *ctx)
{
	struct sg_stream *s, *victim;

	do {
		victim = NULL;
		sg_list_for_each(s, &ctx->streams, struct sg_stream, in_ctx) {
			if (s != &ctx->stream0 && sg_obj_retire_locked(&s->obj)) {
				victim = s;
				break;
			}
		}
		if (victim)
			sg_obj_put_locked(&victim->obj);
	} while (victim);
}

void sg_ctx_destroy_locked(struct sg_ctx *ctx)
{
	struct sg *sg = ctx->gpu->sg;

	/* First invalidate the tokens, so that no new pin finds the context. */
	sg_list_del(&ctx->in_sg);
	sg_shared_leave_locked(ctx);
	ctx->dead = true;
	sg_cond_broadcast(&ctx->gpu->work);
	sg_missing_drop_locked(ctx);
	sg_funcs_end_locked(ctx);
	while (sg_ctx_busy_before_locked(ctx, ctx->next_seq))
		sg_cond_wait(&ctx->done, &sg->lock);
	retire_objs_locked(ctx);
	while (!sg_list_empty(&ctx->heap.bufs))
		sg_buf_release_locked(sg_list_entry(ctx->heap.bufs.next, struct sg_buf, in_owner));
}

struct sg_ctx *sg_ctx_by_token_locked(struct sg *sg, u64 p2p_token, u32 va_space_token, u64 va)
{
	struct sg_ctx *ctx, *found = NULL;

	/* Looks at all contexts, so that the time taken reveals nothing about tokens. */
	sg_list_for_each(ctx, &sg->ctxs, struct sg_ctx, in_sg) {
		u64 wrong = (ctx->p2p_token ^ p2p_token) |
			    (u64)(ctx->va_space_token ^ va_space_token);

		if (!wrong && (!found || sg_in_window(ctx->proc, va)))
			found = ctx;
	}
	return found;
}
