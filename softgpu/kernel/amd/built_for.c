// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * built_for.c - notices clients that were built for the other version of the interface.
 *
 * Both versions have the same symbol, and no field that says which one it is.  But get_pages
 * of version 2.0 has one more argument, in the middle.  So with the wrong version each
 * argument after `pid' is taken for its neighbour:
 *
 *	built for 1.0	address, length, pid,          info,     callback, priv
 *	built for 2.0	address, length, pid, dma_dev, info,     callback, priv
 *
 * AMD's driver then writes to the client's code, or into its device.  What gives the client
 * away is its callback, which is code of a module: it arrives where a 2.0 driver expects
 * `info' and a 1.0 driver `priv'.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/task_stack.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include "../compat.h"
#include "amd.h"

/* Searches modules whose code contains this address.  False: there is none. */
static bool find_module_of(const void *code, char name[MODULE_NAME_LEN])
{
	struct kset *kset = THIS_MODULE->mkobj.kobj.kset;
	struct kobject *kobj;
	bool found = false;

	spin_lock(&kset->list_lock);
	list_for_each_entry(kobj, &kset->list, entry) {
		const struct module *module = container_of(kobj, struct module_kobject, kobj)->mod;

		/* Parts of the kernel that have parameters are in the set, too. */
		found = module && softgpu_in_module_text(code, module);
		if (found) {
			strscpy(name, module->name, MODULE_NAME_LEN);
			break;
		}
	}
	spin_unlock(&kset->list_lock);
	return found;
}

/* Most pointers of clients are recognized as data without a search. */
static bool is_code(const void *p, char name[MODULE_NAME_LEN])
{
	return !virt_addr_valid(p) && !object_is_on_stack(p) && find_module_of(p, name);
}

bool amd_built_for_1(const void *info)
{
	char name[MODULE_NAME_LEN];

	if (!is_code(info, name))
		return false;
	pr_err_ratelimited("%s was built for version 1.0 of amd_rdma_interface, and this is 2.0: get_pages is refused (AMD's driver would crash); build it with the header of 2.0, or load amdgpu with rdma_api=1\n",
			   name);
	return true;
}

bool amd_built_for_2(const void *callback, const void *priv)
{
	char name[MODULE_NAME_LEN];

	if (!is_code(priv, name) || is_code(callback, name))
		return false;
	pr_err_ratelimited("%s was built for version 2.0 of amd_rdma_interface, and this is 1.0: get_pages is refused (AMD's driver would write into the client's device); build it with the header of 1.0, or load amdgpu without rdma_api=1\n",
			   name);
	return true;
}
