/* SPDX-License-Identifier: MIT */
/*
 * order_schedule.h - base/order.h for tests that choose the schedule (tests/core's
 * scheduler): threads are coroutines, each access is a point where another goes
 * on, and each thread's stores wait in a buffer, in order, as x86's do: the thread
 * itself sees them, others do when a drainer, a coroutine too, has let them out.
 * A lock, a fence and an exchange empty the buffer first.  That something is out of
 * the index waits there, too: it is a store like others.
 *
 * Weaker processors also let loads pass loads; of that nothing is tried here.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t order_load(const volatile void *p, size_t size);
void order_store(volatile void *p, size_t size, uint64_t value);
bool order_replace(volatile void *p, size_t size, uint64_t from, uint64_t to);
void order_fence(void);
void order_lock(pthread_mutex_t *m);
void order_unlock(pthread_mutex_t *m);
void order_wait(void);
void order_wake_all(void);

#define ord_load(p)		((__typeof__(*(p)))order_load(p, sizeof(*(p))))
#define ord_load_acquire(p)	ord_load(p)
#define ord_store(p, v)		order_store(p, sizeof(*(p)), (uint64_t)(v))
#define ord_store_release(p, v)	ord_store(p, v)
#define ord_replace(p, from, to) order_replace(p, sizeof(*(p)), (uint64_t)(from), (uint64_t)(to))
#define ord_fence()		order_fence()
#define ord_fence_light()	((void)0)
bool ord_fence_others(void);
bool ord_fence_others_works(void);
#define ord_lock(m)		order_lock(m)
#define ord_unlock(m)		order_unlock(m)
#define ord_wait(c, m)		order_wait()
#define ord_wake_all(c)		order_wake_all()

/* The index itself is the plain one. */
struct index;
struct index_place;
uint32_t order_index_floor(const struct index *index, struct index_place *place, uint64_t x);
int order_index_remove(struct index *index, uint64_t key);
#define index_floor		order_index_floor
#define index_remove		order_index_remove

/* The coroutine's own. */
struct thread_state;
struct thread_state *order_this_thread(void);
#define this_thread		(*order_this_thread())
