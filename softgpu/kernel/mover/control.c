// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * control.c - /sys/kernel/debug/dmabuf_mover/NUMBER: each write is a command; a read shows
 * the state.
 */
#include <linux/ctype.h>
#include <linux/debugfs.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "mover.h"

#define WORDS		4
#define LINE_MAX	64
#define MS_MAX		(10 * 60 * 1000)

static struct dentry *root;

static int step_of(const char *word, enum mover_step *s)
{
	int i = word ? match_string(mover_step_names, STEPS, word) : -EINVAL;

	*s = i;
	return i < 0 ? -EINVAL : 0;
}

static int action_of(const char *word, enum mover_action *a)
{
	static const char *const names[] = { "none", "move", "revoke" };
	int i = word ? match_string(names, ARRAY_SIZE(names), word) : -EINVAL;

	*a = i;
	return i < 0 ? -EINVAL : 0;
}

static int number(const char *word, u32 max, u32 *n)
{
	u32 value;

	if (!word || kstrtou32(word, 0, &value) || value > max)
		return -EINVAL;
	*n = value;
	return 0;
}

/* refuse STEP [COUNT [ERRNO]] */
static int order_refusal(struct buffer *b, char *const *w)
{
	enum mover_step s;
	u32 count = 1, err = EOPNOTSUPP;

	/* Unmap and detach cannot be refused. A vmap that fails makes the kernel warn. */
	if (step_of(w[1], &s) || s == STEP_UNMAP || s == STEP_DETACH || s == STEP_VMAP ||
	    (w[2] && number(w[2], U32_MAX, &count)) ||
	    (w[3] && (number(w[3], MAX_ERRNO, &err) || !err)))
		return -EINVAL;
	b->refuse[s].count = count;
	b->refuse[s].err = err;
	return 0;
}

/* at STEP ACTION, after STEP ACTION */
static int order_action(enum mover_action *orders, char *const *w, bool at)
{
	enum mover_action a;
	enum mover_step s;

	/* An importer that is unmapping is still registered to be notified. */
	if (step_of(w[1], &s) || action_of(w[2], &a) || w[3] || (at && s == STEP_UNMAP))
		return -EINVAL;
	orders[s] = a;
	return 0;
}

static int order(struct buffer *b, char *const *w)
{
	if (!strcmp(w[0], "refuse"))
		return order_refusal(b, w);
	if (!strcmp(w[0], "at"))
		return order_action(b->at, w, true);
	if (!strcmp(w[0], "after"))
		return order_action(b->after, w, false);
	if (w[2])
		return -EINVAL;
	if (!strcmp(w[0], "delay"))
		return number(w[1], MS_MAX, &b->delay_ms);
	if (!strcmp(w[0], "short"))
		return number(w[1], b->npages - 1, &b->lacking);
	if (!strcmp(w[0], "vfio"))
		return number(w[1], 1, &b->vfio);
	if (!strcmp(w[0], "timeout"))
		return number(w[1], MS_MAX, &b->timeout_ms);
	return -EINVAL;
}

static int command(struct buffer *b, char *line)
{
	char *w[WORDS + 1] = {}, *word;
	enum mover_action action;
	int n = 0, err;

	while ((word = strsep(&line, " \t\n"))) {
		if (!*word)
			continue;
		if (n == WORDS)
			return -EINVAL;
		w[n++] = word;
	}
	if (!n)
		return -EINVAL;
	err = dma_resv_lock_interruptible(b->dmabuf->resv, NULL);
	if (err)
		return err;
	if (n == 1 && !action_of(w[0], &action) && action) {
		err = buffer_act(b, action);
		dma_resv_unlock(b->dmabuf->resv);
		return err ?: buffer_wait(b);
	}
	err = order(b, w);
	dma_resv_unlock(b->dmabuf->resv);
	return err;
}

static ssize_t control_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct buffer *b = ((struct seq_file *)file->private_data)->private;
	char line[LINE_MAX];
	int err;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;
	line[count] = 0;
	err = command(b, line);
	return err ?: count;
}

static int control_show(struct seq_file *s, void *unused)
{
	struct buffer *b = s->private;
	const struct mapping *m;

	dma_resv_lock(b->dmabuf->resv, NULL);
	seq_printf(s, "state %s\n", b->now ? "live" : "revoked");
	seq_printf(s, "length %zu\n", b->dmabuf->size);
	seq_printf(s, "moves %llu\nrevokes %llu\nbusy %llu\n", b->moves, b->revokes, b->busy);
	seq_printf(s, "maps %llu\nunmaps %llu\n", b->maps, b->unmaps);
	seq_printf(s, "late %llu\n", b->late);
	seq_printf(s, "stale %llu\n", b->stale + (b->aside && !place_intact(b->aside)));
	list_for_each_entry(m, &b->mappings, node)
		seq_printf(s, "mapped %s %s %s\n", dev_name(m->dev),
			   m->attach->importer_ops ? "dynamic" : "static",
			   m->place->retired ? "old" : "now");
	dma_resv_unlock(b->dmabuf->resv);
	return 0;
}

static int control_open(struct inode *inode, struct file *file)
{
	return single_open(file, control_show, inode->i_private);
}

static const struct file_operations control_fops = {
	.owner = THIS_MODULE,
	.open = control_open,
	.release = single_release,
	.read = seq_read,
	.llseek = seq_lseek,
	.write = control_write,
};

void control_add(struct buffer *b)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", b->number);
	b->debugfs = debugfs_create_file(name, 0600, root, b, &control_fops);
}

void control_init(void)
{
	root = debugfs_create_dir("dmabuf_mover", NULL);
}

void control_exit(void)
{
	debugfs_remove(root);
}
