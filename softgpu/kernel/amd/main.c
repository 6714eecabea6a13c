// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * amdgpu.ko - softgpu's AMD personality: over softgpu.ko, it exports what AMD's driver of
 * ROCm exports to third parties.  It can be loaded together with nvidia.ko: each pins only
 * the memory of its own user-space libraries (HSA and HIP here, CUDA there).
 *
 * /dev/kfd exists because programs look for it: to UCX it means that adapters can reach
 * AMD's memory.  It can be opened, and has no calls.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/export.h>
#include <linux/init.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <drm/amd_rdma.h>
#include "amd.h"

static unsigned int rdma_api = 2;
module_param(rdma_api, uint, 0444);
MODULE_PARM_DESC(rdma_api, "Version of the interface that clients were built for: 1 (1.0, until ROCm 4.1) or 2 (default)");

int amdkfd_query_rdma_interface(const struct amd_rdma_interface **rdma)
{
	*rdma = rdma_api == 1 ? amd_api_1 : amd_api_2;
	return 0;
}
EXPORT_SYMBOL(amdkfd_query_rdma_interface);

static const struct file_operations kfd_ops = {
	.owner = THIS_MODULE,
};

static struct miscdevice kfd = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kfd",
	.mode = 0666,
	.fops = &kfd_ops,
};

static int __init amd_init(void)
{
	int err;

	if (rdma_api != 1 && rdma_api != 2) {
		pr_err("rdma_api=%u: must be 1 or 2\n", rdma_api);
		return -EINVAL;
	}
	err = misc_register(&kfd);
	if (err)
		return err;
	pr_info("this is softgpu's stand-in for AMD's driver, for tests: amd_rdma_interface %u.0\n", rdma_api);
	return 0;
}

static void __exit amd_exit(void)
{
	misc_deregister(&kfd);
	/*
	 * The last pin has released this module in its free callback, which may not have
	 * returned yet.
	 */
	synchronize_rcu_tasks();
}

module_init(amd_init);
module_exit(amd_exit);

MODULE_DESCRIPTION("Stand-in for AMD's driver on softgpu, the software GPU for tests: amd_rdma_interface");
MODULE_AUTHOR("The peerdma authors");
MODULE_VERSION(AMD_VERSION);
MODULE_LICENSE("Dual MIT/GPL");
