/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * sg_os_kernel.h - the kernel's implementation of sg_os.h of softgpu/core. Code that needs
 * the kernel's larger headers is in os.c: these headers use common words as names, which
 * the core may use for its own.
 */
#ifndef SG_OS_KERNEL_H
#define SG_OS_KERNEL_H

#include <linux/bug.h>
#include <linux/completion.h>
#include <linux/container_of.h>
#include <linux/errno.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/wait.h>

#define SG_WARN_ON(cond)	WARN_ON(cond)

#define sg_info(fmt, ...)	pr_info("softgpu: " fmt "\n", ##__VA_ARGS__)
#define sg_err(fmt, ...)	pr_err("softgpu: " fmt "\n", ##__VA_ARGS__)

void *sg_zalloc(size_t size);
void sg_free(void *p);

struct sg_mutex {
	struct mutex m;
};

static inline void sg_mutex_init(struct sg_mutex *m)
{
	mutex_init(&m->m);
}

static inline void sg_mutex_destroy(struct sg_mutex *m)
{
	mutex_destroy(&m->m);
}

static inline void sg_mutex_lock(struct sg_mutex *m)
{
	mutex_lock(&m->m);
}

static inline void sg_mutex_unlock(struct sg_mutex *m)
{
	mutex_unlock(&m->m);
}

struct sg_cond {
	wait_queue_head_t queue;
};

static inline void sg_cond_init(struct sg_cond *c)
{
	init_waitqueue_head(&c->queue);
}

static inline void sg_cond_destroy(struct sg_cond *c)
{
	/* No thread may wait or begin to wait any more, so no barrier is needed. */
	WARN_ON(waitqueue_active(&c->queue));
}

void sg_cond_wait(struct sg_cond *c, struct sg_mutex *m);
int sg_cond_wait_killable(struct sg_cond *c, struct sg_mutex *m);
void sg_cond_broadcast(struct sg_cond *c);

struct sg_thread {
	struct task_struct *task;
	struct completion returned;
	void (*fn)(void *arg);
	void *arg;
};

int sg_thread_start(struct sg_thread *t, void (*fn)(void *arg), void *arg, const char *name);
void sg_thread_join(struct sg_thread *t);

u64 sg_thread_self(void);
u64 sg_random64(void);
u64 sg_now_ns(void);
void sg_sleep_ms(u32 ms);

#endif
