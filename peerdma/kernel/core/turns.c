// SPDX-License-Identifier: MIT OR GPL-2.0
/* turns.c - gets and puts take turns; turns.h says why. */
#include <linux/completion.h>
#include <linux/errno.h>

#include "charge.h"
#include "turns.h"

struct waiter {
	struct list_head node;
	struct completion granted;
	bool admitted;			/* turns->lock: it is inside */
};

void peerdma_turns_init(struct peerdma_turns *turns)
{
#ifdef CONFIG_LOCKDEP
	static struct lock_class_key key;

	lockdep_init_map(&turns->dep_map, "peerdma_turns", &key, 0);
#endif
	PEERDMA_CHARGE_BEFORE(turns, 0);
	atomic_set(&turns->state, 0);
	spin_lock_init(&turns->lock);
	INIT_LIST_HEAD(&turns->waiting[TURN_GET]);
	INIT_LIST_HEAD(&turns->waiting[TURN_PUT]);
}

/*
 * A killed thread leaves the queue, unless it was admitted meanwhile.  If none waits any
 * more, others may enter again at once.  With no thread inside, the last one that left is
 * about to call peerdma_turn_pass(), which sees the empty queues.
 */
static bool leave_queue(struct peerdma_turns *turns, struct waiter *me)
{
	bool admitted;
	int state;

	spin_lock(&turns->lock);
	admitted = me->admitted;
	if (!admitted) {
		list_del(&me->node);
		state = atomic_read(&turns->state);
		while (list_empty(&turns->waiting[TURN_GET]) && list_empty(&turns->waiting[TURN_PUT]) &&
		       state & TURNS_COUNT &&
		       !atomic_try_cmpxchg(&turns->state, &state, state & ~TURNS_WAITED))
			;
	}
	spin_unlock(&turns->lock);
	return !admitted;
}

static int wait_until_granted(struct peerdma_turns *turns, struct waiter *me, bool killable)
{
	if (!killable) {
		wait_for_completion(&me->granted);
		return 0;
	}
	if (!wait_for_completion_killable(&me->granted))
		return 0;
	if (leave_queue(turns, me))
		return -EINTR;
	/* Inside, as if there had been no signal: what follows is short. */
	wait_for_completion(&me->granted);
	return 0;
}

int peerdma_turn_wait(struct peerdma_turns *turns, enum peerdma_turn kind, bool killable)
{
	struct waiter me = { .granted = COMPLETION_INITIALIZER_ONSTACK(me.granted) };
	int state;

	spin_lock(&turns->lock);
	while (!peerdma_turn_try(turns, kind, &state)) {
		/* Set while a thread is inside, so that the last one to leave sees it. */
		if (state & TURNS_WAITED ||
		    atomic_try_cmpxchg(&turns->state, &state, state | TURNS_WAITED)) {
			list_add_tail(&me.node, &turns->waiting[kind]);
			spin_unlock(&turns->lock);
			return wait_until_granted(turns, &me, killable);
		}
	}
	spin_unlock(&turns->lock);
	return 0;
}

/*
 * No thread is inside, and none can enter except through here.  Admits all waiting threads
 * of the other kind, or of the same kind if no other waits.
 */
void peerdma_turn_pass(struct peerdma_turns *turns, int state)
{
	enum peerdma_turn next = state & TURNS_PUT ? TURN_GET : TURN_PUT;
	struct waiter *waiter, *after;
	LIST_HEAD(granted);
	int n = 0;

	spin_lock(&turns->lock);
	if (list_empty(&turns->waiting[next]))
		next = !next;
	list_splice_init(&turns->waiting[next], &granted);
	list_for_each_entry(waiter, &granted, node) {
		waiter->admitted = true;
		n++;
	}
	atomic_set(&turns->state, (next == TURN_PUT ? TURNS_PUT : 0) | n |
		   (list_empty(&turns->waiting[!next]) ? 0 : TURNS_WAITED));
	spin_unlock(&turns->lock);

	/* A waiter is on the waiting thread's stack, and is gone once completed. */
	list_for_each_entry_safe(waiter, after, &granted, node)
		complete(&waiter->granted);
}
