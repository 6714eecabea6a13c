// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * card.c - the card's DMA engine: QEMU's `edu` device.  It copies up to 4092 bytes between
 * its buffer and a bus address, and raises an interrupt.  A transfer cannot be cancelled
 * and takes about 100 ms, whatever its size.  While it runs, the engine ignores writes to
 * its registers.
 *
 * Only clearing the bus-master bit stops DMA for certain: the device then reaches no
 * memory, although its engine may still report that it runs.
 */
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/jiffies.h>
#include <linux/slab.h>

#include "card.h"

#define REG_ID		0x00
#define REG_IRQ_STATUS	0x24
#define REG_IRQ_ACK	0x64
#define REG_DMA_SRC	0x80
#define REG_DMA_DST	0x88
#define REG_DMA_COUNT	0x90
#define REG_DMA_CMD	0x98

#define CMD_RUN		BIT(0)
#define CMD_CARD_TO_BUS	BIT(1)
#define CMD_IRQ		BIT(2)

#define ID_MAGIC	0xed	/* the id's low byte; the rest is a version */
#define BUFFER_ADDR	0x40000	/* of the card's buffer, in the engine's addresses */

/* Five seconds: fifty times the duration of a transfer, for an emulator on a busy machine. */
unsigned int card_timeout_ms = 5000;

static bool engine_runs(struct fpga_card *card)
{
	return readq(card->regs + REG_DMA_CMD) & CMD_RUN;
}

static void engine_ack(struct fpga_card *card)
{
	u32 status = readl(card->regs + REG_IRQ_STATUS);

	if (status)
		writel(status, card->regs + REG_IRQ_ACK);
}

int card_hw_init(struct fpga_card *card)
{
	u32 id = readl(card->regs + REG_ID);

	if ((id & 0xff) != ID_MAGIC) {
		dev_err(&card->pdev->dev, "not this card: its id register reads %#x\n", id);
		return -ENODEV;
	}
	if (engine_runs(card)) {
		/* An earlier driver may have left it running: one transfer at most. */
		msleep(200);
		if (engine_runs(card)) {
			dev_err(&card->pdev->dev, "the engine does not stop\n");
			return -EBUSY;
		}
	}
	engine_ack(card);
	return 0;
}

void card_hw_uninit(struct fpga_card *card)
{
	pci_clear_master(card->pdev);
}

irqreturn_t card_interrupt(int irq, void *data)
{
	struct fpga_card *card = data;
	unsigned long flags;
	u32 status;

	/* The read also pushes the engine's last writes ahead of it to memory. */
	status = readl(card->regs + REG_IRQ_STATUS);
	if (!status)
		return IRQ_NONE;
	writel(status, card->regs + REG_IRQ_ACK);
	atomic64_inc(&card->interrupts);

	spin_lock_irqsave(&card->lock, flags);
	/* Only card_ready() checks an engine that was cut off: no job is running then. */
	if (card->running && !engine_runs(card)) {
		card->running->interrupts++;
		card->running = NULL;
	}
	spin_unlock_irqrestore(&card->lock, flags);
	wake_up_all(&card->idle);
	return IRQ_HANDLED;
}

/*
 * Waits until the engine has made the job's transfer, or makes it harmless.  Returns 0 or
 * -ETIMEDOUT.  Two threads may be here at once: a copy, and the revocation of
 * its pin.
 */
static int card_wait(struct fpga_card *card, const struct card_job *job)
{
	unsigned long flags;
	int ret = 0;

	if (wait_event_timeout(card->idle, READ_ONCE(card->running) != job,
			       msecs_to_jiffies(card_timeout_ms)))
		goto out;

	spin_lock_irqsave(&card->lock, flags);
	if (card->running == job && !engine_runs(card)) {
		card->running = NULL;	/* done, but its interrupt got lost */
		dev_info(&card->pdev->dev, "an interrupt got lost\n");
	} else if (card->running == job) {
		pci_clear_master(card->pdev);
		card->running = NULL;
		card->cut_off = true;
		atomic64_inc(&card->timeouts);
		dev_info(&card->pdev->dev,
			 "a transfer did not end within %u ms: the card is off the bus until it does\n",
			 card_timeout_ms);
	}
	spin_unlock_irqrestore(&card->lock, flags);
	wake_up_all(&card->idle);
out:
	spin_lock_irqsave(&card->lock, flags);
	if (card->cut_off)
		ret = -ETIMEDOUT;
	spin_unlock_irqrestore(&card->lock, flags);
	return ret;
}

