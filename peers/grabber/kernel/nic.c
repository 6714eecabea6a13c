// SPDX-License-Identifier: MIT OR GPL-2.0
/* nic.c - the registers of the 82574 that a grabber needs (Intel's datasheet, chapter 10). */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>

#include "nic.h"

#define CTRL		0x0000
#define STATUS		0x0008
#define ICR		0x00c0
#define ITR		0x00c4
#define IMS		0x00d0
#define IMC		0x00d8
#define RCTL		0x0100
#define TCTL		0x0400
#define RDTR		0x2820
#define PSRCTL		0x2170
#define RDBAL		0x2800
#define RDBAH		0x2804
#define RDLEN		0x2808
#define RDH		0x2810
#define RDT		0x2818
#define TDBAL		0x3800
#define TDBAH		0x3804
#define TDLEN		0x3808
#define TDH		0x3810
#define TDT		0x3818
#define RXCSUM		0x5000
#define RFCTL		0x5008
#define RAL		0x5400
#define RAH		0x5404

#define CTRL_SLU	BIT(6)		/* set link up */
#define CTRL_RST	BIT(26)

#define RCTL_EN		BIT(1)
#define RCTL_LPE	BIT(5)		/* packets longer than 1,522 bytes */
#define RCTL_SPLIT	BIT(10)		/* descriptor type: packet split */
#define RCTL_SECRC	BIT(26)		/* the packet's CRC is not written */

#define RFCTL_EXTEN	BIT(15)		/* extended descriptors, which packet split needs */

/*
 * Buffer 0 in units of 128 bytes, buffers 1 and 2 in KiB.  Buffer 2 takes what a packet has
 * more than a block: no packet may reach into the next descriptor.
 */
#define PSRCTL_SIZES	(NIC_HEADERS / 128 | NIC_BLOCK / 1024 << 8 | NIC_SCRATCH / 1024 << 16)

#define TCTL_EN		BIT(1)
#define TCTL_PSP	BIT(3)		/* short packets are padded */

/* A packet, an overrun, few slots, queue 0. */
#define IRQ_RX		(BIT(7) | BIT(6) | BIT(4) | BIT(20))

#define TX_SLOTS	8u
struct tx_slot {
	__le64 address;
	__le16 length;
	u8 checksum_offset;
	u8 command;
	u8 status;
	u8 checksum_start;
	__le16 special;
};

#define TX_END		(BIT(0) | BIT(1) | BIT(3))	/* end of packet, insert CRC, report */

static u32 get(struct nic *nic, u32 reg)
{
	return readl(nic->regs + reg);
}

static void set(struct nic *nic, u32 reg, u32 value)
{
	writel(value, nic->regs + reg);
}

static void reset(struct nic *nic)
{
	set(nic, IMC, ~0u);
	set(nic, RCTL, 0);
	set(nic, TCTL, 0);
	get(nic, STATUS);
	usleep_range(10000, 11000);
	set(nic, CTRL, get(nic, CTRL) | CTRL_RST);
	usleep_range(10000, 11000);
	set(nic, IMC, ~0u);
	get(nic, ICR);
	set(nic, CTRL, get(nic, CTRL) | CTRL_SLU);
}

static void read_mac(struct nic *nic)
{
	u32 low = get(nic, RAL), high = get(nic, RAH);
	int i;

	for (i = 0; i < 4; i++)
		nic->mac[i] = low >> 8 * i;
	nic->mac[4] = high;
	nic->mac[5] = high >> 8;
}

static void *memory(struct nic *nic, size_t size, dma_addr_t *addr)
{
	return dma_alloc_coherent(&nic->pdev->dev, size, addr, GFP_KERNEL);
}

static void give_back(struct nic *nic, size_t size, void *at, dma_addr_t addr)
{
	if (at)
		dma_free_coherent(&nic->pdev->dev, size, at, addr);
}

#define SLOTS_SIZE	(NIC_SLOTS * sizeof(union nic_slot))
#define ORDERS_SIZE	(TX_SLOTS * sizeof(struct tx_slot))
/* One order for each slot: the controller may still read the one before. */
#define ORDER_ROOM	64u

static void free_memory(struct nic *nic)
{
	give_back(nic, SLOTS_SIZE, nic->slots, nic->slots_addr);
	give_back(nic, NIC_SLOTS * NIC_HEADERS, nic->headers, nic->headers_addr);
	give_back(nic, NIC_SCRATCH, nic->scratch, nic->scratch_addr);
	give_back(nic, ORDERS_SIZE, nic->order_slot, nic->order_slot_addr);
	give_back(nic, TX_SLOTS * ORDER_ROOM, nic->order, nic->order_addr);
}

