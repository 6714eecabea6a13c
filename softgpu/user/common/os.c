// SPDX-License-Identifier: MIT
/* os.c - the functions of sg_os_user.h that are not inline. */
#include "sg_os_user.h"
#include "thread.h"

#include <sys/random.h>
#include <time.h>

static u64 fail_at;	/* atomic; 0: never */

void sg_fail_alloc(u64 nth)
{
	__atomic_store_n(&fail_at, nth, __ATOMIC_RELAXED);
}

static u64 killed;	/* atomic; 0: none */

void sg_kill(u64 thread)
{
	__atomic_store_n(&killed, thread, __ATOMIC_SEQ_CST);
}

bool sg_is_killed(void)
{
	return __atomic_load_n(&killed, __ATOMIC_SEQ_CST) == sg_thread_self();
}

static bool must_fail(void)
{
	return __atomic_load_n(&fail_at, __ATOMIC_RELAXED) &&
	       __atomic_sub_fetch(&fail_at, 1, __ATOMIC_RELAXED) == 0;
}

void *sg_zalloc(size_t size)
{
	return must_fail() ? NULL : calloc(1, size);
}

void sg_free(void *p)
{
	free(p);
}

static void *thread_main(void *arg)
{
	struct sg_thread *t = arg;

	t->fn(t->arg);
	return NULL;
}

int sg_thread_start(struct sg_thread *t, void (*fn)(void *), void *arg, const char *name)
{
	(void)name;
	t->fn = fn;
	t->arg = arg;
	/* The core uses EAGAIN only for "not finished yet", so this returns ENOMEM. */
	return sgu_thread_create(&t->t, false, thread_main, t) ? -ENOMEM : 0;
}

void sg_thread_join(struct sg_thread *t)
{
	pthread_join(t->t, NULL);
}

u64 sg_thread_self(void)
{
	static _Thread_local char here;

	return (u64)(uintptr_t)&here;
}

u64 sg_random64(void)
{
	SGU_UNCANCELLED;
	u64 r;

	/* getrandom() returns eight bytes completely, and only blocks during early boot. */
	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		abort();
	return r;
}

u64 sg_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000u + (u64)ts.tv_nsec;
}

void sg_sleep_ms(u32 ms)
{
	SGU_UNCANCELLED;
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}
