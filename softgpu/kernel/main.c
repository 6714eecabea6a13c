// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * softgpu.ko - a software GPU for tests: VRAM is the memory BAR of a virtual PCI
 * device (QEMU's ivshmem-plain), or system memory; everything else that makes a
 * GPU is softgpu/core.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/init.h>
#include <linux/module.h>
#include "softgpu.h"

static int __init softgpu_init(void)
{
	int err;

	err = softgpu_device_init();
	if (err)
		return err;
	err = sg_create(&softgpu_sg);
	if (err)
		return err;
	softgpu_debugfs_init();
	err = softgpu_file_init();
	if (err)
		goto destroy;
	err = softgpu_pci_init();
	if (err)
		goto uninit_file;
	err = softgpu_sysmem_init();
	if (err)
		goto uninit_pci;
	pr_info("this is a software GPU, for tests: its memory is not a real GPU's\n");
	return 0;

uninit_pci:
	softgpu_pci_uninit();
uninit_file:
	softgpu_file_uninit();
destroy:
	softgpu_debugfs_uninit();
	sg_destroy(softgpu_sg);
	return err;
}

static void __exit softgpu_exit(void)
{
	softgpu_sysmem_uninit();
	softgpu_pci_uninit();
	softgpu_file_uninit();
	softgpu_debugfs_uninit();
	sg_destroy(softgpu_sg);
}

module_init(softgpu_init);
module_exit(softgpu_exit);

MODULE_DESCRIPTION("Software GPU for tests");
MODULE_AUTHOR("The peerdma authors");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
