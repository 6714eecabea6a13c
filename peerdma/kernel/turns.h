/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * turns.h - a provider's gets and its puts take turns: many gets at once, or
 * many puts at once, never both.
 *
 * Why: a provider knows a pin by the address of its table, and frees the table
 * when its callback for that pin returns.  Whoever puts has looked whether the
 * callback has come, but it may come between that look and the provider's own;
 * if a get is given the same address at that moment, the put ends a pin that is
 * not its own.  While a put is under way no get returns, so no table of ours
 * can have the address of one that is gone.
 *
 * The way in and out is one atomic operation unless the other kind is at work or
 * waits.  Who finds the other kind waiting queues up behind it, so neither starves.
 */
#ifndef PEERDMA_TURNS_H
#define PEERDMA_TURNS_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>

enum peerdma_turn {
	TURN_GET,
	TURN_PUT,
};

struct peerdma_turns {
	atomic_t state;			/* how many are in, whose turn it is, does anyone wait */
	spinlock_t lock;		/* guards what follows, and whoever sets TURNS_WAITED */
	struct list_head waiting[2];	/* by kind */
};

void peerdma_turns_init(struct peerdma_turns *turns);
/*
 * May sleep, until all of the other kind are out.  Full barriers both: what those
 * did is seen.  Between the two calls do not enter again.
 */
void peerdma_turn_enter(struct peerdma_turns *turns, enum peerdma_turn kind);
void peerdma_turn_leave(struct peerdma_turns *turns);

#endif
