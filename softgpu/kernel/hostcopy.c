// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * hostcopy.c - engine threads access a program's memory: they use its mm during a copy.
 *
 * A page fault in it may take long or never end, if a file system in user space or
 * userfaultfd serves it.  All programs share the engines, and a used mm keeps a killed
 * program's files open.  So a copy is checked each second, and fails like one that faults
 * when the program is gone, or after 30 seconds.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>
#include "softgpu.h"

/* So that a long copy does not keep a killed program. */
#define CHUNK	SZ_256K

#define LOOK_EVERY	HZ
#define LONGEST		(30 * HZ)

/* On the engine's stack, for the time of one chunk. */
struct guard {
	struct delayed_work work;
	struct task_struct *engine;
	struct mm_struct *mm;
	unsigned long end;
};

static void guard_look(struct work_struct *work)
{
	struct guard *g = container_of(to_delayed_work(work), struct guard, work);
	bool late = time_after_eq(jiffies, g->end);

	/* The engine itself is one of the mm's users. */
	if (!late && atomic_read(&g->mm->mm_users) > 1) {
		schedule_delayed_work(&g->work, LOOK_EVERY);
		return;
	}
	if (late)
		pr_notice_ratelimited("a copy failed: it waited %u s for a page of a program\n", LONGEST / HZ);
	send_sig(SIGKILL, g->engine, 1);
}

static void guard_begin(struct guard *g, struct mm_struct *mm)
{
	g->engine = current;
	g->mm = mm;
	g->end = jiffies + LONGEST;
	/* Only the kernel sends this signal.  It only ends a wait in a page fault. */
	allow_kernel_signal(SIGKILL);
	INIT_DELAYED_WORK_ONSTACK(&g->work, guard_look);
	schedule_delayed_work(&g->work, LOOK_EVERY);
}

static void guard_end(struct guard *g)
{
	cancel_delayed_work_sync(&g->work);
	destroy_delayed_work_on_stack(&g->work);
	flush_signals(current);
}

static int copy_here(void *local, u64 addr, u64 len, bool to_process)
{
	void __user *user = (void __user *)(uintptr_t)addr;
	unsigned long left;

	/*
	 * A word that streams write and wait for, of either width, is copied in one access,
	 * since others access it meanwhile.
	 */
	if (len == sizeof(u64) && IS_ALIGNED(addr | (uintptr_t)local, sizeof(u64)))
		return to_process ? put_user(*(u64 *)local, (u64 __user *)user) :
				    get_user(*(u64 *)local, (u64 __user *)user);
	if (len == sizeof(u32) && IS_ALIGNED(addr | (uintptr_t)local, sizeof(u32)))
		return to_process ? put_user(*(u32 *)local, (u32 __user *)user) :
				    get_user(*(u32 *)local, (u32 __user *)user);
	left = to_process ? copy_to_user(user, local, len) : copy_from_user(local, user, len);
	return left ? -EFAULT : 0;
}

static int copy_chunk(struct mm_struct *mm, void *local, u64 addr, u64 len, bool to_process)
{
	struct guard guard;
	int err = -EFAULT;

	/*
	 * A thread of the program can copy directly; threads of other programs cannot do it
	 * at all.
	 */
	if (current->mm == mm)
		return copy_here(local, addr, len, to_process);
	if (SG_WARN_ON(!(current->flags & PF_KTHREAD)))
		return -EFAULT;
	if (!mmget_not_zero(mm))
		return -EFAULT;
	/* If this is the last reference, no program is left to use the data. */
	if (atomic_read(&mm->mm_users) > 1) {
		guard_begin(&guard, mm);
		kthread_use_mm(mm);
		err = copy_here(local, addr, len, to_process);
		kthread_unuse_mm(mm);
		guard_end(&guard);
	}
	mmput(mm);
	return err;
}

static int host_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	while (len) {
		u64 n = min_t(u64, len, CHUNK);
		int err = copy_chunk(cookie, local, addr, n, to_process);

		if (err)
			return err;
		local += n;
		addr += n;
		len -= n;
		cond_resched();
	}
	return 0;
}

const struct sg_host_ops softgpu_host_ops = {
	.copy = host_copy,
};
