// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * nvidia.ko - softgpu's NVIDIA personality: over softgpu.ko, it exports all nvidia_p2p_
 * functions that NVIDIA's driver exports to third parties.
 *
 * It behaves exactly as NVIDIA's open kernel modules of release 595; nv-p2p.h lists the
 * exceptions and their reasons. What another release is known to do otherwise, and what
 * /proc/driver/nvidia says, follows softgpu.ko's parameter `driver`.
 *
 * nvidia_get_rm_ops is not among them: it is for NVIDIA's own other modules
 * (nvidia-uvm, nvidia-modeset), which cannot run on a software GPU.
 *
 * The module's file and its version look like the real one's, since third-party
 * build scripts ask for them (modinfo -F version nvidia, /usr/src/nvidia-*). The
 * version is that of the default release, as /proc/driver/nvidia has it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/init.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include "p2p.h"

static bool coherent;
module_param(coherent, bool, 0444);
MODULE_PARM_DESC(coherent, "GPUs whose VRAM is system memory are a coherent platform's: persistent pins and dma-bufs can be forced through BAR1 (default N)");

bool nvp2p_coherent(void)
{
	return coherent;
}

static int __init nvp2p_init(void)
{
	int err = nvp2p_callback_init();

	if (err)
		return err;
	nvp2p_lock_init();
	if (coherent)
		sg_set_platform(softgpu_core(), SOFTGPU_PLATFORM_COHERENT);
	nvp2p_proc_init();
	pr_info("this is softgpu's stand-in for NVIDIA's driver, for tests: release %s\n", softgpu_release()->version);
	return 0;
}

static void __exit nvp2p_exit(void)
{
	nvp2p_proc_uninit();
	/*
	 * The last pin has released this module in its free callback, which may not have
	 * returned yet, but does not sleep any more.
	 */
	synchronize_rcu_tasks();
	nvp2p_callback_uninit();
	sg_set_platform(softgpu_core(), SOFTGPU_PLATFORM_PCI);
	softgpu_topology_set(SOFTGPU_TOPO_DEFAULT);
}

module_init(nvp2p_init);
module_exit(nvp2p_exit);

MODULE_DESCRIPTION("Stand-in for NVIDIA's driver on softgpu, the software GPU for tests: the nvidia_p2p calls");
MODULE_AUTHOR("The peerdma authors");
MODULE_VERSION(SG_RELEASE_DEFAULT_VERSION);
MODULE_LICENSE("Dual MIT/GPL");
