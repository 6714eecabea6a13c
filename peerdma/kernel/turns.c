// SPDX-License-Identifier: MIT OR GPL-2.0
/* turns.c - gets and puts take turns; turns.h says why. */
#include <linux/completion.h>
#include <linux/kernel.h>

#include "turns.h"

#define TURNS_COUNT	0x00ffffff	/* those inside */
#define TURNS_PUT	0x01000000	/* they are puts */
#define TURNS_WAITED	0x02000000	/* somebody waits: nobody goes in past him */

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

static int of_kind(enum peerdma_turn kind)
{
	return kind == TURN_PUT ? TURNS_PUT : 0;
}

/* Goes in if nobody must be waited for.  False: *state says why. */
static bool try_enter(struct peerdma_turns *turns, enum peerdma_turn kind, int *state)
{
	*state = atomic_read(&turns->state);
	do {
		if (*state & TURNS_WAITED)
			return false;
		if (*state & TURNS_COUNT && (*state & TURNS_PUT) != of_kind(kind))
			return false;
	} while (!atomic_try_cmpxchg(&turns->state, state,
				     of_kind(kind) | ((*state & TURNS_COUNT) + 1)));
	return true;
}

static noinline void wait_turn(struct peerdma_turns *turns, enum peerdma_turn kind)
{
	struct waiter me = { .granted = COMPLETION_INITIALIZER_ONSTACK(me.granted) };
	int state;

	spin_lock(&turns->lock);
	while (!try_enter(turns, kind, &state)) {
		/* Set while someone is inside, so that the last one out sees it. */
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

void peerdma_turn_enter(struct peerdma_turns *turns, enum peerdma_turn kind)
{
	int state;

	might_sleep();
	if (unlikely(!try_enter(turns, kind, &state)))
		wait_turn(turns, kind);
}

/* Nobody is inside, and nobody goes in but through here: all who wait of the other kind. */
static noinline void pass_on(struct peerdma_turns *turns, int state)
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
	atomic_set(&turns->state, of_kind(next) | n |
		   (list_empty(&turns->waiting[!next]) ? 0 : TURNS_WAITED));
	spin_unlock(&turns->lock);

	/* A waiter is on its owner's stack, and gone once it is told. */
	list_for_each_entry_safe(waiter, after, &granted, node)
		complete(&waiter->granted);
}

void peerdma_turn_leave(struct peerdma_turns *turns)
{
	int state = atomic_dec_return(&turns->state);

	if (unlikely(state & TURNS_WAITED && !(state & TURNS_COUNT)))
		pass_on(turns, state);
}
