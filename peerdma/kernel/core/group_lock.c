// SPDX-License-Identifier: MIT OR GPL-2.0
/* group_lock.c - a provider's gets exclude its puts; group_lock.h says why. */
#include <linux/completion.h>
#include <linux/errno.h>

#include "charge.h"
#include "group_lock.h"

struct waiter {
	struct list_head node;
	struct completion granted;
	bool admitted;			/* lock->wait_lock: it is inside */
};

void peerdma_group_lock_init(struct peerdma_group_lock *lock)
{
#ifdef CONFIG_LOCKDEP
	static struct lock_class_key key;

	lockdep_init_map(&lock->dep_map, "peerdma_group_lock", &key, 0);
#endif
	PEERDMA_CHARGE_BEFORE(lock, 0);
	atomic_set(&lock->state, 0);
	spin_lock_init(&lock->wait_lock);
	INIT_LIST_HEAD(&lock->waiting[GROUP_GET]);
	INIT_LIST_HEAD(&lock->waiting[GROUP_PUT]);
}

/*
 * A killed thread leaves the queue, unless it was admitted meanwhile.  If none waits any
 * more, others may enter again at once.  With no thread inside, the last one that left is
 * about to call peerdma_group_pass(), which sees the empty queues.
 */
static bool leave_queue(struct peerdma_group_lock *lock, struct waiter *me)
{
	bool admitted;
	int state;

	spin_lock(&lock->wait_lock);
	admitted = me->admitted;
	if (!admitted) {
		list_del(&me->node);
		state = atomic_read(&lock->state);
		while (list_empty(&lock->waiting[GROUP_GET]) &&
		       list_empty(&lock->waiting[GROUP_PUT]) &&
		       state & GROUP_LOCK_COUNT &&
		       !atomic_try_cmpxchg(&lock->state, &state, state & ~GROUP_LOCK_WAITED))
			;
	}
	spin_unlock(&lock->wait_lock);
	return !admitted;
}

static int wait_until_granted(struct peerdma_group_lock *lock, struct waiter *me, bool killable)
{
	if (!killable) {
		wait_for_completion(&me->granted);
		return 0;
	}
	if (!wait_for_completion_killable(&me->granted))
		return 0;
	if (leave_queue(lock, me))
		return -EINTR;
	/* Inside, as if there had been no signal: what follows is short. */
	wait_for_completion(&me->granted);
	return 0;
}

int peerdma_group_wait(struct peerdma_group_lock *lock, enum peerdma_group kind, bool killable)
{
	struct waiter me = { .granted = COMPLETION_INITIALIZER_ONSTACK(me.granted) };
	int state;

	spin_lock(&lock->wait_lock);
	while (!peerdma_group_try(lock, kind, &state)) {
		/* Set while a thread is inside, so that the last one to leave sees it. */
		if (state & GROUP_LOCK_WAITED ||
		    atomic_try_cmpxchg(&lock->state, &state, state | GROUP_LOCK_WAITED)) {
			list_add_tail(&me.node, &lock->waiting[kind]);
			spin_unlock(&lock->wait_lock);
			return wait_until_granted(lock, &me, killable);
		}
	}
	spin_unlock(&lock->wait_lock);
	return 0;
}

/*
 * No thread is inside, and none can enter except through here.  Admits all waiting threads
 * of the other kind, or of the same kind if no other waits.
 */
void peerdma_group_pass(struct peerdma_group_lock *lock, int state)
{
	enum peerdma_group next = state & GROUP_LOCK_PUT ? GROUP_GET : GROUP_PUT;
	struct waiter *waiter, *after;
	LIST_HEAD(granted);
	int n = 0;

	spin_lock(&lock->wait_lock);
	if (list_empty(&lock->waiting[next]))
		next = !next;
	list_splice_init(&lock->waiting[next], &granted);
	list_for_each_entry(waiter, &granted, node) {
		waiter->admitted = true;
		n++;
	}
	atomic_set(&lock->state, (next == GROUP_PUT ? GROUP_LOCK_PUT : 0) | n |
		   (list_empty(&lock->waiting[!next]) ? 0 : GROUP_LOCK_WAITED));
	spin_unlock(&lock->wait_lock);

	/* A waiter is on the waiting thread's stack, and is gone once completed. */
	list_for_each_entry_safe(waiter, after, &granted, node)
		complete(&waiter->granted);
}
