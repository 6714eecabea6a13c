// SPDX-License-Identifier: MIT OR GPL-2.0
/* amdp2p.c - has the name of a peer-memory client, and does nothing: for peerdma_peermem.ko to refuse. */
#include <linux/module.h>

static int __init amdp2p_init(void)
{
	return 0;
}

static void __exit amdp2p_exit(void)
{
}

module_init(amdp2p_init);
module_exit(amdp2p_exit);
MODULE_DESCRIPTION("Has another client's name, for tests");
MODULE_LICENSE("Dual MIT/GPL");
