// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * slow_unbind.c - for tests of drivers that are told when the driver of a PCI function is unbound: two seconds pass between
 * that notification and the driver's own end.
 */
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/pci.h>

static int event(struct notifier_block *nb, unsigned long event, void *data)
{
	if (event != BUS_NOTIFY_UNBIND_DRIVER)
		return NOTIFY_DONE;
	dev_info(data, "others have been notified; its driver is unbound in two seconds\n");
	msleep(2000);
	return NOTIFY_OK;
}

/* After all others. */
static struct notifier_block notifier = { .notifier_call = event, .priority = INT_MIN };

static int __init slow_unbind_init(void)
{
	return bus_register_notifier(&pci_bus_type, &notifier);
}
module_init(slow_unbind_init);

static void __exit slow_unbind_exit(void)
{
	bus_unregister_notifier(&pci_bus_type, &notifier);
}
module_exit(slow_unbind_exit);

MODULE_DESCRIPTION("For tests: time between the notification of an unbind and the unbind");
MODULE_LICENSE("Dual MIT/GPL");
