// SPDX-License-Identifier: MIT OR GPL-2.0
/* peerdma_client.c - see peerdma_client.h.  For tests: a program that uses a file takes care of the order. */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/miscdevice.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <peerdma_kapi.h>
#include "core/provider.h"

#include "peerdma_client.h"

struct client {
	struct peerdma_pin *pin;
	struct peerdma_mapping *map;
	u32 delay_ms;
	u32 begun, done;
	u64 page;
	/* CLIENT_HOLD */
	struct mmu_notifier notifier;
	u64 from, to;			/* 0, 0: nothing is held */
	struct completion waits, go;
};

/* What a driver may do here: wait for its hardware, and ask the getters. */
static void client_revoke(struct peerdma_pin *pin, void *priv)
{
	struct client *c = priv;

	WRITE_ONCE(c->begun, c->begun + 1);
	c->page = peerdma_pin_page(pin, 0);
	msleep(c->delay_ms);
	WRITE_ONCE(c->done, c->done + 1);
}

static const struct peerdma_client_ops client_ops = {
	.owner = THIS_MODULE,
	.name = "peerdma_client",
	.revoke = client_revoke,
};

static long do_pin(struct client *c, const struct client_pin *a)
{
	struct peerdma_pin *pin;

	if (c->pin)
		return -EINVAL;
	c->delay_ms = a->delay_ms;
	c->begun = 0;
	c->done = 0;
	c->page = ~0ULL;
	pin = peerdma_pin_user(a->addr, a->length, 0, &client_ops, c);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	c->pin = pin;
	return 0;
}

static long map(struct client *c, struct client_map *m)
{
	struct pci_dev *card;

	if (!c->pin || c->map)
		return -EINVAL;
	card = pci_get_device(0x1234, 0x11e8, NULL);
	if (!card)
		return -ENODEV;
	c->map = peerdma_map_runs(c->pin, &card->dev, DMA_BIDIRECTIONAL);
	/* The mapping has a reference of its own. */
	pci_dev_put(card);
	if (IS_ERR(c->map)) {
		long err = PTR_ERR(c->map);

		c->map = NULL;
		return err;
	}
	m->length = peerdma_mapping_run(c->map, 0, &m->dma_addr);
	return 0;
}

static long unmap(struct client *c)
{
	if (!c->map)
		return -EINVAL;
	peerdma_unmap(c->map);
	c->map = NULL;
	return 0;
}

static long unpin(struct client *c)
{
	if (!c->pin || c->map)
		return -EINVAL;
	peerdma_unpin(c->pin);
	c->pin = NULL;
	return 0;
}

static int hold_there(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
	struct client *c = container_of(notifier, struct client, notifier);

	if (range->start < c->to && range->end > c->from && mmu_notifier_range_blockable(range)) {
		complete(&c->waits);
		wait_for_completion(&c->go);
	}
	return 0;
}

static const struct mmu_notifier_ops hold_ops = {
	.invalidate_range_start = hold_there,
};

static long hold(struct client *c, const struct client_pin *a)
{
	int err;

	if (c->to)
		return -EINVAL;
	c->from = a->addr;
	c->to = a->addr + a->length;
	c->notifier.ops = &hold_ops;
	err = mmu_notifier_register(&c->notifier, current->mm);
	if (err)
		c->to = 0;
	return err;
}

static void let_go(struct client *c)
{
	complete_all(&c->go);
}

static long client_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *uarg = (void __user *)arg;
	struct client *c = file->private_data;
	struct client_state s;
	struct client_map m;
	struct client_pin a;
	u64 cookie;
	long err;

	switch (cmd) {
	case CLIENT_PIN:
		return copy_from_user(&a, uarg, sizeof(a)) ? -EFAULT : do_pin(c, &a);
	case CLIENT_UNPIN:
		return unpin(c);
	case CLIENT_STATE:
		/* Latest first: what is done has begun. */
		s.done = READ_ONCE(c->done);
		s.begun = READ_ONCE(c->begun);
		s.page = READ_ONCE(c->page);
		return copy_to_user(uarg, &s, sizeof(s)) ? -EFAULT : 0;
	case CLIENT_REVOKE:
		if (copy_from_user(&cookie, uarg, sizeof(cookie)))
			return -EFAULT;
		peerdma_revoke(cookie);
		return 0;
	case CLIENT_HOLD:
		return copy_from_user(&a, uarg, sizeof(a)) ? -EFAULT : hold(c, &a);
	case CLIENT_HOLDS:
		return wait_for_completion_timeout(&c->waits, 10 * HZ) ? 0 : -ETIMEDOUT;
	case CLIENT_LET_GO:
		let_go(c);
		return 0;
	case CLIENT_MAP:
		err = map(c, &m);
		return err ?: copy_to_user(uarg, &m, sizeof(m)) ? -EFAULT : 0;
	case CLIENT_UNMAP:
		return unmap(c);
	default:
		return -ENOTTY;
	}
}

static int client_open(struct inode *inode, struct file *file)
{
	struct client *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (!c)
		return -ENOMEM;
	init_completion(&c->waits);
	init_completion(&c->go);
	file->private_data = c;
	return 0;
}

static int client_release(struct inode *inode, struct file *file)
{
	struct client *c = file->private_data;

	unmap(c);
	unpin(c);
	let_go(c);
	if (c->to)
		mmu_notifier_unregister(&c->notifier, c->notifier.mm);
	kfree(c);
	return 0;
}

static const struct file_operations client_fops = {
	.owner = THIS_MODULE,
	.open = client_open,
	.release = client_release,
	.unlocked_ioctl = client_ioctl,
};

static struct miscdevice client_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "peerdma_client",
	.fops = &client_fops,
	.mode = 0600,
};

module_misc_device(client_misc);

MODULE_DESCRIPTION("Pins memory by peerdma's interface for drivers, for tests");
MODULE_LICENSE("Dual MIT/GPL");
