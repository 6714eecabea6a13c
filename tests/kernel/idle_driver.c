// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * idle_driver.c - a driver that does nothing, for cards that a program controls: nothing is
 * mapped for a device behind an IOMMU while it has no driver.  It takes the devices whose
 * driver_override names it.
 */
#include <linux/module.h>
#include <linux/pci.h>

static int idle_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	return pci_enable_device(pdev);
}

static void idle_remove(struct pci_dev *pdev)
{
	pci_disable_device(pdev);
}

static struct pci_driver idle = {
	.name = "idle_driver",
	.probe = idle_probe,
	.remove = idle_remove,
};
module_pci_driver(idle);

MODULE_DESCRIPTION("For tests: a driver that does nothing");
MODULE_LICENSE("Dual MIT/GPL");
