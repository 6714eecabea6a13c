// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * amd_rdma_test.ko - a client of amd_rdma_interface that does what a program tells it,
 * mistakes included.  It knows nothing of who provides the interface, and builds
 * against either version's drm/amd_rdma.h.
 *
 * Only for tests: a program that may open its device can make the kernel read and
 * write what it has pinned.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/iommu.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/pid.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/uaccess.h>

#include <drm/amd_rdma.h>

#include "amd_rdma_test.h"

#ifdef AMD_RDMA_MAJOR
#define API AMD_RDMA_MAJOR
#else
#define API 1
#endif

#define UNTOUCHED	((struct amd_p2p_info *)0x6b6b6b6b6b6b6b60UL)

struct slot {
	struct amd_p2p_info *info, *last;
	struct device *dev;		/* that it was mapped for */
	u64 va, bytes;			/* as get_pages gave them */
	u32 segments;
	u32 on_callback;
	struct completion release;
	u32 callbacks, callbacks_done, callback_tid, callback_word;
	bool callback_valid, translated;
	int callback_ret;
};

static const struct amd_rdma_interface *rdma;
static struct slot slots[AMD_RDMA_TEST_SLOTS];
static DEFINE_MUTEX(calls_lock);	/* of all operations but A_RELEASE and A_STATE; no callback takes it */
static struct platform_device *plain;

static u64 bytes_of(const struct amd_p2p_info *info)
{
	struct scatterlist *sg;
	u64 bytes = 0;
	int i;

	for_each_sg(info->pages->sgl, sg, info->pages->nents, i)
		bytes += sg_dma_len(sg);
	return bytes;
}

/* The bus address of byte `at', and how many follow it. */
static u64 address_of(const struct amd_p2p_info *info, u64 at, u64 *left)
{
	struct scatterlist *sg;
	int i;

	for_each_sg(info->pages->sgl, sg, info->pages->nents, i) {
		if (at < sg_dma_len(sg)) {
			*left = sg_dma_len(sg) - at;
			return sg_dma_address(sg) + at;
		}
		at -= sg_dma_len(sg);
	}
	*left = 0;
	return 0;
}

/* Between memory by its bus address and the kernel. */
static int move(const struct amd_p2p_info *info, u64 at, void *data, u64 length, bool poke)
{
	while (length) {
		u64 left, phys = address_of(info, at, &left), n;
		void *page;
		bool ram;

		n = min3(left, length, (u64)PAGE_SIZE - offset_in_page(phys));
		if (!n)
			return -ERANGE;
		ram = region_intersects(phys, n, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) == REGION_INTERSECTS;
		page = memremap(phys & PAGE_MASK, PAGE_SIZE, ram ? MEMREMAP_WB : MEMREMAP_WC);
		if (!page)
			return -ENOMEM;
		if (poke)
			memcpy(page + offset_in_page(phys), data, n);
		else
			memcpy(data, page + offset_in_page(phys), n);
		memunmap(page);
		at += n;
		data += n;
		length -= n;
	}
	return 0;
}

static int user_move(struct slot *s, struct amd_rdma_test_call *c)
{
	void __user *data = (void __user *)(uintptr_t)c->data;
	u8 buffer[64];
	int err;

	if (!s->info || s->translated || c->length > sizeof(buffer))
		return -EINVAL;
	if (c->op == A_POKE && copy_from_user(buffer, data, c->length))
		return -EFAULT;
	err = move(s->info, c->va, buffer, c->length, c->op == A_POKE);
	if (!err && c->op == A_PEEK && copy_to_user(data, buffer, c->length))
		err = -EFAULT;
	return err;
}

