/* SPDX-License-Identifier: MIT */
/* sg_os_user.h - what softgpu's core needs (see core/sg_os.h), in user space. */
#ifndef SG_OS_USER_H
#define SG_OS_USER_H

#include <errno.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The same types as in the kernel, so that formats and pointers agree. */
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#ifndef container_of
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#endif

/* A broken invariant ends the process: nothing that follows can be trusted. */
#define SG_WARN_ON(cond) \
	((cond) ? (fprintf(stderr, "softgpu: %s:%d: broken invariant: %s\n", __FILE__, __LINE__, \
			   #cond), abort(), true) : false)

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
	pthread_cond_wait(&c->c, &m->m);
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

/* For tests: the nth sg_zalloc() from now fails (1: the next one); 0: none does. */
void sg_fail_alloc(u64 nth);

#endif
