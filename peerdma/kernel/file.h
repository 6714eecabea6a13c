/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* file.h - one open file of /dev/peerdma: whose pins end with it, and their events. */
#ifndef PEERDMA_FILE_H
#define PEERDMA_FILE_H

#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/xarray.h>

struct peerdma_pin;
struct seq_file;

/* A process that has opened the device. */
struct peerdma_user {
	struct list_head node;		/* users.c */
	struct pid *process;
	char comm[TASK_COMM_LEN];
	u32 files;			/* open ones */
	atomic64_t revocations;		/* of all its files' pins, ever */
};

struct peerdma_file {
	struct peerdma_user *user;	/* who opened it */
	struct hlist_head pins;		/* slots_lock: peerdma_pin.file_node */
	spinlock_t lock;
	struct list_head events;	/* lock: peerdma_pin.event_node, oldest first */
	wait_queue_head_t wait;		/* for events */
	struct xarray maps;		/* handle -> peerdma_map; erased under its pin->lock */
	u32 next_map;
};

/* users.c.  NULL: out of memory. */
struct peerdma_user *peerdma_user_get(void);
void peerdma_user_put(struct peerdma_user *user);
void peerdma_users_show(struct seq_file *s);
void peerdma_users_exit(void);

/* uapi.c */
long peerdma_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);

#endif
