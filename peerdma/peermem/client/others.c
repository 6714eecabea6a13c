// SPDX-License-Identifier: MIT OR GPL-2.0
/* others.c - see others.h. */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/kernfs.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/notifier.h>

#include "others.h"

#define NAME	"peerdma_peermem: "

static const char *const modules[] = { "nv_peer_mem", "nvidia_peermem", "amdp2p" };

/*
 * Names that other clients register: those that are part of a GPU's driver, or of modules
 * with other names.
 */
static const char *const peers[] = { "nv_mem", "nv_mem_nc", "amdkfd" };

/* Is this module loaded? Each has a kobject in the kset of our own. */
static bool loaded(const char *name)
{
	struct kobject *kobj = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, name);

	kobject_put(kobj);
	return kobj;
}

/* Is there a client of this name in /sys/kernel/mm/memory_peers, where cores list them? */
static bool listed(const char *name)
{
	const char *const folders[] = { "mm", "memory_peers", name };
	struct kernfs_node *node = kernel_kobj->sd, *next;
	size_t i;

	kernfs_get(node);
	for (i = 0; node && i < ARRAY_SIZE(folders); i++) {
		next = kernfs_find_and_get(node, folders[i]);
		kernfs_put(node);
		node = next;
	}
	kernfs_put(node);
	return node;
}

/* A module is about to run its init function: here it can still be refused. */
static int coming(struct notifier_block *nb, unsigned long state, void *data)
{
	const struct module *module = data;
	size_t i;

	if (state != MODULE_STATE_COMING)
		return NOTIFY_OK;
	for (i = 0; i < ARRAY_SIZE(modules); i++) {
		if (strcmp(module->name, modules[i]))
			continue;
		pr_err(NAME "%s is refused: it is a peer-memory client for the same memory; to use it, rmmod peerdma_peermem first\n",
		       module->name);
		return notifier_from_errno(-EBUSY);
	}
	return NOTIFY_OK;
}

static struct notifier_block notifier = {
	.notifier_call = coming,
};

static int find(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(modules); i++) {
		if (!loaded(modules[i]))
			continue;
		pr_err(NAME "not loaded: the module %s is a peer-memory client for the same memory; rmmod %s first\n",
		       modules[i], modules[i]);
		return -EBUSY;
	}
	for (i = 0; i < ARRAY_SIZE(peers); i++) {
		if (!listed(peers[i]))
			continue;
		pr_err(NAME "not loaded: the RDMA core has a client for the same memory already, /sys/kernel/mm/memory_peers/%s; unload the module that registered it first\n",
		       peers[i]);
		return -EBUSY;
	}
	return 0;
}

int peermem_others_init(void)
{
	int err = register_module_notifier(&notifier);

	if (err)
		return err;
	/*
	 * Modules that load from here on are refused, so what find() does not see cannot
	 * appear later.
	 */
	err = find();
	if (err)
		unregister_module_notifier(&notifier);
	return err;
}

void peermem_others_exit(void)
{
	unregister_module_notifier(&notifier);
}
