/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * tegra.h - declarations shared by the files of the Tegra personality.
 *
 * Locks: tegra_lock guards the lists of tables and mappings and their states.  No client
 * code runs under it. mmap_lock comes before it.
 */
#ifndef TEGRA_H
#define TEGRA_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/nv-p2p.h>
#include <linux/workqueue.h>

enum table_state {
	TABLE_LIVE,
	TABLE_ENDING,		/* its callback runs */
	TABLE_ENDED,		/* the client has yet to free it */
};

struct table {
	struct nvidia_p2p_page_table pub;	/* the client's */
	struct kref ref;
	struct list_head node;			/* tables, until the client frees it */
	struct list_head mappings;
	enum table_state state;
	struct task_struct *thread;		/* the thread that runs the callback */
	struct completion ended;
	u64 host_va;				/* the process's host address of the pages */
	u32 npages;				/* true count; pub.entries may be falsified */
	const void *process;
	u64 buffer_id;
	bool write_combined;
	char comm[TASK_COMM_LEN];		/* for messages */
	struct work_struct work;		/* end_soon(): ends it in another thread */
	struct work_struct look;		/* protection.c */
};

extern struct mutex tegra_lock;

/* tegra_lock held.  Returns the table at this address, which may be any value, or NULL. */
struct table *table_find(const struct nvidia_p2p_page_table *pub);

/* dma.c; tegra_lock held.  Ends mappings that the client has left. */
void mappings_end(struct table *t);

void table_put(struct table *t);

/*
 * protection.c; tegra_lock held, the table is live. 0, or -EINVAL if a mapping is wrong,
 * which is logged.  If the address space is busy, returns 0, and the check is made and
 * logged a little later.
 */
int protection_check(struct table *t);
void protection_init(struct table *t);

int tables_init(void);
void tables_exit(void);

#endif
