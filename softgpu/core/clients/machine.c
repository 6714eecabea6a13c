// SPDX-License-Identifier: MIT
/* machine.c - the machine and its GPUs: adding and removing them, statistics. */
#include "clients.h"

int sg_create(struct sg **out)
{
	struct sg *sg = sg_zalloc(sizeof(*sg));

	if (!sg)
		return -ENOMEM;
	if (sg_hash_init(&sg->pins)) {
		sg_free(sg);
		return -ENOMEM;
	}
	sg_mutex_init(&sg->lock);
	sg_cond_init(&sg->ended);
	sg_list_init(&sg->procs);
	sg_list_init(&sg->ctxs);
	sg_list_init(&sg->servers);
	sg->next_buffer_id = 1;
	sg->next_share_id = 1;
	sg->next_pin_serial = 1;
	*out = sg;
	return 0;
}

void sg_destroy(struct sg *sg)
{
	u32 i;

	for (i = 0; i < SOFTGPU_MAX_GPUS; i++)
		SG_WARN_ON(sg->gpus[i]);
	SG_WARN_ON(!sg_list_empty(&sg->procs) || !sg_list_empty(&sg->servers));
	SG_WARN_ON(sg->shares.root || sg->mem_keys.root);
	sg_hash_fini(&sg->pins);
	sg_cond_destroy(&sg->ended);
	sg_mutex_destroy(&sg->lock);
	sg_free(sg);
}

int sg_gpu_add(struct sg *sg, const struct sg_gpu_desc *desc, u32 *index)
{
	struct sg_gpu *gpu;
	u32 i;
	int err;

	err = sg_gpu_new(sg, desc, &gpu);
	if (err)
		return err;
	err = sg_engines_start(gpu);
	if (err)
		goto free;

	sg_mutex_lock(&sg->lock);
	for (i = 0; i < SOFTGPU_MAX_GPUS && sg->gpus[i]; i++)
		;
	if (i < SOFTGPU_MAX_GPUS) {
		gpu->index = i;
		sg->gpus[i] = gpu;
	}
	sg_mutex_unlock(&sg->lock);
	if (i == SOFTGPU_MAX_GPUS) {
		sg_engines_stop(gpu);
		err = -ENOSPC;
		goto free;
	}
	*index = i;
	return 0;

free:
	sg_gpu_free(gpu);
	return err;
}

/* Returns a context of the GPU with its handle's reference; NULL: none is left. */
static struct sg_ctx *some_ctx_locked(struct sg_gpu *gpu)
{
	struct sg_ctx *ctx;

	sg_list_for_each(ctx, &gpu->sg->ctxs, struct sg_ctx, in_sg) {
		if (ctx->gpu == gpu && sg_obj_retire_locked(&ctx->obj))
			return ctx;
	}
	return NULL;
}

/*
 * Returns a buf in this GPU's memory that belongs to no context (of cuMemMap or a pool); NULL:
 * none is left.
 */
static struct sg_buf *some_buf_locked(struct sg_gpu *gpu)
{
	struct sg_proc *proc;
	struct sg_node *n;

	sg_list_for_each(proc, &gpu->sg->procs, struct sg_proc, link) {
		for (n = sg_tree_first(&proc->bufs); n; n = sg_tree_next(n)) {
			struct sg_buf *buf = SG_NODE_OF(n, struct sg_buf);

			if (buf->range && buf->range->mem->gpu == gpu)
				return buf;
		}
	}
	return NULL;
}

void sg_gpu_remove(struct sg *sg, u32 index)
{
	struct sg_gpu *gpu;
	struct sg_ctx *ctx;
	struct sg_buf *buf;

	sg_mutex_lock(&sg->lock);
	gpu = index < SOFTGPU_MAX_GPUS ? sg->gpus[index] : NULL;
	if (!gpu || gpu->removed) {
		sg_mutex_unlock(&sg->lock);
		return;
	}
	gpu->removed = true;
	while ((ctx = some_ctx_locked(gpu))) {
		sg_ctx_destroy_locked(ctx);
		sg_obj_put_locked(&ctx->obj);
	}
	while ((buf = some_buf_locked(gpu)))
		sg_buf_release_locked(buf);
	sg_pins_orphan_locked(gpu);
	/*
	 * Wait for contexts that other threads are destroying, and for copies by other
	 * GPUs' engines.
	 */
	while (gpu->entered || gpu->ctxs)
		sg_cond_wait(&sg->ended, &sg->lock);
	sg_mutex_unlock(&sg->lock);

	sg_engines_stop(gpu);

	sg_mutex_lock(&sg->lock);
	sg_gpu_put_locked(gpu);
	sg_mutex_unlock(&sg->lock);
}

void sg_set_platform(struct sg *sg, enum softgpu_platform platform)
{
	sg_mutex_lock(&sg->lock);
	sg->platform = platform;
	sg_mutex_unlock(&sg->lock);
}

int sg_gpu_stats(struct sg *sg, u32 index, struct sg_gpu_stats *out)
{
	struct sg_gpu *gpu;
	int err = -ENODEV;

	sg_mutex_lock(&sg->lock);
	gpu = index < SOFTGPU_MAX_GPUS ? sg->gpus[index] : NULL;
	if (gpu) {
		out->vram_total = gpu->desc.vram_size;
		out->vram_free = gpu->vram.free_len;
		out->bar1_total = gpu->desc.bar1_size;
		out->bar1_reserved = gpu->desc.bar1_reserved;
		out->bar1_used = gpu->desc.bar1_reserved + gpu->bar1_used;
		out->pins = gpu->pins;
		out->clients = gpu->clients;
		out->objects = sg->objects;
		out->revocations = gpu->revocations;
		out->copies = gpu->copies;
		out->bytes_copied = gpu->bytes_copied;
		err = 0;
	}
	sg_mutex_unlock(&sg->lock);
	return err;
}
