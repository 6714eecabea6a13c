// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * hostcopy.c - how the engines' threads reach a program's memory: they take on
 * its mm for the time of a copy.
 */
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include "softgpu.h"

/* So that a program that was killed is not kept by a long copy. */
#define CHUNK	SZ_256K

static int copy_here(void *local, u64 addr, u64 len, bool to_process)
{
	void __user *user = (void __user *)(uintptr_t)addr;
	unsigned long left;

	left = to_process ? copy_to_user(user, local, len) : copy_from_user(local, user, len);
	return left ? -EFAULT : 0;
}

static int copy_chunk(struct mm_struct *mm, void *local, u64 addr, u64 len, bool to_process)
{
	int err = -EFAULT;

	/* A copy by the program's own thread needs nothing; other threads cannot do it. */
	if (current->mm == mm)
		return copy_here(local, addr, len, to_process);
	if (SG_WARN_ON(!(current->flags & PF_KTHREAD)))
		return -EFAULT;
	if (!mmget_not_zero(mm))
		return -EFAULT;
	/* Is this the last reference, nobody is left to want the data. */
	if (atomic_read(&mm->mm_users) > 1) {
		kthread_use_mm(mm);
		err = copy_here(local, addr, len, to_process);
		kthread_unuse_mm(mm);
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
