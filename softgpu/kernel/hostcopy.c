// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * hostcopy.c - engine threads access a program's memory: they use its mm during a copy.
 *
 * All programs share the engines, so an engine takes no page fault.  If a page is not there, a
 * thread of the program's own brings it in (fetch.c of the core).  That may take long or never
 * end, if a file system in user space or userfaultfd serves the page, and a used mm keeps a
 * killed program's files open.  So the fetch is checked each second, and is ended when the
 * program is gone, or after 30 seconds.  The kernel does not end every fault: a request that a
 * FUSE server has read is waited for.  Such a thread stays until the file system goes, also
 * when the program is gone.  So a user's fetches are limited in number; one more fails the
 * copy that needs it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cred.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/printk.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>
#include "softgpu.h"

/* So that a long copy does not keep a killed program. */
#define CHUNK	SZ_256K

#define LOOK_EVERY	HZ
#define LONGEST		(30 * HZ)

/* Of one user, at once.  A client has one at most. */
#define MOST_FETCHES	1024

struct softgpu_user {
	struct list_head node;		/* users */
	kuid_t uid;
	refcount_t refs;		/* the last one is dropped under users_lock */
	atomic_t fetches;
};

static LIST_HEAD(users);
static DEFINE_SPINLOCK(users_lock);

struct fetch {
	struct sg_fetch *core;
	struct softgpu_host host;
};

/* ---- programs and users ---- */

static struct softgpu_user *known_user(kuid_t uid)
{
	struct softgpu_user *user;

	lockdep_assert_held(&users_lock);
	list_for_each_entry(user, &users, node) {
		if (uid_eq(user->uid, uid)) {
			refcount_inc(&user->refs);
			return user;
		}
	}
	return NULL;
}

static struct softgpu_user *user_get(kuid_t uid)
{
	struct softgpu_user *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT), *user;

	if (!fresh)
		return NULL;
	fresh->uid = uid;
	refcount_set(&fresh->refs, 1);
	spin_lock(&users_lock);
	user = known_user(uid);
	if (!user)
		list_add(&fresh->node, &users);
	spin_unlock(&users_lock);
	if (!user)
		return fresh;
	kfree(fresh);
	return user;
}

static void user_put(struct softgpu_user *user)
{
	if (refcount_dec_and_lock(&user->refs, &users_lock)) {
		list_del(&user->node);
		spin_unlock(&users_lock);
		kfree(user);
	}
}

int softgpu_host_init(struct softgpu_host *host)
{
	host->user = user_get(current_euid());
	if (!host->user)
		return -ENOMEM;
	host->mm = current->mm;
	mmgrab(host->mm);
	return 0;
}

void softgpu_host_uninit(struct softgpu_host *host)
{
	mmdrop(host->mm);
	user_put(host->user);
}

/* A second reference to both. */
static void host_copy_of(struct softgpu_host *to, const struct softgpu_host *from)
{
	*to = *from;
	mmgrab(to->mm);
	refcount_inc(&to->user->refs);
}

/* ---- pages that are there ---- */

/* On the stack of the thread that fetches, for the time of one chunk. */
struct guard {
	struct delayed_work work;
	struct task_struct *thread;
	struct mm_struct *mm;
	unsigned long end;
};

static void guard_look(struct work_struct *work)
{
	struct guard *g = container_of(to_delayed_work(work), struct guard, work);
	bool late = time_after_eq(jiffies, g->end);

	/* The thread itself is one of the mm's users. */
	if (!late && atomic_read(&g->mm->mm_users) > 1) {
		schedule_delayed_work(&g->work, LOOK_EVERY);
		return;
	}
	if (late)
		pr_notice_ratelimited("a copy failed: it waited %u s for a page of a program\n", LONGEST / HZ);
	send_sig(SIGKILL, g->thread, 1);
}

