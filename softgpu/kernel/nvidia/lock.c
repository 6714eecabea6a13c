// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * lock.c - emulates the lock that NVIDIA's driver holds around calls and callbacks.
 *
 * With driver_lock=1 this driver holds such a lock, too.  Lockdep knows it as
 * nvidia_driver, and reports clients that take their own lock both outside and inside it.
 * On kernels without lockdep such a client runs into the deadlock, sooner or later.  No
 * thread waits longer than driver_lock_ms: then the deadlock is logged, and the call
 * continues without the lock.
 *
 * Lock order: no lock of softgpu is held where this one is taken; all may be taken inside
 * it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include "p2p.h"

static bool driver_lock;
module_param(driver_lock, bool, 0644);
MODULE_PARM_DESC(driver_lock, "Hold one lock around calls and free callbacks, as NVIDIA's driver does: clients that deadlock there are named (default N)");

static unsigned int driver_lock_ms = 10000;
module_param(driver_lock_ms, uint, 0644);
MODULE_PARM_DESC(driver_lock_ms, "Milliseconds after which waiting for that lock is taken to be a deadlock (default 10000)");

/* Not a mutex, since it is taken with a timeout. */
static struct semaphore lock = __SEMAPHORE_INITIALIZER(lock, 1);
static struct lock_class_key lock_key;
static struct lockdep_map lock_map __maybe_unused;

static DEFINE_SPINLOCK(holder_lock);
static struct {
	const struct task_struct *task;		/* NULL: none; only compared, never dereferenced */
	pid_t pid;
	char comm[TASK_COMM_LEN];
	const char *what;
} holder;

void nvp2p_lock_init(void)
{
	lockdep_init_map(&lock_map, "nvidia_driver", &lock_key, 0);
}

static void set_holder(const struct task_struct *task, const char *what)
{
	spin_lock(&holder_lock);
	holder.task = task;
	holder.what = what;
	if (task) {
		holder.pid = task_pid_nr(current);
		get_task_comm(holder.comm, current);
	}
	spin_unlock(&holder_lock);
}

static void deadlock(const char *what, const void *code)
{
	char comm[TASK_COMM_LEN] = "?";
	const char *does = "no call";
	pid_t pid = 0;

	spin_lock(&holder_lock);
	if (holder.task) {
		memcpy(comm, holder.comm, sizeof(comm));
		does = holder.what;
		pid = holder.pid;
	}
	spin_unlock(&holder_lock);
	nvp2p_mistake(NVP2P_DEADLOCK, code, "%s has waited %u ms for the driver's lock; %s[%d] holds it in %s", what,
		      READ_ONCE(driver_lock_ms), comm, pid, does);
}

enum nvp2p_locked nvp2p_lock(const char *what, const void *code)
{
	/* A call from a callback was logged already; reporting a deadlock would add nothing. */
	if (!READ_ONCE(driver_lock) || READ_ONCE(holder.task) == current)
		return NVP2P_NO_LOCK;
	lock_map_acquire(&lock_map);
	if (down_timeout(&lock, msecs_to_jiffies(READ_ONCE(driver_lock_ms)))) {
		lock_map_release(&lock_map);
		deadlock(what, code);
		return NVP2P_STUCK;
	}
	set_holder(current, what);
	return NVP2P_LOCKED;
}

void nvp2p_unlock(enum nvp2p_locked locked)
{
	if (locked != NVP2P_LOCKED)
		return;
	set_holder(NULL, NULL);
	up(&lock);
	lock_map_release(&lock_map);
}
