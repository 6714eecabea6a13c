// SPDX-License-Identifier: MIT OR GPL-2.0
/* sysmem.c - VRAM in system memory (blocks.c), for machines without a PCI device for it. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include "../include/softgpu_uapi.h"
#include "compat.h"
#include "softgpu.h"

static unsigned int sysmem;
module_param(sysmem, uint, 0444);
MODULE_PARM_DESC(sysmem, "Also make GPUs of system memory, each with this many MiB of VRAM (default 0: none)");

static unsigned int sysmem_gpus = 1;
module_param(sysmem_gpus, uint, 0444);
MODULE_PARM_DESC(sysmem_gpus, "How many GPUs to make of system memory (default 1)");

static struct softgpu_device *gpus[SOFTGPU_MAX_GPUS];

static u64 sysmem_phys(void *priv, u64 offset)
{
	const struct softgpu_device *device = priv;

	return softgpu_blocks_phys(device->vram, offset);
}

static void gpu_destroy(struct softgpu_device *gpu)
{
	softgpu_device_remove(gpu);
	softgpu_blocks_free(gpu->vram);
	kfree(gpu);
}

static int gpu_create(u32 number, struct softgpu_device **out)
{
	struct softgpu_device *gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	int err = -ENOMEM;

	if (!gpu)
		return -ENOMEM;
	gpu->backing.size = (u64)sysmem * SZ_1M;
	gpu->phys = sysmem_phys;
	memcpy(gpu->uuid, "SGPU", 4);
	put_unaligned_be32(0xffff0000 | number, gpu->uuid + 4);
	gpu->vram = softgpu_blocks_alloc(gpu->backing.size, false);
	if (!gpu->vram)
		goto free_gpu;
	err = softgpu_device_add(gpu);
	if (err)
		goto free_vram;
	*out = gpu;
	return 0;

free_vram:
	softgpu_blocks_free(gpu->vram);
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
			pr_err("cannot make GPU %u of %u MiB of system memory (error %d): make sysmem= smaller\n",
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