static void guard_begin(struct guard *g, struct mm_struct *mm)
{
	g->thread = current;
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
	int err = -EFAULT;

	if (SG_WARN_ON(!(current->flags & PF_KTHREAD)))
		return -EFAULT;
	if (!mmget_not_zero(mm))
		return -EFAULT;
	/* If this is the last reference, no program is left to use the data. */
	if (atomic_read(&mm->mm_users) > 1) {
		kthread_use_mm(mm);
		pagefault_disable();
		err = copy_here(local, addr, len, to_process) ? -EAGAIN : 0;
		pagefault_enable();
		kthread_unuse_mm(mm);
	}
	/*
	 * Not here, if it is the last reference: the end of an address space waits for the file
	 * systems of its mappings, which may be the user's, and all users share this engine.
	 */
	mmput_async(mm);
	return err;
}

static int host_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	const struct softgpu_host *host = cookie;

	while (len) {
		u64 n = min_t(u64, len, CHUNK);
		int err = copy_chunk(host->mm, local, addr, n, to_process);

		if (err)
			return err;
		local += n;
		addr += n;
		len -= n;
		cond_resched();
	}
	return 0;
}

/* ---- pages that are not there: a thread for each fetch ---- */

/* Page by page: for several, fault_in_safe_writeable() may return success if only the first could be written. */
static int fault_in(u64 addr, u64 len, bool write)
{
	while (len) {
		char __user *user = (char __user *)(uintptr_t)addr;
		u64 n = min_t(u64, len, PAGE_SIZE - offset_in_page(addr));

		if (!access_ok(user, n) ||
		    (write ? fault_in_safe_writeable(user, n) : fault_in_readable(user, n)))
			return -EFAULT;
		addr += n;
		len -= n;
	}
	return 0;
}

static int fetch_chunk(struct mm_struct *mm, u64 addr, u64 len, bool write)
{
	struct guard guard;
	int err = -EFAULT;

	if (!mmget_not_zero(mm))
		return -EFAULT;
	if (atomic_read(&mm->mm_users) > 1) {
		guard_begin(&guard, mm);
		kthread_use_mm(mm);
		err = fault_in(addr, len, write);
		kthread_unuse_mm(mm);
		guard_end(&guard);
	}
	/* It may be the last reference, and wait: this thread is the client's own. */
	mmput(mm);
	return err;
}

static int fetch_all(const struct fetch *f)
{
	u64 addr = f->core->va, len = f->core->len;

	while (len) {
		u64 n = min_t(u64, len, CHUNK);
		int err = fetch_chunk(f->host.mm, addr, n, f->core->write);

		if (err)
			return err;
		addr += n;
		len -= n;
		cond_resched();
	}
	return 0;
}

static int fetch_main(void *data)
{
	struct fetch *f = data;

	sg_fetched(f->core, fetch_all(f));
	atomic_dec(&f->host.user->fetches);
	softgpu_host_uninit(&f->host);
	kfree(f);
	module_put_and_kthread_exit(0);
	return 0;
}

static int host_fetch(void *cookie, struct sg_fetch *core)
{
	const struct softgpu_host *host = cookie;
	struct task_struct *thread;
	struct fetch *f;

	if (atomic_inc_return(&host->user->fetches) > MOST_FETCHES) {
		atomic_dec(&host->user->fetches);
		pr_notice_ratelimited("a copy failed: user %u has %u copies that wait for pages\n",
				      from_kuid(&init_user_ns, host->user->uid), MOST_FETCHES);
		return -EAGAIN;
	}
	f = kmalloc(sizeof(*f), GFP_KERNEL);
	if (!f) {
		atomic_dec(&host->user->fetches);
		return -ENOMEM;
	}
	f->core = core;
	host_copy_of(&f->host, host);
	/* The client is an open file, which holds the module. */
	__module_get(THIS_MODULE);
	thread = kthread_run(fetch_main, f, "softgpu-fetch");
	if (!IS_ERR(thread))
		return 0;
	module_put(THIS_MODULE);
	atomic_dec(&f->host.user->fetches);
	softgpu_host_uninit(&f->host);
	kfree(f);
	return PTR_ERR(thread);
}

const struct sg_host_ops softgpu_host_ops = {
	.copy = host_copy,
	.fetch = host_fetch,
};
