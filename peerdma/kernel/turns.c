// SPDX-License-Identifier: MIT OR GPL-2.0
/* turns.c - gets and puts take turns; turns.h says why. */
#include <linux/completion.h>

#include "turns.h"

struct waiter {
	struct list_head node;
	struct completion granted;
};

void peerdma_turns_init(struct peerdma_turns *turns)
{
	atomic_set(&turns->state, 0);
	spin_lock_init(&turns->lock);
	INIT_LIST_HEAD(&turns->waiting[TURN_GET]);
	INIT_LIST_HEAD(&turns->waiting[TURN_PUT]);
}

void peerdma_turn_wait(struct peerdma_turns *turns, enum peerdma_turn kind)
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
			wait_for_completion(&me.granted);
			return;
		}
	}
	spin_unlock(&turns->lock);
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
	list_for_each_entry(waiter, &granted, node)
		n++;
	atomic_set(&turns->state, (next == TURN_PUT ? TURNS_PUT : 0) | n |
		   (list_empty(&turns->waiting[!next]) ? 0 : TURNS_WAITED));
	spin_unlock(&turns->lock);

	/* A waiter is on the waiting thread's stack, and is gone once completed. */
	list_for_each_entry_safe(waiter, after, &granted, node)
		complete(&waiter->granted);
}
