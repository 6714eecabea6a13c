// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * live_pins.ko - see live_pins.h.  Under "qemu -icount shift=0" the time stamp
 * counter counts the guest's instructions.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sort.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <nv-p2p.h>

#include "live_pins.h"

#define PAGE_64K	0x10000ULL

static DEFINE_MUTEX(lock);	/* all of the below, callbacks apart */
static struct nvidia_p2p_page_table **live;
static u64 live_va[LIVE_PINS_MAX];
static u32 count;
static atomic_t callbacks = ATOMIC_INIT(0);

/* data: where the pin's table is kept for as long as it is pinned. */
static void freed(void *data)
{
	struct nvidia_p2p_page_table **table = data;

	nvidia_p2p_free_page_table(*table);
	atomic_inc(&callbacks);
}

static int get(u64 va, struct nvidia_p2p_page_table **table)
{
	return nvidia_p2p_get_pages(0, 0, va, PAGE_64K, table, freed, table);
}

static int bring_to(const struct live_pins_run *r)
{
	int err;

	while (count < r->live) {
		u64 va = r->va + count % r->pages * PAGE_64K;

		err = get(va, &live[count]);
		if (err)
			return err;
		live_va[count++] = va;
	}
	while (count > r->live) {
		count--;
		err = nvidia_p2p_put_pages(0, 0, live_va[count], live[count]);
		if (err)
			return err;
	}
	return 0;
}

static int by_size(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static u64 median(u64 *samples)
{
	sort(samples, LIVE_PINS_ROUNDS, sizeof(*samples), by_size, NULL);
	return samples[LIVE_PINS_ROUNDS / 2];
}

static int measure(struct live_pins_run *r)
{
	static u64 gets[LIVE_PINS_ROUNDS], puts[LIVE_PINS_ROUNDS];
	struct nvidia_p2p_page_table *table;
	u32 i;

	for (i = 0; i < LIVE_PINS_ROUNDS; i++) {
		u64 va = r->va + i % r->pages * PAGE_64K;
		cycles_t begin = get_cycles(), between;
		int err = get(va, &table);

		between = get_cycles();
		if (!err)
			err = nvidia_p2p_put_pages(0, 0, va, table);
		if (err)
			return err;
		puts[i] = get_cycles() - between;
		gets[i] = between - begin;
	}
	r->get = median(gets);
	r->put = median(puts);
	return 0;
}

static int run(struct live_pins_run *r)
{
	int err;

	if (!r->pages || r->live > LIVE_PINS_MAX)
		return -EINVAL;
	err = bring_to(r);
	return err ?: measure(r);
}

#define MAX_VICTIMS 64

static int victims(struct live_pins_victims *v)
{
	static struct nvidia_p2p_page_table *tables[MAX_VICTIMS];
	int err = 0;
	u32 i;

	if (v->pages > MAX_VICTIMS)
		return -EINVAL;
	v->callbacks = atomic_xchg(&callbacks, 0);
	for (i = 0; i < v->pages && !err; i++)
		err = get(v->va + i * PAGE_64K, &tables[i]);
	return err;
}

static long live_pins_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	void __user *uarg = (void __user *)arg;
	union {
		struct live_pins_run run;
		struct live_pins_victims victims;
	} a;
	int err;

	if (cmd != LIVE_PINS_RUN && cmd != LIVE_PINS_VICTIMS)
		return -ENOTTY;
	if (copy_from_user(&a, uarg, _IOC_SIZE(cmd)))
		return -EFAULT;
	mutex_lock(&lock);
	err = cmd == LIVE_PINS_RUN ? run(&a.run) : victims(&a.victims);
	mutex_unlock(&lock);
	if (!err && copy_to_user(uarg, &a, _IOC_SIZE(cmd)))
		err = -EFAULT;
	return err;
}

static const struct file_operations live_pins_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = live_pins_ioctl,
};

static struct miscdevice live_pins_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "live_pins",
	.fops = &live_pins_fops,
	.mode = 0600,
};

static int __init live_pins_init(void)
{
	int err;

	live = vzalloc(array_size(LIVE_PINS_MAX, sizeof(*live)));
	if (!live)
		return -ENOMEM;
	err = misc_register(&live_pins_misc);
	if (err)
		vfree(live);
	return err;
}

static void __exit live_pins_exit(void)
{
	misc_deregister(&live_pins_misc);
	vfree(live);
}

module_init(live_pins_init);
module_exit(live_pins_exit);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("peerdma: what a pin costs among many");
MODULE_LICENSE("Dual MIT/GPL");
