// SPDX-License-Identifier: MIT OR GPL-2.0
/* device.c - adds GPUs to the core and removes them. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include "softgpu.h"

static unsigned int bar1;
module_param(bar1, uint, 0444);
MODULE_PARM_DESC(bar1, "Size of each GPU's BAR1 aperture in MiB (default 0: as large as VRAM)");

static int bar1_reserved = -1;
module_param(bar1_reserved, int, 0444);
MODULE_PARM_DESC(bar1_reserved, "Part of BAR1 that the driver itself uses, in KiB, a multiple of 64 (default -1: 1024, or a sixteenth of a small BAR1)");

static bool bar1_per_pin;
module_param(bar1_per_pin, bool, 0444);
MODULE_PARM_DESC(bar1_per_pin, "Overlapping pins do not share BAR1, as before CUDA 7 (default N)");

static bool blocks;
module_param(blocks, bool, 0444);
MODULE_PARM_DESC(blocks, "cuMemAlloc's allocations of less than 2 MiB share blocks of 2 MiB, as with NVIDIA's driver (default N)");

static unsigned int engines = 2;
module_param(engines, uint, 0444);
MODULE_PARM_DESC(engines, "Copy engines of each GPU, 1 to 16 (default 2)");

static unsigned int compute_mode;
module_param(compute_mode, uint, 0444);
MODULE_PARM_DESC(compute_mode, "Contexts allowed: 0 any number (default), 2 none, 3 one at a time");

#define ENGINES_MAX	16u

/* Called before any GPU is made, so that a bad parameter is reported once and in words. */
int softgpu_device_init(void)
{
	if (bar1_reserved < -1 || (bar1_reserved > 0 && bar1_reserved % (SG_PAGE_SIZE / SZ_1K))) {
		pr_err("bar1_reserved=%d: must be a multiple of 64 (KiB), or -1\n", bar1_reserved);
		return -EINVAL;
	}
	if (bar1 && bar1_reserved > 0 && bar1_reserved / SZ_1K > bar1) {
		pr_err("bar1_reserved=%d (KiB): must be less than bar1=%u (MiB)\n", bar1_reserved, bar1);
		return -EINVAL;
	}
	if (!engines || engines > ENGINES_MAX) {
		pr_err("engines=%u: must be 1 to %u\n", engines, ENGINES_MAX);
		return -EINVAL;
	}
	if (compute_mode != SOFTGPU_COMPUTE_DEFAULT && compute_mode != SOFTGPU_COMPUTE_PROHIBITED &&
	    compute_mode != SOFTGPU_COMPUTE_EXCLUSIVE) {
		pr_err("compute_mode=%u: must be 0 (default), 2 (prohibited) or 3 (exclusive process)\n",
		       compute_mode);
		return -EINVAL;
	}
	return softgpu_pages_init() ?: softgpu_gpus_init();
}

/* Bytes in use by all processes and GPUs, as any of them may ask for system memory. */
static atomic64_t system_used;

static void free_system(void *memory, u64 length)
{
	softgpu_blocks_free(memory);
	atomic64_sub(length, &system_used);
}

/*
 * Allocates at most half of the machine's memory in total.  It is charged to the process for
 * which the memory is moved: the one that imports the dma-buf, or reads it.  A dma-buf's
 * reservation lock is held, for which only its own users wait.
 */
static void *alloc_system(u64 length)
{
	u64 limit = (u64)totalram_pages() << (PAGE_SHIFT - 1);
	void *memory = NULL;

	if (length > limit)
		return NULL;
	if ((u64)atomic64_add_return(length, &system_used) <= limit)
		memory = softgpu_blocks_alloc(length, true);
	if (!memory)
		atomic64_sub(length, &system_used);
	return memory;
}

static void fill_desc(struct sg_gpu_desc *desc, const struct softgpu_device *device)
{
	const struct pci_dev *pdev = device->backing.pdev;

	*desc = (struct sg_gpu_desc){
		.name = softgpu_name,
		.vram_size = device->backing.size,
		.bar1_size = (u64)bar1 * SZ_1M,
		.bar1_reserved = bar1_reserved < 0 ? SG_BAR1_RESERVED_DEFAULT :
						     (u64)bar1_reserved * SZ_1K,
		.bar1_per_pin = bar1_per_pin,
		.blocks = blocks,
		.engines = engines,
		.compute_mode = compute_mode,
		.driver = softgpu_driver,
		.vram = device->vram,
		.priv = (void *)device,
		.phys = device->phys,
		.hide = softgpu_file_hide,
		.system_alloc = alloc_system,
		.system_free = free_system,
		.system_phys = softgpu_blocks_phys,
	};
	memcpy(desc->uuid, device->uuid, sizeof(desc->uuid));
	if (pdev) {
		desc->on_pci = true;
		desc->pci_domain = pci_domain_nr(pdev->bus);
		desc->pci_bus = pdev->bus->number;
		desc->pci_device = PCI_SLOT(pdev->devfn);
		desc->pci_function = PCI_FUNC(pdev->devfn);
	}
}

int softgpu_device_add(struct softgpu_device *device)
{
	struct sg_gpu_desc desc;
	int err;

	fill_desc(&desc, device);
	err = sg_gpu_add(softgpu_sg, &desc, &device->index);
	if (err)
		return err;
	softgpu_table_add(device);
	softgpu_debugfs_add(device);
	/* The device file last: from then on programs can open it. */
	err = softgpu_file_add(device);
	if (err)
		goto remove;
	pr_info("GPU %u: %s, %llu MiB of %s\n", device->index, softgpu_name, device->backing.size / SZ_1M,
		device->backing.pdev ? pci_name(device->backing.pdev) : "system memory");
	return 0;

remove:
	softgpu_debugfs_remove(device);
	sg_gpu_remove(softgpu_sg, device->index);
	softgpu_table_remove(device);
	return err;
}

void softgpu_device_remove(struct softgpu_device *device)
{
	softgpu_file_remove(device);
	softgpu_debugfs_remove(device);
	/* Pins that are being ended still ask for their backing, so the table forgets it after that. */
	sg_gpu_remove(softgpu_sg, device->index);
	softgpu_table_remove(device);
}
