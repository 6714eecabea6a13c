// SPDX-License-Identifier: MIT OR GPL-2.0
/* os.c - implements what the core needs from its environment, with kernel functions. */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>
#include "charge.h"
#include "delay.h"
#include "sg_os_kernel.h"

void *sg_zalloc(size_t size)
{
	return softgpu_charged_now(size);
}

void sg_free(void *p)
{
	kvfree(p);
}

/*
 * TASK_IDLE: an engine may wait for work for days, and a program for its copies for
 * minutes, without being reported as hung or counted as load.
 */
static void wait(struct sg_cond *c, struct sg_mutex *m, int state)
{
	DEFINE_WAIT(entry);

	prepare_to_wait(&c->queue, &entry, state);
	mutex_unlock(&m->m);
	schedule();
	finish_wait(&c->queue, &entry);
	mutex_lock(&m->m);
}

void sg_cond_wait(struct sg_cond *c, struct sg_mutex *m)
{
	wait(c, m, TASK_IDLE);
}

int sg_cond_wait_killable(struct sg_cond *c, struct sg_mutex *m)
{
	wait(c, m, TASK_KILLABLE | TASK_NOLOAD);
	return fatal_signal_pending(current) ? -EINTR : 0;
}

void sg_cond_broadcast(struct sg_cond *c)
{
	wake_up_all(&c->queue);
}

static int thread_main(void *data)
{
	struct sg_thread *t = data;

	t->fn(t->arg);
	complete(&t->returned);
	return 0;
}

int sg_thread_start(struct sg_thread *t, void (*fn)(void *arg), void *arg, const char *name)
{
	struct task_struct *task;

	t->fn = fn;
	t->arg = arg;
	init_completion(&t->returned);
	task = kthread_create(thread_main, t, "%s", name);
	if (IS_ERR(task))
		return PTR_ERR(task);
	get_task_struct(task);
	t->task = task;
	wake_up_process(task);
	return 0;
}

void sg_thread_join(struct sg_thread *t)
{
	wait_for_completion(&t->returned);
	/* Waits until the thread has left this module's code, too. */
	kthread_stop(t->task);
	put_task_struct(t->task);
	t->task = NULL;
}

u64 sg_thread_self(void)
{
	return (uintptr_t)current;
}

u64 sg_random64(void)
{
	return get_random_u64();
}

u64 sg_now_ns(void)
{
	return ktime_get_ns();
}

void sg_sleep_ms(u32 ms)
{
	softgpu_delay_ms(ms);
}