static void freed(void *priv)
{
	struct slot *s = priv;

	s->callbacks++;
	s->callback_tid = task_pid_vnr(current);
	s->callback_valid = s->info && s->info->pages && s->info->pages->nents == s->segments &&
		s->info->va == s->va && bytes_of(s->info) == s->bytes;
	if (s->callback_valid && !s->translated)
		s->callback_valid = !move(s->info, 0, &s->callback_word, sizeof(s->callback_word), false);
	if (s->on_callback & C_WAIT)
		wait_for_completion_timeout(&s->release, 10 * HZ);
	if (s->on_callback & C_PUT) {
		struct amd_p2p_info *info = s->info;

		s->callback_ret = rdma->put_pages(&info);
	}
	/* From now on it is the provider's alone. */
	s->last = s->info;
	s->info = NULL;
	/* Release: who sees it over sees all of the above. */
	smp_store_release(&s->callbacks_done, s->callbacks_done + 1);
}

static bool is_translated(struct device *dev)
{
	struct iommu_domain *domain = dev ? iommu_get_domain_for_dev(dev) : NULL;

	return domain && domain->type & __IOMMU_DOMAIN_PAGING;
}

static struct device *device_of(const struct amd_rdma_test_call *c)
{
	struct pci_dev *pdev;

	if (!c->bdf)
		return get_device(&plain->dev);
	pdev = pci_get_domain_bus_and_slot(c->bdf >> 16, c->bdf >> 8 & 0xff, c->bdf & 0xff);
	if (pdev && dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64))) {
		pci_dev_put(pdev);
		pdev = NULL;
	}
	return pdev ? &pdev->dev : NULL;
}

static int get(struct slot *s, struct amd_rdma_test_call *c, struct pid *pid)
{
	struct amd_p2p_info **to = c->flags & W_NULL_INFO ? NULL : &s->info;
	struct device *dev = device_of(c);

	if (s->info || !dev) {
		put_device(dev);
		return -EINVAL;
	}
	put_device(s->dev);
	s->dev = dev;
	s->callbacks = 0;
	s->callbacks_done = 0;
	reinit_completion(&s->release);
	s->info = UNTOUCHED;
	s->va = c->va;
	s->translated = API >= 2 && is_translated(dev);
#if API >= 2
	c->ret = rdma->get_pages(c->va, c->length, pid, c->flags & W_NULL_DEVICE ? NULL : dev, to, freed, s);
#else
	c->ret = rdma->get_pages(c->va, c->length, pid, to, freed, s);
#endif
	c->untouched = s->info == UNTOUCHED;
	if (c->untouched)
		s->info = NULL;
	if (s->info) {
		s->segments = s->info->pages->nents;
		s->bytes = bytes_of(s->info);
	}
	return 0;
}

static int put(struct slot *s, const struct amd_rdma_test_call *c, int *ret)
{
	struct amd_p2p_info *info = c->flags & W_STALE ? s->last : c->flags & W_EMPTY ? NULL : s->info;

	if (c->flags & W_NULL_INFO) {
		*ret = rdma->put_pages(NULL);
		return 0;
	}
	if (!(c->flags & (W_STALE | W_EMPTY)))
		s->last = s->info;
	*ret = rdma->put_pages(&info);
	if (!(c->flags & (W_STALE | W_EMPTY)))
		s->info = info;
	return 0;
}

static int segments(struct slot *s, const struct amd_rdma_test_call *c)
{
	u64 __user *to = (u64 __user *)(uintptr_t)c->data;
	struct scatterlist *sg;
	int i;

	if (!s->info)
		return -EINVAL;
	for_each_sg(s->info->pages->sgl, sg, min_t(u64, s->info->pages->nents, c->length), i) {
		if (put_user((u64)sg_dma_address(sg), to++) || put_user((u64)sg_dma_len(sg), to++))
			return -EFAULT;
	}
	return 0;
}

static void reset(void)
{
	int i;

	for (i = 0; i < AMD_RDMA_TEST_SLOTS; i++) {
		complete(&slots[i].release);
		if (slots[i].info)
			rdma->put_pages(&slots[i].info);
		slots[i].on_callback = 0;
	}
}

