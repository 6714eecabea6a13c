// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * pci.c - VRAM in the memory BAR of a virtual PCI device: QEMU's ivshmem-plain, whose BAR 2
 * is plain memory.
 *
 * The kernel's mapping is write-combining, as are the mappings that third-party drivers
 * give to programs: one range must have one memory type.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include "compat.h"
#include "softgpu.h"

#define VENDOR_QEMU	0x1af4
#define DEVICE_IVSHMEM	0x1110
#define VRAM_BAR	2

static u64 pci_phys(void *priv, u64 offset)
{
	const struct softgpu_device *device = priv;

	return device->backing.start + offset;
}

/* The same at every boot, and readable: "SGPU", then the device's PCI address. */
static void pci_uuid(const struct pci_dev *pdev, u8 uuid[16])
{
	memcpy(uuid, "SGPU", 4);
	put_unaligned_be16(pci_domain_nr(pdev->bus), uuid + 4);
	put_unaligned_be16(pci_dev_id((struct pci_dev *)pdev), uuid + 6);
}

static int pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct softgpu_device *device;
	int err;

	device = kzalloc(sizeof(*device), GFP_KERNEL);
	if (!device)
		return -ENOMEM;
	device->backing.pdev = pdev;
	device->backing.start = pci_resource_start(pdev, VRAM_BAR);
	device->backing.size = round_down(pci_resource_len(pdev, VRAM_BAR), SG_PAGE_SIZE);
	device->phys = pci_phys;
	device->parent = &pdev->dev;
	pci_uuid(pdev, device->uuid);
	err = -ENODEV;
	if (!device->backing.size) {
		pci_err(pdev, "BAR %d is too small for a GPU: 64 KiB at least\n", VRAM_BAR);
		goto free_device;
	}

	err = pci_enable_device_mem(pdev);
	if (err)
		goto free_device;
	err = pci_request_region(pdev, VRAM_BAR, KBUILD_MODNAME);
	if (err)
		goto disable;
	device->vram = memremap(device->backing.start, device->backing.size, MEMREMAP_WC);
	err = -ENOMEM;
	if (!device->vram)
		goto release;
	err = softgpu_pages_add(device, VRAM_BAR);
	if (err)
		goto unmap;
	err = softgpu_device_add(device);
	if (err)
		goto remove_pages;
	pci_set_drvdata(pdev, device);
	return 0;

remove_pages:
	softgpu_pages_remove(device);
unmap:
	memunmap(device->vram);
release:
	pci_release_region(pdev, VRAM_BAR);
disable:
	pci_disable_device(pdev);
free_device:
	kfree(device);
	return err;
}

static void pci_remove(struct pci_dev *pdev)
{
	struct softgpu_device *device = pci_get_drvdata(pdev);

	softgpu_device_remove(device);
	softgpu_pages_remove(device);
	memunmap(device->vram);
	pci_release_region(pdev, VRAM_BAR);
	pci_disable_device(pdev);
	kfree(device);
}

/*
 * No MODULE_DEVICE_TABLE, so that the module is not loaded automatically: in most virtual
 * machines this device is used for something else.
 */
static const struct pci_device_id pci_ids[] = {
	{ PCI_DEVICE(VENDOR_QEMU, DEVICE_IVSHMEM) },
	{ }
};

static struct pci_driver pci_driver = {
	.name = KBUILD_MODNAME,
	.id_table = pci_ids,
	.probe = pci_probe,
	.remove = pci_remove,
};

int softgpu_pci_init(void)
{
	return pci_register_driver(&pci_driver);
}

void softgpu_pci_uninit(void)
{
	pci_unregister_driver(&pci_driver);
}
