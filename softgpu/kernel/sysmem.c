// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * sysmem.c - VRAM in system memory, for machines without a device that could
 * lend its BAR.  Each 64 KiB page of VRAM is contiguous, no two need be.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "../include/softgpu_uapi.h"
#include "compat.h"
#include "softgpu.h"

static unsigned int sysmem;
module_param(sysmem, uint, 0444);
MODULE_PARM_DESC(sysmem, "Also make GPUs of system memory, each with this many MiB of VRAM (default 0: none)");

static unsigned int sysmem_gpus = 1;
module_param(sysmem_gpus, uint, 0444);
MODULE_PARM_DESC(sysmem_gpus, "How many GPUs to make of system memory (default 1)");

#define BLOCK_ORDER	(SG_PAGE_SHIFT - PAGE_SHIFT)
#define BLOCK_PAGES	(1u << BLOCK_ORDER)

struct sysmem_gpu {
	struct softgpu_device device;
	struct page **blocks;		/* one per 64 KiB page of VRAM */
	u32 nblocks;
};

static struct sysmem_gpu *gpus[SOFTGPU_MAX_GPUS];

static u64 sysmem_phys(void *priv, u64 offset)
{
	struct sysmem_gpu *gpu = container_of(priv, struct sysmem_gpu, device);

	return page_to_phys(gpu->blocks[offset >> SG_PAGE_SHIFT]) + offset % SG_PAGE_SIZE;
}

static void free_blocks(struct sysmem_gpu *gpu)
{
	u32 i;

	for (i = 0; i < gpu->nblocks; i++)
		__free_pages(gpu->blocks[i], BLOCK_ORDER);
	kvfree(gpu->blocks);
}

static int alloc_blocks(struct sysmem_gpu *gpu, u32 nblocks)
{
	gpu->blocks = kvcalloc(nblocks, sizeof(*gpu->blocks), GFP_KERNEL);
	if (!gpu->blocks)
		return -ENOMEM;
	while (gpu->nblocks < nblocks) {
		struct page *block = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN,
						 BLOCK_ORDER);

		if (!block) {
			free_blocks(gpu);
			return -ENOMEM;
		}
		gpu->blocks[gpu->nblocks++] = block;
	}
	return 0;
}

static void *map_blocks(const struct sysmem_gpu *gpu)
{
	struct page **pages;
	void *vram;
	u32 i;

	pages = kvmalloc_array(gpu->nblocks, BLOCK_PAGES * sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return NULL;
	for (i = 0; i < gpu->nblocks * BLOCK_PAGES; i++)
		pages[i] = gpu->blocks[i >> BLOCK_ORDER] + i % BLOCK_PAGES;
	vram = vmap(pages, gpu->nblocks * BLOCK_PAGES, VM_MAP, PAGE_KERNEL);
	kvfree(pages);
	return vram;
}

static void gpu_destroy(struct sysmem_gpu *gpu)
{
	softgpu_device_remove(&gpu->device);
	vunmap(gpu->device.vram);
	free_blocks(gpu);
	kfree(gpu);
}

static int gpu_create(u32 number, struct sysmem_gpu **out)
{
	struct sysmem_gpu *gpu;
	int err;

	gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	if (!gpu)
		return -ENOMEM;
	gpu->device.backing.size = (u64)sysmem * SZ_1M;
	gpu->device.phys = sysmem_phys;
	memcpy(gpu->device.uuid, "SGPU", 4);
	put_unaligned_be32(0xffff0000 | number, gpu->device.uuid + 4);
	err = alloc_blocks(gpu, gpu->device.backing.size >> SG_PAGE_SHIFT);
	if (err)
		goto free_gpu;
	gpu->device.vram = map_blocks(gpu);
	err = -ENOMEM;
	if (!gpu->device.vram)
		goto free_blocks;
	err = softgpu_device_add(&gpu->device);
	if (err)
		goto unmap;
	*out = gpu;
	return 0;

unmap:
	vunmap(gpu->device.vram);
free_blocks:
	free_blocks(gpu);
free_gpu:
	kfree(gpu);
	return err;
}

int softgpu_sysmem_init(void)
{
	u32 i;
	int err;

	if (!sysmem)
		return 0;
	if (sysmem_gpus > SOFTGPU_MAX_GPUS) {
		pr_err("sysmem_gpus=%u: there can be %u GPUs at most\n", sysmem_gpus,
		       SOFTGPU_MAX_GPUS);
		return -EINVAL;
	}
	for (i = 0; i < sysmem_gpus; i++) {
		err = gpu_create(i, &gpus[i]);
		if (err) {
			pr_err("no GPU %u of %u MiB system memory (error %d): make sysmem= smaller\n",
			       i, sysmem, err);
			softgpu_sysmem_uninit();
			return err;
		}
	}
	return 0;
}

void softgpu_sysmem_uninit(void)
{
	u32 i;

	for (i = 0; i < SOFTGPU_MAX_GPUS; i++) {
		if (gpus[i])
			gpu_destroy(gpus[i]);
		gpus[i] = NULL;
	}
}
