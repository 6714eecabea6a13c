/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * nic.h - the network controller, an Intel 82574, as a frame receiver.
 *
 * A receive descriptor has an address for a packet's headers, one for its payload, of up to
 * NIC_BLOCK bytes ("packet split"), and one for the rest of longer packets.  The controller
 * fills descriptors in their order.
 *
 * These functions do not lock.  ring.c calls them with its lock held.
 */
#ifndef GRABBER_NIC_H
#define GRABBER_NIC_H

#include <linux/io.h>
#include <linux/pci.h>

#include "grabber_wire.h"

#define NIC_SLOTS	256u	/* descriptors */
#define NIC_HEADERS	128u	/* bytes for the headers of a packet */
#define NIC_BLOCK	GRABBER_BLOCK
#define NIC_SCRATCH	16384u	/* the longest packet that the controller receives */

/* As the driver writes it. */
struct nic_read {
	__le64 headers;
	__le64 payload;
	__le64 rest;
	__le64 unused;
};

/* As the controller writes it back. */
struct nic_written {
	__le32 mrq;
	__le32 rss;
	__le32 status;
	__le16 headers_length;
	__le16 vlan;
	__le16 split;
	__le16 payload_length[3];
	__le64 reserved;
};

union nic_slot {
	struct nic_read read;
	struct nic_written written;
};

#define NIC_ODD		BIT(0)		/* addresses must not have it: it is where DONE will be */
#define NIC_DONE	BIT(0)		/* of status */
#define NIC_LAST	BIT(1)		/* the packet ends in this descriptor */
#define NIC_ERRORS	0x97000000	/* CRC, symbol, sequence, carrier, data */
#define NIC_SPLIT	BIT(15)		/* of split: headers and payload are apart */

struct nic {
	struct pci_dev *pdev;
	void __iomem *regs;
	union nic_slot *slots;		/* NIC_SLOTS of them; coherent memory, as the next three */
	u8 *headers;			/* NIC_HEADERS bytes for each */
	void *order_slot;
	void *order;
	void *scratch;			/* where goes what is received for no one */
	dma_addr_t slots_addr, headers_addr, order_slot_addr, order_addr, scratch_addr;
	u32 orders;			/* sent so far */
	u8 mac[6];
};

/* Allocates and resets; nothing is received.  May sleep. */
int nic_init(struct nic *nic, struct pci_dev *pdev, void __iomem *regs);
void nic_exit(struct nic *nic);

/*
 * Takes all descriptors back: when it returns, the controller writes to none of their
 * addresses.  May sleep.
 */
void nic_stop(struct nic *nic);
/* Begins at slot 0; no slot is given yet.  After nic_stop(). */
void nic_start(struct nic *nic);
/* The slots in front of `end' (0 to NIC_SLOTS - 1) are the controller's. */
void nic_give(struct nic *nic, u32 end);
/* Before nic_give(): where the next packet that gets this slot goes. */
void nic_aim(struct nic *nic, u32 slot, dma_addr_t payload);

/* Reads and clears the causes of an interrupt; 0: it was not ours.  Any context. */
u32 nic_causes(struct nic *nic);
void nic_irq_enable(struct nic *nic);
void nic_irq_disable(struct nic *nic);

/* Sends an order to the camera; its Ethernet header is filled in here. */
void nic_order(struct nic *nic, struct grabber_order *order);

#endif
