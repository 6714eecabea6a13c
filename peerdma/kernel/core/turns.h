/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * turns.h - excludes a provider's gets from its puts: many gets may run at once, or many
 * puts, never both kinds.
 *
 * Why: a provider knows a pin by the address of its page table, and frees the table when
 * its callback for that pin returns.  Before a put we check that the callback has not come,
 * but it may come between our check and the provider's.  If a get received a table at the
 * same address at that moment, the put would end the wrong pin.  No get returns while a put
 * is under way, so no table in use can have the address of a freed one.
 *
 * Entering and leaving each take one atomic operation unless the other kind is inside or
 * waits.  A thread that finds the other kind waiting queues up behind it, so neither kind
 * starves.
 *
 * All users share the turns of a provider.  So a thread inside waits for the provider alone:
 * it faults no user memory in, and allocates nothing that is charged (charge.h).  The wait
 * for a turn is as long as the provider's calls that are under way.  SIGKILL ends it where
 * the caller can do without the turn.
 */
#ifndef PEERDMA_TURNS_H
#define PEERDMA_TURNS_H

#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/spinlock.h>

enum peerdma_turn {
	TURN_GET,
	TURN_PUT,
};

#define TURNS_COUNT	0x00ffffff	/* number of threads inside */
#define TURNS_PUT	0x01000000	/* the threads inside are putting */
#define TURNS_WAITED	0x02000000	/* a thread waits: no other may enter before it */

struct peerdma_turns {
	atomic_t state;
	spinlock_t lock;		/* guards the lists and setting TURNS_WAITED */
	struct list_head waiting[2];	/* by kind */
#ifdef CONFIG_LOCKDEP
	struct lockdep_map dep_map;	/* to lockdep, a turn is a lock */
#endif
};

void peerdma_turns_init(struct peerdma_turns *turns);
/* -EINTR: only with `killable'. */
int peerdma_turn_wait(struct peerdma_turns *turns, enum peerdma_turn kind, bool killable);
void peerdma_turn_pass(struct peerdma_turns *turns, int state);

#ifdef CONFIG_LOCKDEP
#define peerdma_turn_acquired(turns)	lock_map_acquire(&(turns)->dep_map)
#define peerdma_turn_released(turns)	lock_map_release(&(turns)->dep_map)
#else
#define peerdma_turn_acquired(turns)	do { } while (0)
#define peerdma_turn_released(turns)	do { } while (0)
#endif

/* Enters if the other kind is neither inside nor waiting.  False: *state says why not. */
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
 * May sleep until all threads of the other kind have left.  All calls are full barriers:
 * the caller sees what those threads did.  Do not enter again before leaving.
 */
static inline void peerdma_turn_enter(struct peerdma_turns *turns, enum peerdma_turn kind)
{
	int state;

	if (unlikely(!peerdma_turn_try(turns, kind, &state)))
		peerdma_turn_wait(turns, kind, false);
	peerdma_turn_acquired(turns);
}

/* The same, or -EINTR: this process was killed while it waited. */
static inline int peerdma_turn_enter_killable(struct peerdma_turns *turns, enum peerdma_turn kind)
{
	int state, err = 0;

	if (unlikely(!peerdma_turn_try(turns, kind, &state)))
		err = peerdma_turn_wait(turns, kind, true);
	if (likely(!err))
		peerdma_turn_acquired(turns);
	return err;
}

static inline void peerdma_turn_leave(struct peerdma_turns *turns)
{
	int state;

	peerdma_turn_released(turns);
	state = atomic_dec_return(&turns->state);

	if (unlikely(state & TURNS_WAITED && !(state & TURNS_COUNT)))
		peerdma_turn_pass(turns, state);
}

#endif
