// SPDX-License-Identifier: MIT
/* mem.c - allocates pages of VRAM and system memory. */
#include "memory.h"

static void give_back_locked(struct sg_mem *mem)
{
	struct sg_gpu *gpu = mem->gpu;

	sg_mem_key_end_locked(mem);
	while (mem->first) {
		struct sg_extent *e = mem->first;

		mem->first = e->next;
		sg_space_give(&gpu->vram, e);
	}
	if (mem->system)
		gpu->desc.system_free(mem->system, mem->size);
	sg_free(mem);
	sg_gpu_put_locked(gpu);
}

/* Takes mem->size bytes of VRAM in as few pieces as possible. */
static int take_locked(struct sg_mem *mem)
{
	struct sg_space *vram = &mem->gpu->vram;
	struct sg_extent **tail = &mem->first;
	u64 left = mem->size;

	if (vram->free_len < left)
		return -ENOSPC;
	while (left) {
		int err = sg_space_take_longest(vram, left, tail);

		if (err)
			return err;
		left -= (*tail)->node.len;
		tail = &(*tail)->next;
		*tail = NULL;
	}
	return 0;
}

int sg_mem_create(struct sg_gpu *gpu, u64 size, struct sg_mem **out)
{
	struct sg *sg = gpu->sg;
	struct sg_extent *e;
	struct sg_mem *mem;
	int err;

	mem = sg_zalloc(sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	mem->gpu = gpu;
	mem->size = size;
	mem->refs = 1;

	sg_mutex_lock(&sg->lock);
	err = sg_chaos_hits_locked(&sg->chaos.fail_alloc) ? -ENOSPC : 0;
	if (!err && !sg_gpu_enter_locked(gpu))
		err = -ENODEV;
	if (err) {
		sg_mutex_unlock(&sg->lock);
		sg_free(mem);
		return err;
	}
	sg_gpu_get_locked(gpu);
	err = take_locked(mem);
	if (err)
		goto out;
	sg_mutex_unlock(&sg->lock);
	/* Another process's data must not be readable. */
	for (e = mem->first; e; e = e->next)
		memset((char *)gpu->desc.vram + e->node.key, 0, e->node.len);
	sg_mutex_lock(&sg->lock);
out:
	sg_gpu_leave_locked(gpu);
	if (err)
		give_back_locked(mem);
	else
		*out = mem;
	sg_mutex_unlock(&sg->lock);
	return err;
}

int sg_mem_create_system(struct sg_gpu *gpu, u64 size, struct sg_mem **out)
{
	struct sg_mem *mem;

	if (!gpu->desc.system_alloc)
		return -EOPNOTSUPP;
	mem = sg_zalloc(sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	mem->system = gpu->desc.system_alloc(size);
	if (!mem->system) {
		sg_free(mem);
		return -ENOMEM;
	}
	mem->gpu = gpu;
	mem->size = size;
	mem->refs = 1;
	sg_mutex_lock(&gpu->sg->lock);
	sg_gpu_get_locked(gpu);
	sg_mutex_unlock(&gpu->sg->lock);
	*out = mem;
	return 0;
}

void sg_mem_get_locked(struct sg_mem *mem)
{
	mem->refs++;
}

void sg_mem_put_locked(struct sg_mem *mem)
{
	if (!--mem->refs)
		give_back_locked(mem);
}

u64 sg_mem_vram_at(const struct sg_mem *mem, u64 offset, u64 *run)
{
	const struct sg_extent *e = mem->first;

	while (offset >= e->node.len) {
		offset -= e->node.len;
		e = e->next;
	}
	*run = e->node.len - offset;
	return e->node.key + offset;
}

void *sg_mem_at(const struct sg_mem *mem, u64 offset, u64 *run)
{
	if (!mem->system)
		return (char *)mem->gpu->desc.vram + sg_mem_vram_at(mem, offset, run);
	*run = mem->size - offset;
	return (char *)mem->system + offset;
}

u64 sg_mem_phys(const struct sg_mem *mem, u64 offset)
{
	const struct sg_gpu_desc *desc = &mem->gpu->desc;
	u64 run;

	if (mem->system)
		return desc->system_phys(mem->system, offset);
	return desc->phys(desc->priv, sg_mem_vram_at(mem, offset, &run));
}

void sg_mem_phys_pages(const struct sg_mem *mem, u64 offset, u64 len, u64 *to, size_t stride)
{
	const struct sg_gpu_desc *desc = &mem->gpu->desc;

	while (len) {
		u64 run = len, at = mem->system ? offset : sg_mem_vram_at(mem, offset, &run), i;

		if (run > len)
			run = len;
		for (i = 0; i < run; i += SG_PAGE_SIZE) {
			*to = mem->system ? desc->system_phys(mem->system, at + i) :
					    desc->phys(desc->priv, at + i);
			to = (u64 *)(void *)((char *)to + stride);
		}
		offset += run;
		len -= run;
	}
}
