/* SPDX-License-Identifier: MIT */
/*
 * order.h - every access of the cache's that two threads may make at once, and
 * what orders them.
 *
 * A test puts a header of its own in this one's place (CACHE_ORDER_HEADER): there
 * each of these is a point where another thread may go on, and stores wait in a
 * buffer, as a processor's do, until a fence or chance lets them out.
 */
#ifndef CACHE_ORDER_H
#define CACHE_ORDER_H

#ifdef CACHE_ORDER_HEADER
#include CACHE_ORDER_HEADER
#else

#include <pthread.h>
#include <stdbool.h>

#define ord_load(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define ord_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define ord_store(p, v)		__atomic_store_n(p, v, __ATOMIC_RELAXED)
#define ord_store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
/*
 * Replaces `from` by `to`; false if something else was there.  Orders like a fence,
 * which an exchange by itself is on x86 only: on arm64 without LSE a later load may
 * be made between its load and its store.
 */
#define ord_replace(p, from, to)	__extension__ ({				\
	__typeof__(*(p)) expected_ = (from);						\
	bool done_ = __atomic_compare_exchange_n(p, &expected_, to, false, __ATOMIC_SEQ_CST,	\
						 __ATOMIC_SEQ_CST);			\
	ord_fence_after_replace();							\
	done_; })

/* Stores before it are seen by others before later loads look. */
#if defined(__SANITIZE_THREAD__)
/* The sanitizer knows no fences, but an exchange on one word. */
static inline void ord_fence(void)
{
	static int word;

	__atomic_exchange_n(&word, 0, __ATOMIC_SEQ_CST);
}
#else
#define ord_fence()		__atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
#if defined(__x86_64__)
#define ord_fence_after_replace() ((void)0)
#else
#define ord_fence_after_replace() ord_fence()
#endif
/* The cheap half of a pair: only a compiler fence; the other half is ord_fence_others(). */
#define ord_fence_light()	__atomic_signal_fence(__ATOMIC_SEQ_CST)
/* The expensive half: as if every running thread of this process had made a fence.  False: it has been forbidden since. */
bool ord_fence_others(void);
/* Whether the machine has it; if not, who makes the cheap half must make a fence instead. */
bool ord_fence_others_works(void);

#define ord_lock(m)		pthread_mutex_lock(m)
#define ord_unlock(m)		pthread_mutex_unlock(m)
#define ord_wait(c, m)		pthread_cond_wait(c, m)
#define ord_wake_all(c)		pthread_cond_broadcast(c)

#endif
#endif
