/* SPDX-License-Identifier: MIT */
/*
 * order.h - atomic accesses and fences, for data of the cache that two threads may access at the
 * same time.
 *
 * A test replaces this header (CACHE_ORDER_HEADER). In the test, each of these calls is a point
 * where another thread may run, and stores wait in a buffer, like a processor's store buffer, until
 * a fence or a random event flushes them.
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
 * Replaces `from` by `to`. False: the word had another value. Acts as a full fence. An exchange
 * alone is one on x86 only: on arm64 without LSE, a later load may be made between its load and its
 * store.
 */
#define ord_replace(p, from, to)	__extension__ ({				\
	__typeof__(*(p)) expected_ = (from);						\
	bool done_ = __atomic_compare_exchange_n(p, &expected_, to, false, __ATOMIC_SEQ_CST,	\
						 __ATOMIC_SEQ_CST);			\
	ord_fence_after_replace();							\
	done_; })

/* Makes earlier stores visible to other threads before later loads. */
#if defined(__SANITIZE_THREAD__)
/* The thread sanitizer does not support fences, but an exchange on one word. */
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
/* The cheap half of an asymmetric fence: a compiler fence. The other half is ord_fence_others(). */
#define ord_fence_light()	__atomic_signal_fence(__ATOMIC_SEQ_CST)
/*
 * The expensive half: acts as a fence in every running thread of this process. False: a seccomp
 * filter has forbidden it meanwhile.
 */
bool ord_fence_others(void);
/*
 * Whether this machine supports ord_fence_others(). If not, callers must use ord_fence() in place
 * of ord_fence_light().
 */
bool ord_fence_others_works(void);

#define ord_lock(m)		pthread_mutex_lock(m)
#define ord_unlock(m)		pthread_mutex_unlock(m)
#define ord_wait(c, m)		pthread_cond_wait(c, m)
#define ord_wake_all(c)		pthread_cond_broadcast(c)

#endif
#endif
