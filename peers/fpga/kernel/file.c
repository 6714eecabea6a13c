// SPDX-License-Identifier: MIT OR GPL-2.0
/* file.c - /dev/fpgaN: a table of ioctls, each with the size of its struct. */
#include <linux/fs.h>
#include <linux/iommu.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/uaccess.h>

#include "fpga_ioctl.h"
#include "card.h"

static u32 card_iommu(struct fpga_card *card)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&card->pdev->dev);

	if (!domain)
		return FPGA_IOMMU_NONE;
	return domain->type & __IOMMU_DOMAIN_PAGING ? FPGA_IOMMU_TRANSLATING :
						      FPGA_IOMMU_PASSTHROUGH;
}

static int fpga_info(struct fpga_client *client, void *data)
{
	struct fpga_card *card = client->card;
	struct fpga_info *info = data;
	struct pci_dev *pdev;
	unsigned long flags;
	u32 size = info->size;

	if (info->flags)
		return -EINVAL;

	spin_lock_irqsave(&card->lock, flags);
	if (card->gone) {
		spin_unlock_irqrestore(&card->lock, flags);
		return -ENODEV;
	}
	pdev = pci_dev_get(card->pdev);
	*info = (struct fpga_info){
		.size = size,
		.abi = FPGA_ABI,
		.index = card->index,
		.state = card->cut_off ? FPGA_STATE_CUT_OFF :
			 card->running ? FPGA_STATE_BUSY : FPGA_STATE_READY,
	};
	spin_unlock_irqrestore(&card->lock, flags);

	info->pci_domain = pci_domain_nr(pdev->bus);
	info->pci_bus = pdev->bus->number;
	info->pci_devfn = pdev->devfn;
	info->numa_node = dev_to_node(&pdev->dev);
	info->iommu = card_iommu(card);
	info->buffer_size = CARD_BUFFER_SIZE;
	info->max_transfer = CARD_MAX_TRANSFER;
	info->pins = atomic_read(&card->pins);
	info->mappings = atomic_read(&card->mappings);
	info->transfers = atomic64_read(&card->transfers);
	info->interrupts = atomic64_read(&card->interrupts);
	info->bytes_read = atomic64_read(&card->bytes[CARD_READS]);
	info->bytes_written = atomic64_read(&card->bytes[CARD_WRITES]);
	info->revocations = atomic64_read(&card->revocations);
	info->timeouts = atomic64_read(&card->timeouts);
	pci_dev_put(pdev);
	return 0;
}

static int fpga_copy(struct fpga_client *client, void *data)
{
	return fpga_copy_run(client, data);
}

struct fpga_call {
	u32 size;	/* current size of the struct */
	u32 min;	/* its size in the first release */
	bool report;	/* the struct is copied back after an error, too */
	int (*run)(struct fpga_client *client, void *data);
};

static const struct fpga_call fpga_calls[] = {
	[_IOC_NR(FPGA_INFO)] = { sizeof(struct fpga_info), sizeof(struct fpga_info), false, fpga_info },
	[_IOC_NR(FPGA_COPY)] = { sizeof(struct fpga_copy), offsetof(struct fpga_copy, src_fd), true, fpga_copy },
};

/* Room for the largest struct. */
union fpga_args {
	u32 size;
	struct fpga_info info;
	struct fpga_copy copy;
};

/* The ABI fixes these layouts. */
static_assert(sizeof(struct fpga_info) == 104);
static_assert(sizeof(struct fpga_end) == 40);
static_assert(sizeof(struct fpga_copy) == 152);

static long fpga_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct fpga_client *client = file->private_data;
	void __user *uptr = (void __user *)arg;
	const struct fpga_call *call;
	union fpga_args args;
	u32 size;
	int ret, err;

	if (_IOC_NR(cmd) >= ARRAY_SIZE(fpga_calls) || cmd != FPGA_IOC(_IOC_NR(cmd)))
		return -ENOTTY;
	call = &fpga_calls[array_index_nospec(_IOC_NR(cmd), ARRAY_SIZE(fpga_calls))];

	if (get_user(size, (u32 __user *)uptr))
		return -EFAULT;
	if (size < call->min)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(&args, call->size, uptr, size);
	if (ret)
		return ret;
	args.size = size;	/* the caller may have changed it meanwhile */

	ret = call->run(client, &args);
	if (ret && (!call->report || ret == -EINVAL))
		return ret;
	err = copy_to_user(uptr, &args, min(size, call->size)) ? -EFAULT : 0;
	return ret ?: err;
}

static int fpga_open(struct inode *inode, struct file *file)
{
	/* misc_open() holds the lock that misc_deregister() takes, so the card exists. */
	struct fpga_card *card = container_of(file->private_data, struct fpga_card, misc);

	file->private_data = client_new(card);
	if (!file->private_data)
		return -ENOMEM;
	return nonseekable_open(inode, file);
}

static int fpga_release(struct inode *inode, struct file *file)
{
	client_end(file->private_data);
	return 0;
}

const struct file_operations fpga_fops = {
	.owner = THIS_MODULE,
	.open = fpga_open,
	.release = fpga_release,
	.unlocked_ioctl = fpga_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};
