// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * main.c - peerdma_grabber: a driver for a frame grabber, as an example of a capture driver
 * that writes frames into GPU memory by DMA.  The grabber is a network controller, an Intel
 * 82574 (8086:10d3), whose wire leads to a camera (grabber_wire.h).
 *
 * In a real machine such a controller is a network card.  So the kernel never loads this driver
 * by itself.
 */
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "compat.h"
#include "grabber.h"

/* The last file is closed, and the device gone. */
static void release(struct v4l2_device *v4l2)
{
	struct grabber *g = container_of(v4l2, struct grabber, v4l2);

	v4l2_device_unregister(v4l2);
	mutex_destroy(&g->lock);
	kfree(g);
}

static int hw_up(struct grabber *g)
{
	struct pci_dev *pdev = g->pdev;
	void __iomem *regs;
	int err;

	err = pci_enable_device_mem(pdev);
	if (err)
		return err;
	err = pci_request_regions(pdev, KBUILD_MODNAME);
	if (err)
		goto disable;
	regs = pci_iomap(pdev, 0, 0);
	if (!regs) {
		err = -ENOMEM;
		goto regions;
	}
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (err)
		goto unmap;
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	pci_set_master(pdev);
	err = ring_init(&g->ring, pdev, regs);
	if (err)
		goto master;
	err = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSI);
	if (err < 0)
		goto ring;
	err = request_threaded_irq(pci_irq_vector(pdev, 0), ring_interrupt, ring_thread, 0,
				   KBUILD_MODNAME, &g->ring);
	if (err)
		goto vectors;
	return 0;

vectors:
	pci_free_irq_vectors(pdev);
ring:
	ring_exit(&g->ring);
master:
	pci_clear_master(pdev);
unmap:
	pci_iounmap(pdev, regs);
regions:
	pci_release_regions(pdev);
disable:
	pci_disable_device(pdev);
	return err;
}

static void hw_down(struct grabber *g)
{
	struct pci_dev *pdev = g->pdev;

	free_irq(pci_irq_vector(pdev, 0), &g->ring);
	pci_free_irq_vectors(pdev);
	ring_exit(&g->ring);
	pci_clear_master(pdev);
	pci_iounmap(pdev, g->ring.nic.regs);
	pci_release_regions(pdev);
	pci_disable_device(pdev);
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct grabber *g = kzalloc(sizeof(*g), GFP_KERNEL);
	int err;

	if (!g)
		return -ENOMEM;
	g->pdev = pdev;
	mutex_init(&g->lock);
	video_default(&g->picture);
	g->v4l2.release = release;
	err = v4l2_device_register(&pdev->dev, &g->v4l2);
	if (err) {
		kfree(g);
		return err;
	}
	pci_set_drvdata(pdev, g);
	err = hw_up(g);
	if (err)
		goto put;
	err = queue_init(g);
	if (err)
		goto hw;
	clients_add(g);
	err = video_init(g);
	if (err)
		goto remove;
	dev_info(&pdev->dev, "/dev/%s: frames from the camera on its wire\n",
		 video_device_node_name(&g->video));
	return 0;

remove:
	clients_remove(g);
hw:
	hw_down(g);
put:
	v4l2_device_put(&g->v4l2);
	return err;
}

static void remove(struct pci_dev *pdev)
{
	struct grabber *g = pci_get_drvdata(pdev);

	vb2_video_unregister_device(&g->video);
	clients_remove(g);
	hw_down(g);
	v4l2_device_disconnect(&g->v4l2);
	v4l2_device_put(&g->v4l2);
}

/* No MODULE_DEVICE_TABLE: see the top. */
static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(0x8086, 0x10d3) },
	{ }
};

static struct pci_driver driver = {
	.name = KBUILD_MODNAME,
	.id_table = ids,
	.probe = probe,
	.remove = remove,
};

static int __init grabber_init(void)
{
	int err;

	clients_init();
	err = pci_register_driver(&driver);
	if (err)
		clients_exit();
	return err;
}
module_init(grabber_init);

static void __exit grabber_exit(void)
{
	pci_unregister_driver(&driver);
	clients_exit();
}
module_exit(grabber_exit);

MODULE_DESCRIPTION("Frame grabber (Intel 82574 with a camera on its wire) for GPU memory");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
GRABBER_IMPORT_DMA_BUF;
