/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * card.h - one card, and its DMA engine.
 *
 * Lock order: job, then lock.  Neither is taken by peerdma.
 *
 *   job   one copy at a time; held across all of a copy, peerdma's calls
 *         included.  A revocation never takes it (peerdma_unpin() waits for
 *         revocations while a copy holds it).
 *   lock  the engine's state: engine registers, busy, cut_off, gone, a job's
 *         stop flag.  Taken by the interrupt handler.
 */
#ifndef FPGA_CARD_H
#define FPGA_CARD_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#define CARD_BUFFER_SIZE	4096u
/*
 * The engine refuses a transfer that reaches the buffer's last byte, by
 * stopping the whole machine; 4092 keeps transfers a multiple of 4 bytes.
 */
#define CARD_MAX_TRANSFER	4092u

enum card_direction {
	CARD_READS,	/* bus to card */
	CARD_WRITES,	/* card to bus */
};

struct fpga_card {
	struct kref ref;	/* the driver's, and one per open file */
	int index;
	char name[16];
	struct miscdevice misc;
	struct pci_dev *pdev;	/* valid until gone */
	void __iomem *regs;	/* valid until gone */

	struct mutex job;	/* see the top */
	spinlock_t lock;	/* see the top */
	bool busy;		/* the engine runs */
	bool cut_off;		/* bus mastering was taken away from a stuck engine */
	bool gone;		/* the device was removed; set once */
	wait_queue_head_t idle;	/* woken when the engine is idle or cut off */

	/* Figures for INFO. */
	atomic_t pins;
	atomic_t mappings;
	atomic64_t transfers;
	atomic64_t interrupts;
	atomic64_t bytes[2];	/* by enum card_direction */
	atomic64_t revocations;
	atomic64_t timeouts;
};

extern unsigned int card_timeout_ms;

int card_hw_init(struct fpga_card *card);
void card_hw_uninit(struct fpga_card *card);
irqreturn_t card_interrupt(int irq, void *data);

/* A copy's steps; the caller holds job. */
int card_ready(struct fpga_card *card);
int card_transfer(struct fpga_card *card, enum card_direction dir, u64 bus_addr, u32 length,
		  const bool *stop);

/* Sets *stop, and returns when no DMA can happen any more.  Called without job. */
void card_stop(struct fpga_card *card, bool *stop);

struct fpga_card *card_get(struct fpga_card *card);
void card_put(struct fpga_card *card);

/* An open file, and counts of what the card did for it. */
struct fpga_client {
	struct fpga_card *card;
	struct list_head node;	/* clients.c */
	pid_t tgid;		/* of the process that opened it, in the first namespace */
	char comm[TASK_COMM_LEN];
	char device[24];	/* the card's PCI address */
	atomic64_t copies;
	atomic64_t bytes[2];	/* by enum card_direction */
	atomic64_t revocations;
};

/* clients.c */
struct fpga_client *client_new(struct fpga_card *card);
void client_end(struct fpga_client *client);
void clients_init(void);
void clients_exit(void);

/* copy.c */
struct fpga_copy;
int fpga_copy_run(struct fpga_client *client, struct fpga_copy *args);

/* file.c */
extern const struct file_operations fpga_fops;

#endif