int nic_init(struct nic *nic, struct pci_dev *pdev, void __iomem *regs)
{
	BUILD_BUG_ON(sizeof(union nic_slot) != 32);
	BUILD_BUG_ON(sizeof(struct tx_slot) != 16);
	BUILD_BUG_ON(sizeof(struct grabber_headers) > NIC_HEADERS);
	BUILD_BUG_ON(sizeof(struct grabber_order) > ORDER_ROOM);
	nic->pdev = pdev;
	nic->regs = regs;
	nic->slots = memory(nic, SLOTS_SIZE, &nic->slots_addr);
	nic->headers = memory(nic, NIC_SLOTS * NIC_HEADERS, &nic->headers_addr);
	nic->scratch = memory(nic, NIC_SCRATCH, &nic->scratch_addr);
	nic->order_slot = memory(nic, ORDERS_SIZE, &nic->order_slot_addr);
	nic->order = memory(nic, TX_SLOTS * ORDER_ROOM, &nic->order_addr);
	if (!nic->slots || !nic->headers || !nic->scratch || !nic->order_slot || !nic->order) {
		free_memory(nic);
		return -ENOMEM;
	}
	reset(nic);
	read_mac(nic);
	/* No delay: interrupts are masked while packets are taken, which is moderation enough. */
	set(nic, ITR, 0);
	set(nic, RDTR, 0);
	set(nic, RXCSUM, 0);
	set(nic, RFCTL, RFCTL_EXTEN);
	set(nic, PSRCTL, PSRCTL_SIZES);
	set(nic, RDBAL, lower_32_bits(nic->slots_addr));
	set(nic, RDBAH, upper_32_bits(nic->slots_addr));
	set(nic, RDLEN, SLOTS_SIZE);
	set(nic, TDBAL, lower_32_bits(nic->order_slot_addr));
	set(nic, TDBAH, upper_32_bits(nic->order_slot_addr));
	set(nic, TDLEN, ORDERS_SIZE);
	set(nic, TDH, 0);
	set(nic, TDT, 0);
	set(nic, TCTL, TCTL_EN | TCTL_PSP);
	return 0;
}

void nic_exit(struct nic *nic)
{
	nic_stop(nic);
	reset(nic);
	free_memory(nic);
}

void nic_stop(struct nic *nic)
{
	set(nic, RCTL, 0);
	get(nic, STATUS);
	/*
	 * The controller ends the packet that it is at, and has no sign for that.  The longest one
	 * takes 72 us on the wire.
	 */
	usleep_range(150, 300);
	set(nic, RDH, 0);
	set(nic, RDT, 0);
}

void nic_start(struct nic *nic)
{
	set(nic, RCTL, RCTL_EN | RCTL_LPE | RCTL_SPLIT | RCTL_SECRC);
}

void nic_give(struct nic *nic, u32 end)
{
	dma_wmb();
	/* The tail counts descriptors of 16 bytes. */
	set(nic, RDT, 2 * end);
}

void nic_aim(struct nic *nic, u32 slot, dma_addr_t payload)
{
	nic->slots[slot].read = (struct nic_read){
		.headers = cpu_to_le64(nic->headers_addr + slot * NIC_HEADERS),
		.payload = cpu_to_le64(payload),
		.rest = cpu_to_le64(nic->scratch_addr),
	};
}

u32 nic_causes(struct nic *nic)
{
	u32 causes = get(nic, ICR);

	set(nic, ICR, causes);
	return causes & IRQ_RX;
}

void nic_irq_enable(struct nic *nic)
{
	set(nic, IMS, IRQ_RX);
}

void nic_irq_disable(struct nic *nic)
{
	set(nic, IMC, ~0u);
}

void nic_order(struct nic *nic, struct grabber_order *order)
{
	u32 slot = nic->orders++ % TX_SLOTS;
	struct tx_slot *tx = (struct tx_slot *)nic->order_slot + slot;

	eth_broadcast_addr(order->ethernet.to);
	ether_addr_copy(order->ethernet.from, nic->mac);
	order->ethernet.type = cpu_to_be16(GRABBER_ORDER_TYPE);
	memcpy(nic->order + slot * ORDER_ROOM, order, sizeof(*order));
	*tx = (struct tx_slot){
		.address = cpu_to_le64(nic->order_addr + slot * ORDER_ROOM),
		.length = cpu_to_le16(sizeof(*order)),
		.command = TX_END,
	};
	dma_wmb();
	set(nic, TDT, (slot + 1) % TX_SLOTS);
}
