// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * pinbench.ko - see pinbench.h.  Under "qemu -icount shift=0" the time stamp
 * counter counts the guest's instructions.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/timex.h>
#include <linux/uaccess.h>

#include <nv-p2p.h>

#include "peerdma_ioctl.h"
#include "peerdma_kapi.h"
#include "pinbench.h"

/* One run at a time uses these. */
static DEFINE_MUTEX(lock);
static struct nvidia_p2p_page_table *tables[PINBENCH_MAX_PINS];
static struct peerdma_pin *pins[PINBENCH_MAX_PINS];

static void revoked(struct peerdma_pin *pin, void *priv)
{
}

static const struct peerdma_client_ops client = {
	.owner = THIS_MODULE,
	.name = "pinbench",
	.revoke = revoked,
};

static void freed(void *data)
{
}

static int provider_pin(u32 i, u64 va, u64 length)
{
	return nvidia_p2p_get_pages(0, 0, va, length, &tables[i], freed, NULL);
}

static void provider_unpin(u32 i, u64 va, u64 length)
{
	nvidia_p2p_put_pages(0, 0, va, tables[i]);
}

static int bridge_pin(u32 i, u64 va, u64 length)
{
	pins[i] = peerdma_pin_user(va, length, PEERDMA_PIN_DEVICE, &client, NULL);
	return PTR_ERR_OR_ZERO(pins[i]);
}

static void bridge_unpin(u32 i, u64 va, u64 length)
{
	peerdma_unpin(pins[i]);
}

static const struct {
	int (*pin)(u32 i, u64 va, u64 length);
	void (*unpin)(u32 i, u64 va, u64 length);
} paths[] = {
	[PINBENCH_PROVIDER] = { provider_pin, provider_unpin },
	[PINBENCH_BRIDGE] = { bridge_pin, bridge_unpin },
};

static int run(struct pinbench_run *r)
{
	cycles_t begin, between, end;
	u32 i, n;
	int err = 0;

	begin = get_cycles();
	for (n = 0; n < r->count; n++) {
		err = paths[r->path].pin(n, r->va + n * r->length, r->length);
		if (err)
			break;
	}
	between = get_cycles();
	for (i = 0; i < n; i++)
		paths[r->path].unpin(i, r->va + i * r->length, r->length);
	end = get_cycles();
	r->pin_ticks = between - begin;
	r->unpin_ticks = end - between;
	return err;
}

static long pinbench_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	void __user *uarg = (void __user *)arg;
	struct pinbench_run r;
	int err;

	if (cmd != PINBENCH_RUN)
		return -ENOTTY;
	if (copy_from_user(&r, uarg, sizeof(r)))
		return -EFAULT;
	if (r.path >= ARRAY_SIZE(paths) || !r.count || r.count > PINBENCH_MAX_PINS)
		return -EINVAL;
	mutex_lock(&lock);
	err = run(&r);
	mutex_unlock(&lock);
	if (!err && copy_to_user(uarg, &r, sizeof(r)))
		err = -EFAULT;
	return err;
}

static const struct file_operations pinbench_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = pinbench_ioctl,
};

static struct miscdevice pinbench_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "pinbench",
	.fops = &pinbench_fops,
	.mode = 0600,
};
module_misc_device(pinbench_misc);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("peerdma: times pins inside the kernel");
MODULE_LICENSE("Dual MIT/GPL");