/* Enables a card again that was cut off, once its engine is idle.  In a turn. */
static int card_ready(struct fpga_card *card)
{
	int ret = 0;

	spin_lock_irq(&card->lock);
	if (card->gone) {
		ret = -ENODEV;
	} else if (card->cut_off) {
		if (engine_runs(card)) {
			ret = -EIO;
		} else {
			/* Its interrupt (MSI) was a memory write, which was dropped. */
			engine_ack(card);
			card->cut_off = false;
			pci_set_master(card->pdev);
		}
	}
	spin_unlock_irq(&card->lock);
	return ret;
}

int card_turn_begin(struct fpga_client *client)
{
	struct fpga_card *card = client->card;
	int ret;

	if (down_interruptible(&client->user->turn))
		return -EINTR;
	if (down_interruptible(&card->turn)) {
		up(&client->user->turn);
		return -EINTR;
	}
	ret = card_ready(card);
	if (ret)
		card_turn_end(client);
	return ret;
}

void card_turn_end(struct fpga_client *client)
{
	up(&client->card->turn);
	up(&client->user->turn);
}

/*
 * Makes one transfer. 0; -ECANCELED: the job was stopped before it began; -ENODEV: the card
 * was removed; -ETIMEDOUT.  Not interruptible, since a transfer cannot be cancelled.
 */
int card_transfer(struct fpga_card *card, enum card_direction dir, u64 bus_addr, u32 length,
		  struct card_job *job)
{
	u64 cmd = CMD_RUN | CMD_IRQ;
	int ret = 0;

	if (WARN_ON_ONCE(!length || length > CARD_MAX_TRANSFER))
		return -EINVAL;

	spin_lock_irq(&card->lock);
	if (card->gone)
		ret = -ENODEV;
	else if (job->stop)
		ret = -ECANCELED;
	if (ret) {
		spin_unlock_irq(&card->lock);
		return ret;
	}
	card->running = job;
	atomic64_inc(&card->transfers);
	if (dir == CARD_WRITES)
		cmd |= CMD_CARD_TO_BUS;
	writeq(dir == CARD_READS ? bus_addr : BUFFER_ADDR, card->regs + REG_DMA_SRC);
	writeq(dir == CARD_READS ? BUFFER_ADDR : bus_addr, card->regs + REG_DMA_DST);
	writeq(length, card->regs + REG_DMA_COUNT);
	writeq(cmd, card->regs + REG_DMA_CMD);
	spin_unlock_irq(&card->lock);

	ret = card_wait(card, job);
	dev_dbg(&card->pdev->dev, "%s %u bytes at %#llx: %d\n",
		dir == CARD_READS ? "read" : "wrote", length, bus_addr, ret);
	if (ret)
		return ret;
	atomic64_add(length, &card->bytes[dir]);
	return 0;
}

void card_stop(struct fpga_card *card, struct card_job *job)
{
	unsigned long flags;

	/*
	 * After this none of its transfers begins, since card_transfer() checks `stop' under
	 * the same lock.  One that has begun is waited for.
	 */
	spin_lock_irqsave(&card->lock, flags);
	job->stop = true;
	spin_unlock_irqrestore(&card->lock, flags);
	card_wait(card, job);
}

int card_enter(struct fpga_card *card)
{
	int ret = 0;

	spin_lock_irq(&card->lock);
	if (card->gone)
		ret = -ENODEV;
	else
		card->inside++;
	spin_unlock_irq(&card->lock);
	return ret;
}

void card_leave(struct fpga_card *card)
{
	spin_lock_irq(&card->lock);
	card->inside--;
	spin_unlock_irq(&card->lock);
	wake_up_all(&card->idle);
}

void card_close(struct fpga_card *card)
{
	spin_lock_irq(&card->lock);
	card->gone = true;
	wait_event_lock_irq(card->idle, !card->inside, card->lock);
	spin_unlock_irq(&card->lock);
}

static void card_release(struct kref *ref)
{
	kfree(container_of(ref, struct fpga_card, ref));
}

struct fpga_card *card_get(struct fpga_card *card)
{
	kref_get(&card->ref);
	return card;
}

void card_put(struct fpga_card *card)
{
	kref_put(&card->ref, card_release);
}
