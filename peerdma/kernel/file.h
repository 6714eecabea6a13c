/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* file.h - one open file of /dev/peerdma: whose pins end with it, and their events. */
#ifndef PEERDMA_FILE_H
#define PEERDMA_FILE_H

#include <linux/fs.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/xarray.h>

struct peerdma_pin;

struct peerdma_file {
	struct hlist_head pins;		/* slots_lock: peerdma_pin.file_node */
	spinlock_t lock;
	struct list_head events;	/* lock: peerdma_pin.event_node, oldest first */
	wait_queue_head_t wait;		/* for events */
	struct xarray maps;		/* handle -> peerdma_map; erased under its pin->lock */
	u32 next_map;
};

/* uapi.c */
long peerdma_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);

#endif
