/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * group_lock.h - a group lock: excludes a provider's gets from its puts.  Many gets may run at
 * once, or many puts, never both kinds.
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
 * All users share the group lock of a provider.  So a thread inside waits for the provider
 * alone: it faults no user memory in, and allocates nothing that is charged (charge.h).  The
 * wait for the lock is as long as the provider's calls that are under way.  SIGKILL ends it
 * where the caller can do without the lock.
 */
#ifndef PEERDMA_GROUP_LOCK_H
#define PEERDMA_GROUP_LOCK_H

#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/spinlock.h>

enum peerdma_group {
	GROUP_GET,
	GROUP_PUT,
};

#define GROUP_LOCK_COUNT	0x00ffffff	/* number of threads inside */
#define GROUP_LOCK_PUT		0x01000000	/* the threads inside are putting */
#define GROUP_LOCK_WAITED	0x02000000	/* a thread waits: no other may enter before it */

struct peerdma_group_lock {
	atomic_t state;
	spinlock_t wait_lock;		/* guards the lists and setting GROUP_LOCK_WAITED */
	struct list_head waiting[2];	/* by kind */
#ifdef CONFIG_LOCKDEP
	struct lockdep_map dep_map;	/* to lockdep, either side is the lock */
#endif
};

void peerdma_group_lock_init(struct peerdma_group_lock *lock);
/* -EINTR: only with `killable'. */
int peerdma_group_wait(struct peerdma_group_lock *lock, enum peerdma_group kind, bool killable);
void peerdma_group_pass(struct peerdma_group_lock *lock, int state);

#ifdef CONFIG_LOCKDEP
#define peerdma_group_acquired(lock)	lock_map_acquire(&(lock)->dep_map)
#define peerdma_group_released(lock)	lock_map_release(&(lock)->dep_map)
#else
#define peerdma_group_acquired(lock)	do { } while (0)
#define peerdma_group_released(lock)	do { } while (0)
#endif

/* Enters if the other kind is neither inside nor waiting.  False: *state says why not. */
static inline bool peerdma_group_try(struct peerdma_group_lock *lock, enum peerdma_group kind,
				     int *state)
{
	int mine = kind == GROUP_PUT ? GROUP_LOCK_PUT : 0;

	*state = atomic_read(&lock->state);
	do {
		if (*state & GROUP_LOCK_WAITED ||
		    (*state & GROUP_LOCK_COUNT && (*state & GROUP_LOCK_PUT) != mine))
			return false;
	} while (!atomic_try_cmpxchg(&lock->state, state,
				     mine | ((*state & GROUP_LOCK_COUNT) + 1)));
	return true;
}

/*
 * May sleep until all threads of the other kind have left.  All calls are full barriers:
 * the caller sees what those threads did.  Do not enter again before leaving.
 */
static inline void peerdma_group_enter(struct peerdma_group_lock *lock, enum peerdma_group kind)
{
	int state;

	if (unlikely(!peerdma_group_try(lock, kind, &state)))
		peerdma_group_wait(lock, kind, false);
	peerdma_group_acquired(lock);
}

/* The same, or -EINTR: this process was killed while it waited. */
static inline int peerdma_group_enter_killable(struct peerdma_group_lock *lock,
					       enum peerdma_group kind)
{
	int state, err = 0;

	if (unlikely(!peerdma_group_try(lock, kind, &state)))
		err = peerdma_group_wait(lock, kind, true);
	if (likely(!err))
		peerdma_group_acquired(lock);
	return err;
}

static inline void peerdma_group_leave(struct peerdma_group_lock *lock)
{
	int state;

	peerdma_group_released(lock);
	state = atomic_dec_return(&lock->state);

	if (unlikely(state & GROUP_LOCK_WAITED && !(state & GROUP_LOCK_COUNT)))
		peerdma_group_pass(lock, state);
}

#endif
