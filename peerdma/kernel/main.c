// SPDX-License-Identifier: MIT OR GPL-2.0
/* main.c - peerdma.ko comes and goes. */
#include <linux/module.h>

#include "devices.h"
#include "pin.h"

static int __init peerdma_init(void)
{
	int err;

	peerdma_provider_init();
	err = peerdma_slots_init();
	if (err)
		return err;
	err = peerdma_view_init();
	if (err)
		goto slots_exit;
	peerdma_debugfs_init();
	err = peerdma_devices_init();
	if (err)
		goto debugfs_exit;
	err = peerdma_uapi_init();
	if (err)
		goto devices_exit;
	return 0;

devices_exit:
	peerdma_devices_exit();
debugfs_exit:
	peerdma_debugfs_exit();
	peerdma_view_exit();
slots_exit:
	peerdma_slots_exit();
	return err;
}

static void __exit peerdma_exit(void)
{
	peerdma_uapi_exit();
	peerdma_devices_exit();
	peerdma_debugfs_exit();
	peerdma_view_exit();
	peerdma_slots_exit();
}

module_init(peerdma_init);
module_exit(peerdma_exit);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("Pins memory of GPUs and hosts for DMA by other devices");
MODULE_LICENSE("Dual MIT/GPL");
