// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * clients.c - what the grabbers have done, in /sys/kernel/debug/peerdma_grabber,
 * tab-separated; the first line names the columns.
 *
 *	clients		a line for each stream that runs, for `peerdma top'
 *	grabbers	a line for each grabber: what became of its frames
 */
#include <linux/debugfs.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "grabber.h"

static DEFINE_MUTEX(lock);
static LIST_HEAD(grabbers);
static struct dentry *dir;

static int clients_show(struct seq_file *s, void *unused)
{
	struct grabber *g;

	seq_puts(s, "pid\tcomm\tdevice\tcopies\tbytes_read\tbytes_written\trevocations\n");
	mutex_lock(&lock);
	list_for_each_entry(g, &grabbers, node) {
		struct grabber_ring *r = &g->ring;
		const struct grabber_counts *c = &r->counts, *b = &r->before;

		mutex_lock(&r->lock);
		if (r->tgid) {
			seq_printf(s, "%d\t", r->tgid);
			seq_escape(s, r->comm, "\t\n\\");
			seq_printf(s, "\t%s\t%llu\t0\t%llu\t%llu\n", pci_name(g->pdev),
				   c->frames - b->frames,
				   c->dmabuf_bytes - b->dmabuf_bytes + c->host_bytes - b->host_bytes,
				   c->revoked - b->revoked);
		}
		mutex_unlock(&r->lock);
	}
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(clients);

static int grabbers_show(struct seq_file *s, void *unused)
{
	struct grabber *g;

	seq_puts(s, "device\tframes\ttorn\trevoked\tdropped\tskipped\tstray\t"
		 "dmabuf_bytes\thost_bytes\tcopied_bytes\n");
	mutex_lock(&lock);
	list_for_each_entry(g, &grabbers, node) {
		struct grabber_counts c;

		mutex_lock(&g->ring.lock);
		c = g->ring.counts;
		mutex_unlock(&g->ring.lock);
		seq_printf(s, "%s\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
			   pci_name(g->pdev), c.frames, c.torn, c.revoked, c.dropped, c.skipped,
			   c.stray, c.dmabuf_bytes, c.host_bytes, c.copied_bytes);
	}
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(grabbers);

void clients_log(struct grabber *g)
{
	struct grabber_counts c;

	mutex_lock(&g->ring.lock);
	c = g->ring.counts;
	mutex_unlock(&g->ring.lock);
	v4l2_info(&g->v4l2, "%llu frames, %llu torn, %llu revoked, %llu dropped, %llu skipped\n",
		  c.frames, c.torn, c.revoked, c.dropped, c.skipped);
	v4l2_info(&g->v4l2, "%llu bytes into dma-bufs, %llu into memory of the host, %llu of them copied\n",
		  c.dmabuf_bytes, c.host_bytes, c.copied_bytes);
}

void clients_add(struct grabber *g)
{
	mutex_lock(&lock);
	list_add_tail(&g->node, &grabbers);
	mutex_unlock(&lock);
}

void clients_remove(struct grabber *g)
{
	mutex_lock(&lock);
	list_del(&g->node);
	mutex_unlock(&lock);
}

void clients_init(void)
{
	dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("clients", 0400, dir, NULL, &clients_fops);
	debugfs_create_file("grabbers", 0400, dir, NULL, &grabbers_fops);
}

void clients_exit(void)
{
	debugfs_remove(dir);
}
