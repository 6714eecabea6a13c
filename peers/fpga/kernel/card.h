/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * card.h - one card, and its DMA engine.
 *
 * A copy pins its memory first and holds nothing meanwhile, since a page of a program may
 * never come.  Then it enters the device, maps the memory, and takes a turn for each piece.
 *
 * Order: device, a user's turn, the card's turn, lock.
 *
 *   device  card_enter(): the device stays bound to the driver.  For mappings and transfers.
 *           fpga_remove() waits until the last copy has left, which each does after its piece.
 *   turns   card_turn_begin(): the engine, for one piece.  A user's turn, then the card's: so
 *           users get the engine one after another, and a user's copies share that user's
 *           part.  Semaphores, since up() hands over to the thread that waits longest; a
 *           mutex would let the same copy take it again.  No memory is accessed, allocated or
 *           pinned meanwhile.  A revocation takes no turn.
 *   lock    the engine's state: engine registers, running, cut_off, gone, inside, a job's
 *           fields.  Taken by the interrupt handler.
 */
#ifndef FPGA_CARD_H
#define FPGA_CARD_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/pci.h>
#include <linux/sched.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
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

/* A copy, as the engine sees it.  card->lock. */
struct card_job {
	bool stop;		/* no further transfer begins */
	u32 interrupts;		/* of its transfers */
};

struct fpga_card {
	struct kref ref;	/* the driver's, and one per open file */
	int index;
	char name[16];
	struct miscdevice misc;
	struct pci_dev *pdev;	/* valid until gone */
	void __iomem *regs;	/* valid until gone */

	struct semaphore turn;	/* see the top */
	struct list_head users;	/* clients.c */
	spinlock_t lock;	/* see the top */
	struct card_job *running;	/* the job whose transfer the engine makes */
	bool cut_off;		/* bus mastering was taken away from a stuck engine */
	bool gone;		/* the device was removed; set once */
	u32 inside;		/* copies that use the device */
	wait_queue_head_t idle;	/* woken when the engine is idle or cut off, or no copy is inside */

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

/* -ENODEV: the device was removed.  Until card_leave(), it stays. */
int card_enter(struct fpga_card *card);
void card_leave(struct fpga_card *card);
/* Lets no copy enter any more, and waits until all have left. */
void card_close(struct fpga_card *card);

/* Sets job->stop, and returns when no DMA of the job can happen any more. */
void card_stop(struct fpga_card *card, struct card_job *job);

struct fpga_card *card_get(struct fpga_card *card);
void card_put(struct fpga_card *card);

/* A user's open files of one card share a turn: clients.c. */
struct fpga_user {
	struct list_head node;	/* card->users */
	kuid_t uid;		/* of the process that opened the file */
	unsigned int files;
	struct semaphore turn;	/* see the top */
};

/* An open file, and counts of what the card did for it. */
struct fpga_client {
	struct fpga_card *card;
	struct fpga_user *user;
	struct list_head node;	/* clients.c */
	pid_t tgid;		/* of the process that opened it, in the first namespace */
	char comm[TASK_COMM_LEN];
	char device[24];	/* the card's PCI address */
	atomic64_t copies;
	atomic64_t bytes[2];	/* by enum card_direction */
	atomic64_t revocations;
};

/*
 * A piece of a copy that has entered the device.  -EINTR: a signal came; -ENODEV: the device
 * is being removed; -EIO: the engine is stuck.
 */
int card_turn_begin(struct fpga_client *client);
void card_turn_end(struct fpga_client *client);
/* In a turn. */
int card_transfer(struct fpga_card *card, enum card_direction dir, u64 bus_addr, u32 length,
		  struct card_job *job);

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
