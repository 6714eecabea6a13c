// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * nvidia.ko - softgpu's NVIDIA personality: it exports what NVIDIA's driver
 * exports to third parties, every nvidia_p2p_ call, over softgpu.ko.
 *
 * nvidia_get_rm_ops is not among them: it is for NVIDIA's own other modules
 * (nvidia-uvm, nvidia-modeset), which cannot run on a software GPU.
 *
 * The module's file and its version look like the real one's, since third-party
 * build scripts ask for them (modinfo -F version nvidia, /usr/src/nvidia-*).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/init.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

static int __init nvp2p_init(void)
{
	pr_info("this is softgpu's stand-in for NVIDIA's driver, for tests\n");
	return 0;
}

static void __exit nvp2p_exit(void)
{
	/*
	 * The last pin let go of this module in its free callback, which may
	 * not have returned yet; it does not sleep any more.
	 */
	synchronize_rcu_tasks();
}

module_init(nvp2p_init);
module_exit(nvp2p_exit);

MODULE_DESCRIPTION("Stand-in for NVIDIA's driver on softgpu, the software GPU for tests: the nvidia_p2p calls");
MODULE_AUTHOR("The peerdma authors");
MODULE_VERSION(NVP2P_VERSION);
MODULE_LICENSE("Dual MIT/GPL");