static void tell(struct slot *s, struct amd_rdma_test_call *c)
{
	struct amd_p2p_info *info = s->info;

	c->has_info = !!info;
	if (info) {
		c->info_va = info->va;
		c->info_size = info->size;
		c->info_pid = info->pid ? pid_vnr(info->pid) : 0;
	}
	c->segments = s->segments;
	c->bytes = s->bytes;
	/* Acquire: of what the callback saw. */
	c->callbacks_done = smp_load_acquire(&s->callbacks_done);
	c->callbacks = s->callbacks;
	c->callback_tid = s->callback_tid;
	c->callback_valid = s->callback_valid;
	c->callback_word = s->callback_word;
	c->callback_ret = s->callback_ret;
	c->translated = s->translated;
}

static int call(struct amd_rdma_test_call *c)
{
	struct slot *s = &slots[c->slot % AMD_RDMA_TEST_SLOTS];
	struct pid *pid = c->pid ? find_get_pid(c->pid) : NULL;
	unsigned long size = 0;
	int err = 0;

	switch (c->op) {
	case A_VERSION:
		c->value = API;
		break;
	case A_GET:
		err = get(s, c, pid);
		break;
	case A_PUT:
		err = put(s, c, &c->ret);
		break;
	case A_IS_GPU:
		c->ret = rdma->is_gpu_address(c->va, pid);
		break;
	case A_PAGE_SIZE:
		c->ret = rdma->get_page_size(c->va, c->length, pid, &size);
		c->value = size;
		break;
	case A_SEGMENTS:
		err = segments(s, c);
		break;
	case A_PEEK:
	case A_POKE:
		err = user_move(s, c);
		break;
	case A_ON_CALLBACK:
		s->on_callback = c->value;
		break;
	case A_RESET:
		reset();
		break;
	default:
		err = -ENOTTY;
	}
	put_pid(pid);
	return err;
}

static long test_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	void __user *uarg = (void __user *)arg;
	struct amd_rdma_test_call c;
	int err = 0;

	if (cmd != AMD_RDMA_TEST_CALL)
		return -ENOTTY;
	if (copy_from_user(&c, uarg, sizeof(c)))
		return -EFAULT;
	/* These two while another operation, or a callback, waits. */
	if (c.op == A_RELEASE) {
		complete(&slots[c.slot % AMD_RDMA_TEST_SLOTS].release);
	} else if (c.op != A_STATE) {
		mutex_lock(&calls_lock);
		err = call(&c);
		mutex_unlock(&calls_lock);
	}
	if (err)
		return err;
	tell(&slots[c.slot % AMD_RDMA_TEST_SLOTS], &c);
	return copy_to_user(uarg, &c, sizeof(c)) ? -EFAULT : 0;
}

static const struct file_operations test_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = test_ioctl,
};

static struct miscdevice test_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = AMD_RDMA_TEST_DEVICE,
	.fops = &test_fops,
	.mode = 0600,
};

static int __init test_init(void)
{
	int i, err;

	for (i = 0; i < AMD_RDMA_TEST_SLOTS; i++)
		init_completion(&slots[i].release);
	err = amdkfd_query_rdma_interface(&rdma);
	if (err)
		return err;
	plain = platform_device_register_simple(KBUILD_MODNAME, PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(plain))
		return PTR_ERR(plain);
	err = dma_coerce_mask_and_coherent(&plain->dev, DMA_BIT_MASK(64));
	if (!err)
		err = misc_register(&test_misc);
	if (err)
		platform_device_unregister(plain);
	return err;
}

static void __exit test_exit(void)
{
	int i;

	misc_deregister(&test_misc);
	reset();
	for (i = 0; i < AMD_RDMA_TEST_SLOTS; i++)
		put_device(slots[i].dev);
	platform_device_unregister(plain);
}

module_init(test_init);
module_exit(test_exit);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("peerdma: a client of amd_rdma_interface that does what it is told");
MODULE_LICENSE("Dual MIT/GPL");
