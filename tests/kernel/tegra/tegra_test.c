// SPDX-License-Identifier: MIT OR GPL-2.0
/* tegra_test.c - see tegra_test.h.  One caller at a time for each open file; the callback comes at any time. */
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <linux/nv-p2p.h>

#include "tegra_test.h"

struct client {
	struct completion got;		/* no get is under way: the work item may use its table */
	struct work_struct work;	/* what the callback queues */
	u32 flags;			/* not changed while there is a table */
	atomic_t callbacks;
	s32 put_inside;
	struct mutex lock;		/* what follows; taken under mmap_lock, and held around allocations */
	struct nvidia_p2p_page_table *table;
	struct nvidia_p2p_dma_mapping *map;
	struct nvidia_p2p_page_table *kept;	/* for FREE_TABLE */
};

static struct pci_dev *card;

static bool kfree_table;
module_param(kfree_table, bool, 0444);
MODULE_PARM_DESC(kfree_table, "Also frees the memory of tables, as NVIDIA's reference driver does: for nvidia_p2p.ko client_frees=1 (default N)");

static int free_table_of(struct nvidia_p2p_page_table *table)
{
	int err = nvidia_p2p_free_page_table(table);

	if (!err && kfree_table)
		kfree(table);
	return err;
}

/* Called from an MMU notifier: takes no lock, and does not sleep unless FREE_INSIDE is set. */
static void free_callback(void *data)
{
	struct client *c = data;

	if (c->flags & TEGRA_PUT_INSIDE)
		c->put_inside = nvidia_p2p_put_pages(READ_ONCE(c->table));
	if (c->flags & TEGRA_FREE_INSIDE)
		free_table_of(xchg(&c->table, NULL));
	atomic_inc(&c->callbacks);
	schedule_work(&c->work);
}

static void end(struct work_struct *work)
{
	struct client *c = container_of(work, struct client, work);
	struct nvidia_p2p_page_table *table;

	wait_for_completion(&c->got);
	mutex_lock(&c->lock);
	table = xchg(&c->table, NULL);
	if (c->map && !(c->flags & TEGRA_KEEP_MAPPING))
		nvidia_p2p_free_dma_mapping(c->map);
	c->map = NULL;
	if (c->flags & TEGRA_KEEP_TABLE)
		c->kept = table;
	else
		free_table_of(table);
	mutex_unlock(&c->lock);
}

/* The work item takes the lock. */
static int put(struct client *c)
{
	struct nvidia_p2p_page_table *table;
	int err;

	mutex_lock(&c->lock);
	table = c->table ?: c->kept;
	mutex_unlock(&c->lock);
	err = nvidia_p2p_put_pages(table);
	flush_work(&c->work);
	return err;
}

/* What a driver can know of how the memory was allocated: what the process's own area says. */
static bool is_combined(u64 vaddr)
{
	struct vm_area_struct *vma;
	bool combined;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, vaddr);
	combined = vma && pgprot_val(vma->vm_page_prot) == pgprot_val(pgprot_writecombine(vma->vm_page_prot));
	mmap_read_unlock(current->mm);
	return combined;
}

/*
 * get_pages() takes mmap_lock, so the lock cannot be held.  With FREE_INSIDE, no other
 * thread may change the memory meanwhile.
 */
static int get(struct client *c, struct tegra_get *g)
{
	struct nvidia_p2p_page_table *table = (void *)1;
	int err;

	mutex_lock(&c->lock);
	err = c->table ? -EBUSY : 0;
	if (!err)
		c->flags = g->flags;
	mutex_unlock(&c->lock);
	if (err) {
		g->null_table = false;
		return err;
	}
	g->combined = is_combined(g->vaddr);
	reinit_completion(&c->got);
	err = nvidia_p2p_get_pages(g->vaddr, g->size, &table,
				   g->flags & TEGRA_NO_CALLBACK ? NULL : free_callback, c);
	g->null_table = !table;
	/* The callback may have come.  Without FREE_INSIDE, the table is there until `got'. */
	if (!err) {
		g->entries = table->entries;
		g->version = table->version;
		g->page_size = table->page_size;
		g->table_size = table->size;
		WRITE_ONCE(c->table, table);
	}
	complete_all(&c->got);
	return err;
}

