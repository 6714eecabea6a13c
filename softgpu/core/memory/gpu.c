// SPDX-License-Identifier: MIT
/* gpu.c - a GPU as an object: how it is made, referenced and freed, and who uses its VRAM. */
#include "memory.h"

#define BAR1_RESERVED	((u64)1 << 20)

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

int sg_gpu_new(struct sg *sg, const struct sg_gpu_desc *desc, struct sg_gpu **out)
{
	struct sg_gpu *gpu;
	int err;

	if (!desc->vram_size || desc->vram_size % SG_PAGE_SIZE || !desc->vram || !desc->phys ||
	    !desc->engines || !compute_mode_ok(desc->compute_mode) ||
	    desc->bar1_size % SG_PAGE_SIZE)
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
	if (!gpu->desc.driver)
		gpu->desc.driver = SG_RELEASE_DEFAULT;
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
	*out = gpu;
	return 0;

free_pins:
	sg_free(gpu->page_pins);
free_gpu:
	sg_free(gpu);
	return err;
}

void sg_gpu_get_locked(struct sg_gpu *gpu)
{
	gpu->refs++;
}

void sg_gpu_free(struct sg_gpu *gpu)
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
	sg_gpu_free(gpu);
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
