/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * tegra.h - declarations shared by the files of the Tegra personality.
 *
 * Locks: tegra_lock, a spinlock, guards the lists of tables and mappings and their states.
 * It is all that an MMU notifier takes here: the thread that changes the process's pages
 * holds mmap_lock or locks of page tables, may be reclaiming memory, and may not be allowed
 * to sleep.  No client code runs under it.
 */
#ifndef TEGRA_H
#define TEGRA_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/nv-p2p.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

enum table_state {
	TABLE_LIVE,
	TABLE_ENDING,		/* its callback runs */
	TABLE_ENDED,		/* the client has yet to free it */
};

struct table {
	/*
	 * What the client sees, in memory of its own: the client may free it in its callback, after
	 * free_page_table() (client_frees).  So nothing of it is read here.
	 */
	struct nvidia_p2p_page_table *pub;
	bool handed_over;			/* pub is the client's to free */
	u64 vaddr, size;
	struct page **pages;
	struct mm_struct *mm;
	struct mmu_notifier mn;
	void (*callback)(void *data);
	void *data;
	struct kref ref;	/* the client's, the notifier's, and one of each call under way */
	struct list_head node;			/* tables, until the client frees it */
	struct list_head mappings;
	void (*end_mappings)(struct table *t);	/* dma.c's, once there was one */
	enum table_state state;
	struct task_struct *thread;		/* the thread that runs the callback */
	bool atomic;				/* that callback may not sleep */
	bool watched;				/* mn is registered */
	unsigned long ended_at;			/* jiffies */
	struct completion ended;
	u64 host_va;				/* the process's host address of the pages */
	u32 npages;				/* true count; pub->entries may be falsified */
	u32 delay_ms;				/* before its callback */
	bool allocated;				/* by cudaHostAlloc() */
	bool write_combined;			/* as allocated */
	char comm[TASK_COMM_LEN];		/* for messages */
	struct work_struct work;		/* end_soon(): ends it in another thread */
};

extern spinlock_t tegra_lock;

/*
 * Returns the table at this address, which may be any value, with a reference, or NULL.  The
 * table may be ended or freed meanwhile.
 */
struct table *table_get(const struct nvidia_p2p_page_table *pub);
void table_put(struct table *t);
/*
 * tegra_lock held.  Says in the log that a client calls what sleeps in a callback that may
 * not.
 */
void table_check_sleep(const struct table *t, const char *call);

/*
 * protection.c; the caller has a reference to the table. 0, or -EINVAL if a mapping is
 * wrong, which is logged.  If the address space is busy, nothing is checked: 0.
 */
int protection_check(const struct table *t);

void tables_exit(void);

#endif
