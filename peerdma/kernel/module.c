// SPDX-License-Identifier: MIT OR GPL-2.0
/* module.c - loads and unloads peerdma.ko. */
#include <linux/module.h>

#include "core/path.h"
#include "objects/pages.h"
#include "objects/reserve.h"
#include "objects/view.h"
#include "providers/dmabuf.h"
#include "providers/host.h"
#include "users/debugfs.h"
#include "users/devices.h"
#include "users/file.h"

static int __init peerdma_init(void)
{
	int err;

	peerdma_host_init();
	peerdma_dmabuf_init();
	err = peerdma_pin_table_init();
	if (err)
		return err;
	err = peerdma_reserve_init();
	if (err)
		goto pin_table_exit;
	err = peerdma_view_init();
	if (err)
		goto reserve_exit;
	err = peerdma_pages_init();
	if (err)
		goto view_exit;
	peerdma_debugfs_init();
	err = peerdma_path_init();
	if (err)
		goto debugfs_exit;
	err = peerdma_devices_init();
	if (err)
		goto path_exit;
	err = peerdma_file_init();
	if (err)
		goto devices_exit;
	return 0;

devices_exit:
	peerdma_devices_exit();
path_exit:
	peerdma_path_exit();
debugfs_exit:
	peerdma_debugfs_exit();
	peerdma_pages_exit();
view_exit:
	peerdma_view_exit();
reserve_exit:
	peerdma_reserve_exit();
pin_table_exit:
	peerdma_pin_table_exit();
	peerdma_accounts_exit();
	return err;
}

static void __exit peerdma_exit(void)
{
	peerdma_file_exit();
	peerdma_devices_exit();
	peerdma_path_exit();
	peerdma_debugfs_exit();
	peerdma_pages_exit();
	peerdma_view_exit();
	peerdma_reserve_exit();
	peerdma_pin_table_exit();
	peerdma_accounts_exit();
}

module_init(peerdma_init);
module_exit(peerdma_exit);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("Pins memory of GPUs and hosts for DMA by other devices");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
