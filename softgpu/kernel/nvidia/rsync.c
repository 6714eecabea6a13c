// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * rsync.c - functions for ordering of peer writes on POWER9, for clients that link to these
 * symbols.
 */
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include "p2p.h"

static DEFINE_MUTEX(lock);
static const nvidia_p2p_rsync_driver_t *registered;
static void *registered_data;

int nvidia_p2p_register_rsync_driver(nvidia_p2p_rsync_driver_t *driver, void *data)
{
	int err = 0;

	if (!driver || !NVIDIA_P2P_RSYNC_DRIVER_VERSION_COMPATIBLE(driver) ||
	    !driver->get_relaxed_ordering_mode || !driver->put_relaxed_ordering_mode ||
	    !driver->wait_for_rsync)
		return -EINVAL;
	mutex_lock(&lock);
	if (registered || softgpu_in_use()) {
		err = -EBUSY;
	} else {
		registered = driver;
		registered_data = data;
	}
	mutex_unlock(&lock);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_register_rsync_driver);

void nvidia_p2p_unregister_rsync_driver(nvidia_p2p_rsync_driver_t *driver, void *data)
{
	mutex_lock(&lock);
	if (registered == driver && registered_data == data) {
		registered = NULL;
		registered_data = NULL;
	}
	mutex_unlock(&lock);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_unregister_rsync_driver);

int nvidia_p2p_get_rsync_registers(nvidia_p2p_rsync_reg_info_t **reg_info)
{
	if (reg_info)
		*reg_info = NULL;
	return -ENODEV;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_rsync_registers);

void nvidia_p2p_put_rsync_registers(nvidia_p2p_rsync_reg_info_t *reg_info)
{
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_rsync_registers);
