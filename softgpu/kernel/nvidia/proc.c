// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * proc.c - /proc/driver/nvidia, where scripts look for the driver's release and its GPUs: version,
 * params, and gpus/BDF/information of the GPUs that were there when this module was loaded.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/utsname.h>
#include "p2p.h"

static struct proc_dir_entry *folder;
static u32 indexes[SOFTGPU_MAX_GPUS];

static int version_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "NVRM version: NVIDIA UNIX Open Kernel Module for %s  %s  Release Build  (softgpu, a software GPU)\n",
		   init_utsname()->machine, softgpu_release()->version);
	return 0;
}

/* Those of the driver's parameters that change what this module does, or that readers look for. */
static int params_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "EnableStreamMemOPs: 0\nDmaRemapPeerMmio: 1\nGrdmaPciTopoCheckOverride: %u\nRegistryDwords: \"\"\n",
		   softgpu_topology());
	return 0;
}

static int information_show(struct seq_file *m, void *unused)
{
	struct softgpu_gpu_id id;
	u32 index = *(u32 *)m->private;

	if (!softgpu_gpu_id(index, &id))
		return 0;	/* it was removed */
	seq_printf(m, "Model: \t\t %s\nGPU UUID: \t GPU-%pUb\n", id.name, id.uuid);
	seq_printf(m, "Bus Type: \t PCIe\nBus Location: \t %s\nDevice Minor: \t %u\n", id.pci, index);
	seq_puts(m, "GPU Firmware: \t N/A\nGPU Excluded:\t No\n");
	return 0;
}

/* No call of nvidia_p2p reads these folders, so the module loads even if they cannot be made. */
static void add_gpus(struct proc_dir_entry *gpus)
{
	struct proc_dir_entry *gpu;
	struct softgpu_gpu_id id;
	u32 i;

	for (i = 0; gpus && i < SOFTGPU_MAX_GPUS; i++) {
		if (!softgpu_gpu_id(i, &id) || !id.pci[0])
			continue;
		indexes[i] = i;
		gpu = proc_mkdir(id.pci, gpus);
		if (gpu)
			proc_create_single_data("information", 0444, gpu, information_show, &indexes[i]);
	}
}

void nvp2p_proc_init(void)
{
	folder = proc_mkdir("driver/nvidia", NULL);
	if (!folder)
		return;
	proc_create_single("version", 0444, folder, version_show);
	proc_create_single("params", 0444, folder, params_show);
	add_gpus(proc_mkdir("gpus", folder));
}

void nvp2p_proc_uninit(void)
{
	proc_remove(folder);
}
