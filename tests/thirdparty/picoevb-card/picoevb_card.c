// SPDX-License-Identifier: GPL-2.0
/*
 * picoevb_card.c - the FPGA of jetson-rdma-picoevb in software: an ivshmem function of QEMU under
 * another identity, with a thread that does what the card's DMA engine (Xilinx XDMA) does.
 *
 *	BAR 0	ivshmem's own: the LEDs' register is written, and has no effect
 *	BAR 1	registers: the first 64 KiB of ivshmem's memory, which the thread polls
 *	irq	a number of this module's own, which the thread raises
 *
 * The card has one channel in each direction, one descriptor for each run, and 64 KiB of memory.
 * Addresses are the device's: they are translated by the function's IOMMU domain.
 *
 * Load it before softgpu.ko, which takes all ivshmem functions with their own identity.
 */
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>

#define IVSHMEM_BAR	2
#define REGISTERS	1	/* the BAR that has none of its own */
#define CARD_MEMORY	SZ_64K

/* Registers of XDMA, those that the driver uses. A channel's block: 0 to the card, 1 from it. */
#define CHANNEL(n)	((n) * 0x1000)
#define CTRL		0x0004
#define CTRL_RUN	BIT(0)
#define STATUS_RD_CLR	0x0044
#define STATUS_STOPPED	BIT(1)
#define STATUS_COMPLETED	BIT(2)
#define STATUS_MAGIC	BIT(4)
#define STATUS_READ_ERR	BIT(9)
#define SGDMA(n)	(0x4000 + (n) * 0x1000)
#define DESC_LOW	0x80
#define DESC_HIGH	0x84

#define MAGIC		0xad4b

struct descriptor {
	u32 control, len, src, src_high, dst, dst_high, next, next_high;
};

static char *bdf = "";
module_param(bdf, charp, 0444);
MODULE_PARM_DESC(bdf, "PCI address of an ivshmem function");

static struct pci_dev *card;
static void __iomem *registers;
static void *memory;
static struct task_struct *engine;
static int irq;

static struct {
	unsigned short vendor, device, subsystem_vendor, subsystem_device;
	int irq;
} was;

/* Copies within one page of what the device reaches by this address. */
static int copy_piece(u64 address, void *ours, size_t n, bool to_card)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&card->dev);
	phys_addr_t phys = domain ? iommu_iova_to_phys(domain, address) : address;
	unsigned long flags = page_is_ram(PHYS_PFN(phys)) ? MEMREMAP_WB : MEMREMAP_WC;
	char *page = phys ? memremap(phys & PAGE_MASK, PAGE_SIZE, flags) : NULL;

	if (!page) {
		dev_err(&card->dev, "no memory at 0x%llx\n", address);
		return -EFAULT;
	}
	if (to_card)
		memcpy(ours, page + offset_in_page(phys), n);
	else
		memcpy(page + offset_in_page(phys), ours, n);
	memunmap(page);
	return 0;
}

static int copy(u64 address, void *ours, size_t length, bool to_card)
{
	for (size_t done = 0; done < length;) {
		size_t n = min_t(size_t, length - done, PAGE_SIZE - offset_in_page(address + done));
		int ret = copy_piece(address + done, ours + done, n, to_card);

		if (ret)
			return ret;
		done += n;
	}
	return 0;
}

/* One descriptor. Returns the channel's status. */
static u32 transfer(unsigned int channel)
{
	u64 at = readl(registers + SGDMA(channel) + DESC_LOW) |
		 (u64)readl(registers + SGDMA(channel) + DESC_HIGH) << 32;
	bool to_card = !channel;
	struct descriptor d;
	u64 src, dst, card_offset, address;

	if (copy(at, &d, sizeof(d), true))
		return STATUS_READ_ERR | STATUS_STOPPED;
	if (d.control >> 16 != MAGIC)
		return STATUS_MAGIC | STATUS_STOPPED;
	src = d.src | (u64)d.src_high << 32;
	dst = d.dst | (u64)d.dst_high << 32;
	card_offset = to_card ? dst : src;
	address = to_card ? src : dst;
	if (card_offset > CARD_MEMORY || d.len > CARD_MEMORY - card_offset ||
	    copy(address, memory + card_offset, d.len, to_card))
		return STATUS_READ_ERR | STATUS_STOPPED;
	return STATUS_STOPPED | STATUS_COMPLETED;
}

