// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * users.c - processes that have opened /dev/peerdma, and the number of pins revoked from
 * each: /sys/kernel/debug/peerdma/users.  A count outlives pins and open files, and is
 * dropped after its process has ended.  A record with count 0 is freed with the process's
 * last open file.  Other records of ended processes are freed when another process in the
 * same hash bucket opens the device.
 */
#include <linux/hashtable.h>
#include <linux/sched.h>
#include <linux/seq_file.h>

#include "core/charge.h"
#include "core/pin.h"
#include "file.h"

static DEFINE_MUTEX(users_lock);
static DEFINE_HASHTABLE(users, 8);	/* by process */

/* users_lock held; no file uses the record. */
static void forget(struct peerdma_user *user)
{
	hash_del(&user->node);
	put_pid(user->process);
	kfree(user);
}

static bool is_gone(const struct peerdma_user *user)
{
	bool gone;

	rcu_read_lock();
	gone = !pid_task(user->process, PIDTYPE_TGID);
	rcu_read_unlock();
	return gone && !user->files;
}

/*
 * Returns the record of this process, or NULL; frees records of ended processes in the same
 * bucket. users_lock held.
 */
static struct peerdma_user *find(void)
{
	struct peerdma_user *user, *found = NULL;
	struct hlist_node *next;

	hash_for_each_possible_safe(users, user, next, node, (unsigned long)task_tgid(current)) {
		if (user->process == task_tgid(current))
			found = user;
		else if (is_gone(user))
			forget(user);
	}
	return found;
}

struct peerdma_user *peerdma_user_get(void)
{
	struct peerdma_user *fresh = peerdma_zalloc(sizeof(*fresh)), *user;

	if (!fresh)
		return NULL;
	fresh->process = get_pid(task_tgid(current));
	get_task_comm(fresh->comm, current->group_leader);

	mutex_lock(&users_lock);
	user = find();
	if (!user) {
		user = fresh;
		hash_add(users, &user->node, (unsigned long)user->process);
	}
	user->files++;
	mutex_unlock(&users_lock);

	if (user != fresh) {
		put_pid(fresh->process);
		kfree(fresh);
	}
	return user;
}

void peerdma_user_put(struct peerdma_user *user)
{
	mutex_lock(&users_lock);
	user->files--;
	if (is_gone(user) || (!user->files && !atomic64_read(&user->revocations)))
		forget(user);
	mutex_unlock(&users_lock);
}

void peerdma_users_show(struct seq_file *s)
{
	struct peerdma_user *user;
	int i;

	seq_puts(s, "pid\tcomm\trevocations\n");
	mutex_lock(&users_lock);
	hash_for_each(users, i, user, node) {
		if (is_gone(user))
			continue;
		seq_printf(s, "%d\t", pid_nr(user->process));
		seq_escape(s, user->comm, "\t\n\\");
		seq_printf(s, "\t%lld\n", atomic64_read(&user->revocations));
	}
	mutex_unlock(&users_lock);
}

void peerdma_users_init(void)
{
	PEERDMA_CHARGE_BEFORE(&users_lock, 0);
}

/* No file is open. */
void peerdma_users_exit(void)
{
	struct peerdma_user *user;
	struct hlist_node *next;
	int i;

	mutex_lock(&users_lock);
	hash_for_each_safe(users, i, next, user, node)
		forget(user);
	mutex_unlock(&users_lock);
}