static int map(struct client *c, struct tegra_map *m)
{
	struct nvidia_p2p_dma_mapping *map = (void *)1;
	int err;
	u32 i;

	mutex_lock(&c->lock);
	err = c->map ? -EBUSY : nvidia_p2p_dma_map_pages(&card->dev, c->table, &map, m->direction);
	if (!err) {
		c->map = map;
		m->entries = map->entries;
		m->version = map->version;
		m->address = map->hw_address[0];
		m->length = 0;
		for (i = 0; i < map->entries; i++)
			m->length += map->hw_len[i];
	} else if (err != -EBUSY) {
		WARN_ON(map);
	}
	mutex_unlock(&c->lock);
	return err;
}

static int unmap(struct client *c)
{
	int err;

	mutex_lock(&c->lock);
	err = nvidia_p2p_dma_unmap_pages(c->map);
	c->map = NULL;
	mutex_unlock(&c->lock);
	return err;
}

static int free_table(struct client *c)
{
	int err;

	mutex_lock(&c->lock);
	err = free_table_of(c->kept ?: c->table);
	c->kept = NULL;
	mutex_unlock(&c->lock);
	return err;
}

static long client_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct client *c = file->private_data;
	void __user *u = (void __user *)arg;
	struct tegra_state state;
	struct tegra_get g;
	struct tegra_map m;
	int err;

	/* A callback that has returned has queued this work: the call comes after it. */
	flush_work(&c->work);
	switch (cmd) {
	case TEGRA_GET:
		if (copy_from_user(&g, u, sizeof(g)))
			return -EFAULT;
		err = get(c, &g);
		return copy_to_user(u, &g, sizeof(g)) ? -EFAULT : err;
	case TEGRA_PUT:
		return put(c);
	case TEGRA_MAP:
		if (copy_from_user(&m, u, sizeof(m)))
			return -EFAULT;
		if (m.busy)
			mmap_write_lock(current->mm);
		err = map(c, &m);
		if (m.busy)
			mmap_write_unlock(current->mm);
		return copy_to_user(u, &m, sizeof(m)) ? -EFAULT : err;
	case TEGRA_UNMAP:
		return unmap(c);
	case TEGRA_FREE_TABLE:
		return free_table(c);
	case TEGRA_STATE:
		state.callbacks = atomic_read(&c->callbacks);
		state.put_inside = c->put_inside;
		return copy_to_user(u, &state, sizeof(state)) ? -EFAULT : 0;
	default:
		return -ENOTTY;
	}
}

static int client_mmap(struct file *file, struct vm_area_struct *vma)
{
	unsigned long length = vma->vm_end - vma->vm_start, at;
	struct client *c = file->private_data;
	struct nvidia_p2p_page_table *table;
	bool wc = vma->vm_pgoff;
	int err = -EINVAL;

	if (wc)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	mutex_lock(&c->lock);
	table = c->table ?: c->kept;
	if (table && length <= table->size)
		for (at = 0, err = 0; !err && at < length; at += PAGE_SIZE)
			err = remap_pfn_range(vma, vma->vm_start + at,
					      page_to_pfn(table->pages[at >> PAGE_SHIFT]), PAGE_SIZE,
					      vma->vm_page_prot);
	mutex_unlock(&c->lock);
	return err;
}

static int client_open(struct inode *inode, struct file *file)
{
	struct client *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (!c)
		return -ENOMEM;
	mutex_init(&c->lock);
	INIT_WORK(&c->work, end);
	init_completion(&c->got);
	complete_all(&c->got);
	file->private_data = c;
	return 0;
}

static int client_release(struct inode *inode, struct file *file)
{
	struct client *c = file->private_data;

	if (c->table)
		put(c);
	flush_work(&c->work);
	if (c->kept && !(c->flags & TEGRA_LEAK_TABLE))
		free_table_of(c->kept);
	kfree(c);
	return 0;
}

static const struct file_operations client_fops = {
	.owner = THIS_MODULE,
	.open = client_open,
	.release = client_release,
	.unlocked_ioctl = client_ioctl,
	.mmap = client_mmap,
};

static struct miscdevice client_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "tegra_test",
	.fops = &client_fops,
	.mode = 0666,
};

static int __init client_init(void)
{
	int err;

	card = pci_get_device(0x1234, 0x11e8, NULL);
	if (!card)
		return -ENODEV;
	err = misc_register(&client_misc);
	if (err)
		pci_dev_put(card);
	return err;
}

static void __exit client_exit(void)
{
	misc_deregister(&client_misc);
	pci_dev_put(card);
}

module_init(client_init);
module_exit(client_exit);

MODULE_DESCRIPTION("A client of Tegra's nvidia_p2p, for tests");
MODULE_LICENSE("Dual MIT/GPL");
