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
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/spinlock.h>

enum peerdma_turn {
	TURN_GET,
	TURN_PUT,
};

#define TURNS_COUNT	0x00ffffff	/* those inside */
#define TURNS_PUT	0x01000000	/* they are puts */
#define TURNS_WAITED	0x02000000	/* somebody waits: nobody goes in past him */

struct peerdma_turns {
	atomic_t state;
	spinlock_t lock;		/* guards what follows, and whoever sets TURNS_WAITED */
	struct list_head waiting[2];	/* by kind */
};

void peerdma_turns_init(struct peerdma_turns *turns);
void peerdma_turn_wait(struct peerdma_turns *turns, enum peerdma_turn kind);
void peerdma_turn_pass(struct peerdma_turns *turns, int state);

/* Goes in if nobody must be waited for.  False: *state says why. */
static inline bool peerdma_turn_try(struct peerdma_turns *turns, enum peerdma_turn kind,
				    int *state)
{
	int mine = kind == TURN_PUT ? TURNS_PUT : 0;

	*state = atomic_read(&turns->state);
	do {
		if (*state & TURNS_WAITED ||
		    (*state & TURNS_COUNT && (*state & TURNS_PUT) != mine))
			return false;
	} while (!atomic_try_cmpxchg(&turns->state, state,
				     mine | ((*state & TURNS_COUNT) + 1)));
	return true;
}

/*
 * May sleep, until all of the other kind are out.  Full barriers both: what those
 * did is seen.  Between the two calls do not enter again.
 */
static inline void peerdma_turn_enter(struct peerdma_turns *turns, enum peerdma_turn kind)
{
	int state;

	if (unlikely(!peerdma_turn_try(turns, kind, &state)))
		peerdma_turn_wait(turns, kind);
}

static inline void peerdma_turn_leave(struct peerdma_turns *turns)
{
	int state = atomic_dec_return(&turns->state);

	if (unlikely(state & TURNS_WAITED && !(state & TURNS_COUNT)))
		peerdma_turn_pass(turns, state);
}

#endif
