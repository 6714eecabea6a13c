// SPDX-License-Identifier: MIT
/* gpu.c - the list of GPUs: adding, removing, statistics. */
#include "sg_int.h"

#define BAR1_RESERVED	((u64)1 << 20)

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
	SG_WARN_ON(sg->shares.root || sg->phys_keys.root);
	sg_hash_fini(&sg->pins);
	sg_cond_destroy(&sg->ended);
	sg_mutex_destroy(&sg->lock);
	sg_free(sg);
}

void sg_gpu_get_locked(struct sg_gpu *gpu)
{
	gpu->refs++;
}

static void gpu_free(struct sg_gpu *gpu)
{
	sg_space_fini(&gpu->vram);
	sg_cond_destroy(&gpu->work);
	sg_free(gpu->page_pins);
	sg_free(gpu);
}

void sg_gpu_put_locked(struct sg_gpu *gpu)
{
	if (--gpu->refs)
		return;
	gpu->sg->gpus[gpu->index] = NULL;
	gpu_free(gpu);
}

bool sg_gpu_enter_locked(struct sg_gpu *gpu)
{
	if (gpu->removed)
		return false;
	gpu->entered++;
	return true;
}

void sg_gpu_leave_locked(struct sg_gpu *gpu)
{
	if (!--gpu->entered && (gpu->removed || gpu->awaited))
		sg_cond_broadcast(&gpu->sg->ended);
}

static size_t copy_name(char *to, size_t size, const char *from)
{
	size_t n = 0;

	while (n < size - 1 && from[n]) {
		to[n] = from[n];
		n++;
	}
	to[n] = 0;
	return n;
}

static bool compute_mode_ok(u32 mode)
{
	return mode == SOFTGPU_COMPUTE_DEFAULT || mode == SOFTGPU_COMPUTE_PROHIBITED ||
	       mode == SOFTGPU_COMPUTE_EXCLUSIVE;
}

static u64 bar1_reserved(const struct sg_gpu_desc *desc)
{
	u64 most = desc->bar1_size / 16 & ~(SG_PAGE_SIZE - 1);

	if (desc->bar1_reserved != SG_BAR1_RESERVED_DEFAULT)
		return desc->bar1_reserved;
	return most < BAR1_RESERVED ? most : BAR1_RESERVED;
}

int sg_gpu_add(struct sg *sg, const struct sg_gpu_desc *desc, u32 *index)
{
	struct sg_gpu *gpu;
	u32 i;
	int err;

	if (!desc->vram_size || desc->vram_size % SG_PAGE_SIZE || !desc->vram || !desc->phys ||
	    !desc->engines || !compute_mode_ok(desc->compute_mode) || desc->bar1_size % SG_PAGE_SIZE)
		return -EINVAL;
	gpu = sg_zalloc(sizeof(*gpu));
	if (!gpu)
		return -ENOMEM;
	gpu->sg = sg;
	gpu->desc = *desc;
	copy_name(gpu->name, sizeof(gpu->name), desc->name);
	gpu->desc.name = gpu->name;
	if (!gpu->desc.bar1_size)
		gpu->desc.bar1_size = desc->vram_size;
	gpu->desc.bar1_reserved = bar1_reserved(&gpu->desc);
	err = -EINVAL;
	if (gpu->desc.bar1_reserved > gpu->desc.bar1_size || gpu->desc.bar1_reserved % SG_PAGE_SIZE)
		goto free_gpu;
	err = -ENOMEM;
	gpu->page_pins = sg_zalloc(desc->vram_size / SG_PAGE_SIZE * sizeof(u32));
	if (!gpu->page_pins)
		goto free_gpu;
	err = sg_space_init(&gpu->vram, 0, desc->vram_size);
	if (err)
		goto free_pins;
	sg_cond_init(&gpu->work);
	sg_list_init(&gpu->runnable);
	sg_list_init(&gpu->polled);
	sg_list_init(&gpu->pinned);
	sg_list_init(&gpu->orphans);
	gpu->refs = 1;
	err = sg_engines_start(gpu);
	if (err)
		goto free_all;

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
		goto free_all;
	}
	*index = i;
	return 0;

free_all:
	gpu_free(gpu);
	return err;
free_pins:
	sg_free(gpu->page_pins);
free_gpu:
	sg_free(gpu);
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

/* Returns a buffer in this GPU's VRAM, mapped by cuMemMap, or a pool's; NULL: none is left. */
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
