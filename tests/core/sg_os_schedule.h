/* SPDX-License-Identifier: MIT */
/*
 * sg_os_schedule.h - core/sg_os.h for tests that choose the schedule: threads are
 * coroutines, and whenever one is about to take a mutex, schedule.c decides who goes
 * on.  Everything in between runs alone, so a run is repeatable to the letter.
 */
#pragma once

#include "../../softgpu/user/common/sg_os_libc.h"

#define sg_info(...) ((void)0)
#define sg_err(...) ((void)0)

static inline void *sg_zalloc(size_t size)
{
	return calloc(1, size);
}

static inline void sg_free(void *p)
{
	free(p);
}

struct sg_mutex {
	int owner;	/* coroutine + 1; 0: free */
};

struct sg_cond {
	int unused;
};

struct sg_thread {
	int id;
};

void sched_mutex_lock(struct sg_mutex *m);
void sched_mutex_unlock(struct sg_mutex *m);
void sched_cond_wait(struct sg_cond *c, struct sg_mutex *m);
void sched_cond_broadcast(struct sg_cond *c);
int sched_thread_start(void (*fn)(void *), void *arg);
void sched_thread_join(int id);
int sched_self(void);

static inline void sg_mutex_init(struct sg_mutex *m)
{
	m->owner = 0;
}

static inline void sg_mutex_destroy(struct sg_mutex *m)
{
	SG_WARN_ON(m->owner);
}

static inline void sg_mutex_lock(struct sg_mutex *m)
{
	sched_mutex_lock(m);
}

static inline void sg_mutex_unlock(struct sg_mutex *m)
{
	sched_mutex_unlock(m);
}

static inline void sg_cond_init(struct sg_cond *c)
{
	c->unused = 0;
}

static inline void sg_cond_destroy(struct sg_cond *c)
{
	(void)c;
}

static inline void sg_cond_wait(struct sg_cond *c, struct sg_mutex *m)
{
	sched_cond_wait(c, m);
}

/* No thread is killed here. */
static inline int sg_cond_wait_killable(struct sg_cond *c, struct sg_mutex *m)
{
	sched_cond_wait(c, m);
	return 0;
}

static inline void sg_cond_broadcast(struct sg_cond *c)
{
	sched_cond_broadcast(c);
}

static inline int sg_thread_start(struct sg_thread *t, void (*fn)(void *), void *arg, const char *name)
{
	(void)name;
	t->id = sched_thread_start(fn, arg);
	return t->id < 0 ? -ENOMEM : 0;
}

static inline void sg_thread_join(struct sg_thread *t)
{
	sched_thread_join(t->id);
}

static inline u64 sg_thread_self(void)
{
	return (u64)sched_self() + 1;
}

static inline u64 sg_random64(void)
{
	static u64 n;

	return n += 0x9e3779b97f4a7c15ULL;
}

static inline void sg_sleep_ms(u32 ms)
{
	(void)ms;
}

static inline u64 sg_now_ns(void)
{
	static u64 n;

	return ++n;
}
