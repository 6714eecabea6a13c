/* SPDX-License-Identifier: MIT */
/* sg_os_user.h - implements core/sg_os.h, the environment of softgpu's core, in user space. */
#pragma once

#include <pthread.h>

#include "sg_os_libc.h"
#include "uncancelled.h"

#define sg_info(...) ((void)0)
#define sg_err(fmt, ...) fprintf(stderr, "softgpu: " fmt "\n", ##__VA_ARGS__)

void *sg_zalloc(size_t size);
void sg_free(void *p);

struct sg_mutex {
	pthread_mutex_t m;
};

struct sg_cond {
	pthread_cond_t c;
};

struct sg_thread {
	pthread_t t;
	void (*fn)(void *);
	void *arg;
};

bool sg_is_killed(void);

static inline void sg_mutex_init(struct sg_mutex *m)
{
	pthread_mutex_init(&m->m, NULL);
}

static inline void sg_mutex_destroy(struct sg_mutex *m)
{
	pthread_mutex_destroy(&m->m);
}

static inline void sg_mutex_lock(struct sg_mutex *m)
{
	pthread_mutex_lock(&m->m);
}

static inline void sg_mutex_unlock(struct sg_mutex *m)
{
	pthread_mutex_unlock(&m->m);
}

static inline void sg_cond_init(struct sg_cond *c)
{
	pthread_cond_init(&c->c, NULL);
}

static inline void sg_cond_destroy(struct sg_cond *c)
{
	pthread_cond_destroy(&c->c);
}

static inline void sg_cond_wait(struct sg_cond *c, struct sg_mutex *m)
{
	SGU_UNCANCELLED;

	pthread_cond_wait(&c->c, &m->m);
}

/* Killing a process ends its core, too. So only tests interrupt this wait. */
static inline int sg_cond_wait_killable(struct sg_cond *c, struct sg_mutex *m)
{
	sg_cond_wait(c, m);
	return sg_is_killed() ? -EINTR : 0;
}

static inline void sg_cond_broadcast(struct sg_cond *c)
{
	pthread_cond_broadcast(&c->c);
}

int sg_thread_start(struct sg_thread *t, void (*fn)(void *), void *arg, const char *name);
void sg_thread_join(struct sg_thread *t);
u64 sg_thread_self(void);
u64 sg_random64(void);
u64 sg_now_ns(void);
void sg_sleep_ms(u32 ms);

/* For tests: the nth sg_zalloc() from now fails. 1: the next one. 0: none. */
void sg_fail_alloc(u64 nth);

/*
 * For tests: marks a thread (its sg_thread_self(); 0: none) as being killed. Its killable waits
 * then return at their next broadcast.
 */
void sg_kill(u64 thread);
