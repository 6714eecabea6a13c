// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * debugfs.c - /sys/kernel/debug/softgpu/N/:
 *
 *   info  what the GPU is and has done, "key: value"
 *   bar1  the aperture, "key: value", in bytes
 *   pins  live pins, tab separated below a line of names
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include "dmabuf.h"
#include "softgpu.h"

static struct dentry *root;

static int info_show(struct seq_file *m, void *unused)
{
	const struct softgpu_device *device = m->private;
	const struct pci_dev *pdev = device->backing.pdev;
	struct sg_gpu_stats stats;
	int err;

	err = sg_gpu_stats(softgpu_sg, device->index, &stats);
	if (err)
		return err;
	seq_printf(m, "uuid: GPU-%pUb\n", device->uuid);
	seq_printf(m, "memory: %s\n", pdev ? pci_name(pdev) : "system");
	seq_printf(m, "vram_start: %pap\n", &device->backing.start);
	seq_printf(m, "vram_total: %llu\n", stats.vram_total);
	seq_printf(m, "vram_free: %llu\n", stats.vram_free);
	seq_printf(m, "clients: %u\n", stats.clients);
	seq_printf(m, "objects: %u\n", stats.objects);
	seq_printf(m, "pins: %u\n", stats.pins);
	seq_printf(m, "revocations: %llu\n", stats.revocations);
	seq_printf(m, "copies: %llu\n", stats.copies);
	seq_printf(m, "bytes_copied: %llu\n", stats.bytes_copied);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(info);

static int bar1_show(struct seq_file *m, void *unused)
{
	const struct softgpu_device *device = m->private;
	struct sg_gpu_stats stats;
	int err;

	err = sg_gpu_stats(softgpu_sg, device->index, &stats);
	if (err)
		return err;
	seq_printf(m, "total: %llu\n", stats.bar1_total);
	seq_printf(m, "used: %llu\n", stats.bar1_used);
	seq_printf(m, "free: %llu\n", stats.bar1_total - stats.bar1_used);
	seq_printf(m, "reserved: %llu\n", stats.bar1_reserved);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(bar1);

/* Called under the core's lock. */
static void show_pin(void *arg, const struct sg_pin *pin)
{
	struct seq_file *m = arg;
	const struct softgpu_device *device = m->private;

	if (sg_pin_gpu_index(pin) != device->index)
		return;
	seq_printf(m, "%llu\t0x%llx\t%llu\t%u\t%s\t%u\n", pin->serial, pin->va, pin->length,
		   pin->npages, pin->persistent ? "persistent" : "revocable", pin->holds);
}

static int pins_show(struct seq_file *m, void *unused)
{
	seq_puts(m, "serial\tva\tlength\tpages\tkind\tholds\n");
	sg_pins_for_each(softgpu_sg, show_pin, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(pins);

void softgpu_debugfs_add(struct softgpu_device *device)
{
	char name[12];

	snprintf(name, sizeof(name), "%u", device->index);
	device->debugfs = debugfs_create_dir(name, root);
	debugfs_create_file("info", 0444, device->debugfs, device, &info_fops);
	debugfs_create_file("bar1", 0444, device->debugfs, device, &bar1_fops);
	debugfs_create_file("pins", 0400, device->debugfs, device, &pins_fops);
}

/* Waits for readers under way. */
void softgpu_debugfs_remove(struct softgpu_device *device)
{
	debugfs_remove(device->debugfs);
}

static int dmabufs_show(struct seq_file *m, void *unused)
{
	softgpu_dynamic_show(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(dmabufs);

static int move_set(void *data, u64 number)
{
	return softgpu_dynamic_move(number, SG_IN_VRAM);
}
DEFINE_DEBUGFS_ATTRIBUTE(move_fops, NULL, move_set, "%llu\n");

static int evict_set(void *data, u64 number)
{
	return softgpu_dynamic_move(number, SG_IN_SYSTEM);
}
DEFINE_DEBUGFS_ATTRIBUTE(evict_fops, NULL, evict_set, "%llu\n");

void softgpu_debugfs_init(void)
{
	root = debugfs_create_dir(KBUILD_MODNAME, NULL);
	/*
	 * dmabufs lists dma-bufs that can be moved. To `move' and `evict' write the number
	 * of one: it is moved to other pages of VRAM, or to system memory. EBUSY: a user
	 * needs it to stay.
	 */
	debugfs_create_file("dmabufs", 0400, root, NULL, &dmabufs_fops);
	debugfs_create_file_unsafe("move", 0200, root, NULL, &move_fops);
	debugfs_create_file_unsafe("evict", 0200, root, NULL, &evict_fops);
	softgpu_chaos_init(root);
}

void softgpu_debugfs_uninit(void)
{
	debugfs_remove(root);
}
