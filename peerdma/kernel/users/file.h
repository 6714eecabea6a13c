/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * file.h - one open file of /dev/peerdma: it owns pins, which end when it is closed, and
 * their events.
 */
#ifndef PEERDMA_FILE_H
#define PEERDMA_FILE_H

#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "core/generations.h"
#include "core/pin.h"

struct seq_file;

/* A process that has opened the device. */
struct peerdma_user {
	struct hlist_node node;		/* users.c */
	struct pid *process;
	char comm[TASK_COMM_LEN];
	u32 files;			/* open ones */
	atomic64_t revocations;		/* of the pins of all its files, ever */
};

struct peerdma_file {
	struct peerdma_owner owner;	/* of its pins */
	struct peerdma_generations generations;
	struct peerdma_user *user;	/* the process that opened it */
	spinlock_t lock;
	struct list_head events;	/* lock: peerdma_pin.event_node, oldest first */
	wait_queue_head_t wait;		/* for events */
	struct xarray maps;		/* handle -> peerdma_map; erased under its pin->lock */
	u32 next_map;
};

int peerdma_file_init(void);
void peerdma_file_exit(void);

/* users.c.  NULL: out of memory. */
struct peerdma_user *peerdma_user_get(void);
void peerdma_user_put(struct peerdma_user *user);
void peerdma_users_show(struct seq_file *s);
void peerdma_users_init(void);
void peerdma_users_exit(void);

/* uapi.c */
long peerdma_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);

#endif
