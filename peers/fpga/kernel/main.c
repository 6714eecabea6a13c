// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * main.c - peerdma_fpga: a driver for an FPGA card with a DMA engine, as an example of a
 * third party's driver that reaches GPU memory through peerdma.  The card is QEMU's `edu`
 * device (1234:11e8), which must be given dma_mask=0xffffffffffffffff: otherwise it cuts
 * addresses to 28 bits and writes to wrong memory.
 */
#include <linux/dma-mapping.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "card.h"

module_param_named(timeout_ms, card_timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "milliseconds after which a transfer has failed (default 5000)");

static DEFINE_IDA(card_indices);

static int fpga_hw_up(struct fpga_card *card)
{
	struct pci_dev *pdev = card->pdev;
	int ret;

	ret = pci_enable_device(pdev);
	if (ret)
		return ret;
	ret = pci_request_regions(pdev, "peerdma_fpga");
	if (ret)
		goto err_disable;
	card->regs = pci_iomap(pdev, 0, 0);
	if (!card->regs) {
		ret = -ENOMEM;
		goto err_release;
	}
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		goto err_iounmap;
	/* Segments may have any size: copy.c cuts them to the engine's. */
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	ret = card_hw_init(card);
	if (ret)
		goto err_iounmap;
	pci_set_master(pdev);
	ret = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSI);
	if (ret < 0)
		goto err_clear_master;
	ret = pci_request_irq(pdev, 0, card_interrupt, NULL, card, "%s", card->name);
	if (ret)
		goto err_vectors;
	return 0;

err_vectors:
	pci_free_irq_vectors(pdev);
err_clear_master:
	card_hw_uninit(card);
err_iounmap:
	pci_iounmap(pdev, card->regs);
err_release:
	pci_release_regions(pdev);
err_disable:
	pci_disable_device(pdev);
	return ret;
}

static void fpga_hw_down(struct fpga_card *card)
{
	struct pci_dev *pdev = card->pdev;

	card_hw_uninit(card);
	pci_free_irq(pdev, 0, card);
	pci_free_irq_vectors(pdev);
	pci_iounmap(pdev, card->regs);
	pci_release_regions(pdev);
	pci_disable_device(pdev);
}

static int fpga_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct fpga_card *card;
	int ret;

	card = kzalloc(sizeof(*card), GFP_KERNEL);
	if (!card)
		return -ENOMEM;
	kref_init(&card->ref);
	sema_init(&card->turn, 1);
	INIT_LIST_HEAD(&card->users);
	spin_lock_init(&card->lock);
	init_waitqueue_head(&card->idle);
	card->pdev = pdev;

	ret = ida_alloc(&card_indices, GFP_KERNEL);
	if (ret < 0)
		goto err_put;
	card->index = ret;
	snprintf(card->name, sizeof(card->name), "fpga%d", card->index);

	ret = fpga_hw_up(card);
	if (ret)
		goto err_index;
	pci_set_drvdata(pdev, card);

	card->misc = (struct miscdevice){
		.minor = MISC_DYNAMIC_MINOR,
		.name = card->name,
		.fops = &fpga_fops,
		.parent = &pdev->dev,
		.mode = 0666,	/* fpga_ioctl.h says why that is safe */
	};
	ret = misc_register(&card->misc);
	if (ret)
		goto err_hw;
	dev_info(&pdev->dev, "/dev/%s: a DMA engine with a buffer of %u bytes\n", card->name,
		 CARD_BUFFER_SIZE);
	return 0;

err_hw:
	fpga_hw_down(card);
err_index:
	ida_free(&card_indices, card->index);
err_put:
	card_put(card);
	return ret;
}

static void fpga_remove(struct pci_dev *pdev)
{
	struct fpga_card *card = pci_get_drvdata(pdev);

	misc_deregister(&card->misc);

	/* A copy under way ends before its next transfer, and unmaps. */
	card_close(card);
	fpga_hw_down(card);

	ida_free(&card_indices, card->index);
	card_put(card);
}

/* No MODULE_DEVICE_TABLE: a device for tests, so the module is not loaded automatically. */
static const struct pci_device_id fpga_ids[] = {
	{ PCI_DEVICE(0x1234, 0x11e8) },
	{ }
};

static struct pci_driver fpga_driver = {
	.name = "peerdma_fpga",
	.id_table = fpga_ids,
	.probe = fpga_probe,
	.remove = fpga_remove,
};
static int __init fpga_init(void)
{
	int ret;

	clients_init();
	ret = pci_register_driver(&fpga_driver);
	if (ret)
		clients_exit();
	return ret;
}
module_init(fpga_init);

static void __exit fpga_exit(void)
{
	pci_unregister_driver(&fpga_driver);
	clients_exit();
}
module_exit(fpga_exit);

MODULE_DESCRIPTION("FPGA card with a DMA engine (QEMU edu), on peerdma");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
/* Namespaces became strings in 6.13. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif
