// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The desktop's nvidia.ko exports other functions with the same names.  So only one of the
 * two can be loaded: the kernel refuses the second, and names the symbol that the first one
 * exports.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/init.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "../softgpu_kapi.h"
#include "tegra.h"

static int __init tegra_init(void)
{
	sg_set_platform(softgpu_core(), SOFTGPU_PLATFORM_INTEGRATED);
	pr_info("this is softgpu's stand-in for Tegra's nvidia_p2p, for tests; the desktop's nvidia.ko cannot be loaded beside it\n");
	return 0;
}

static void __exit tegra_exit(void)
{
	sg_set_platform(softgpu_core(), SOFTGPU_PLATFORM_PCI);
	tables_exit();
	/*
	 * The last pin has released this module in its callback, which may not have
	 * returned yet.
	 */
	synchronize_rcu_tasks();
}

module_init(tegra_init);
module_exit(tegra_exit);

MODULE_DESCRIPTION("Stand-in for Tegra's nvidia_p2p on softgpu, the software GPU for tests");
MODULE_AUTHOR("The peerdma authors");
MODULE_VERSION(TEGRA_VERSION);
MODULE_LICENSE("Dual MIT/GPL");