static void raise_irq(void)
{
	unsigned long flags;

	local_irq_save(flags);
	generic_handle_irq(irq);
	local_irq_restore(flags);
}

/* The status is the handler's alone: there it is read, which clears it on the card. */
static void serve(unsigned int channel)
{
	void __iomem *block = registers + CHANNEL(channel);
	u32 status;

	if (!(readl(block + CTRL) & CTRL_RUN))
		return;
	status = transfer(channel);
	writel(0, block + CTRL);
	writel(status, block + STATUS_RD_CLR);
	raise_irq();
	writel(0, block + STATUS_RD_CLR);
}

static int engine_main(void *unused)
{
	while (!kthread_should_stop()) {
		serve(0);
		serve(1);
		usleep_range(20, 50);
	}
	return 0;
}

static void put_on_identity(void)
{
	struct resource *window = &card->resource[IVSHMEM_BAR];
	struct resource *bar = &card->resource[REGISTERS];

	was.vendor = card->vendor;
	was.device = card->device;
	was.subsystem_vendor = card->subsystem_vendor;
	was.subsystem_device = card->subsystem_device;
	was.irq = card->irq;
	card->vendor = PCI_VENDOR_ID_NVIDIA;
	card->device = 1;
	card->subsystem_vendor = PCI_VENDOR_ID_NVIDIA;
	card->subsystem_device = 1;
	card->irq = irq;
	bar->name = pci_name(card);
	bar->start = window->start;
	bar->end = window->start + CARD_MEMORY - 1;
	bar->flags = IORESOURCE_MEM;
	bar->parent = window;	/* enabling the function asks for one; it is not in its list */
}

static void take_off_identity(void)
{
	memset(&card->resource[REGISTERS], 0, sizeof(struct resource));
	card->vendor = was.vendor;
	card->device = was.device;
	card->subsystem_vendor = was.subsystem_vendor;
	card->subsystem_device = was.subsystem_device;
	card->irq = was.irq;
}

static int find_card(void)
{
	unsigned int domain, bus, slot, function;

	if (sscanf(bdf, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return -EINVAL;
	card = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, function));
	if (!card)
		return -ENODEV;
	if (!card->driver && pci_resource_len(card, IVSHMEM_BAR) >= CARD_MEMORY)
		return 0;
	pci_dev_put(card);
	return -EBUSY;
}

static int make_irq(void)
{
	irq = irq_alloc_desc(numa_node_id());
	if (irq < 0)
		return irq;
	irq_set_chip_and_handler(irq, &dummy_irq_chip, handle_simple_irq);
	irq_clear_status_flags(irq, IRQ_NOREQUEST);
	return 0;
}

static int __init begin(void)
{
	int ret = find_card();

	if (ret)
		return ret;
	ret = make_irq();
	if (ret)
		goto put;
	ret = -ENOMEM;
	memory = vzalloc(CARD_MEMORY);
	registers = ioremap(pci_resource_start(card, IVSHMEM_BAR), CARD_MEMORY);
	if (!memory || !registers)
		goto free;
	memset_io(registers, 0, CARD_MEMORY);
	engine = kthread_run(engine_main, NULL, "picoevb_card");
	if (IS_ERR(engine)) {
		ret = PTR_ERR(engine);
		goto free;
	}
	put_on_identity();
	return 0;
free:
	if (registers)
		iounmap(registers);
	vfree(memory);
	irq_free_desc(irq);
put:
	pci_dev_put(card);
	return ret;
}

static void __exit end(void)
{
	kthread_stop(engine);
	take_off_identity();
	iounmap(registers);
	vfree(memory);
	irq_free_desc(irq);
	pci_dev_put(card);
}

module_init(begin);
module_exit(end);
MODULE_DESCRIPTION("The FPGA of jetson-rdma-picoevb, in software");
MODULE_LICENSE("GPL");
