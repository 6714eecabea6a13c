// SPDX-License-Identifier: MIT
/*
 * hostile.c - the rules of lib/cache/thread_cache.h from outside: every call with an allocator
 * that fails at its nth call, and with pthread_cancel() pending wherever a function of
 * the caller's runs or a thread waits.
 *
 * malloc() and mmap() are this program's, over the C library's.
 */
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../lib/failing_malloc.h"
#include "toy.h"

/* ---- the allocator ---- */

void *mmap(void *want, size_t n, int prot, int flags, int fd, off_t offset)
{
	return fails() ? MAP_FAILED : (void *)syscall(SYS_mmap, want, n, prot, flags, fd, offset);
}

static bool get_and_put(const void *p, size_t length)
{
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, p, length, &hold);

	MUST(!ret || ret == -ENOMEM, "%d, %s", ret, peerdma_last_error());
	if (!ret)
		peerdma_cache_put(cache, hold);
	return !ret;
}

/* A new thread has no thread cache yet, nor room for a text. */
static void *all_calls(void *n)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cached *hold = NULL;
	struct peerdma_cache_entry e = { .size = sizeof(e) };

	fail_in = (uint32_t)(uintptr_t)n;
	get_and_put(AT(0), PAGE);
	get_and_put(AT(0), PAGE);
	if (peerdma_cache_get(cache, AT(4), PAGE, &hold))
		hold = NULL;
	get_and_put(AT(3), 3 * PAGE);
	for (int i = 0; i < 400; i++)
		get_and_put(AT(100 + 2 * i), PAGE);
	MUST(peerdma_cache_invalidate(cache, AT(0), 5 * PAGE) >= 0);
	if (hold)
		peerdma_cache_put(cache, hold);
	get_and_put(AT(0), PAGE);
	MUST(peerdma_cache_trim(cache, 5) >= 0 && peerdma_cache_drain(cache) >= 0);
	MUST(!peerdma_cache_counters(cache, &c) && peerdma_cache_list(cache, 0, &e, 1) == 1);
	fail_in = 0;
	MUST(!c.dead && !c.deferred && c.regions == (uint64_t)(toy.adds - toy.removes));
	return NULL;
}

static void allocations(void)
{
	for (uintptr_t n = 1; n == 1 || failed; n++) {
		failed = false;
		fresh();
		fail_in = (uint32_t)n;
		if (!peerdma_cache_create(&ops, &toy, &options, &cache)) {
			fail_in = 0;
			check_in_thread(all_calls, (void *)n);
			/* And nothing is left of it. */
			check_in_thread(all_calls, NULL);
			finish();
		}
		fail_in = 0;
		MUST(n < 100);
	}
}

/* ---- cancellation ---- */

static void cancel_point(void)
{
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

static int cancelled_check(void *arg, const struct peerdma_cached *region, uint64_t addr, uint64_t length)
{
	cancel_point();
	return toy_check(arg, region, addr, length);
}

static int cancelled_extent(void *arg, uint64_t addr, uint64_t length, struct peerdma_extent *e)
{
	cancel_point();
	return toy_extent(arg, addr, length, e);
}

static void *dies_after_use(void *unused)
{
	get_and_put(AT(0), PAGE);
	get_and_put(AT(0), PAGE);
	MUST(peerdma_cache_invalidate(cache, AT(0), PAGE) == 1 && peerdma_cache_drain(cache) == 1);
	get_and_put(AT(2), PAGE);
	get_and_put(AT(2), 2 * PAGE);
	MUST(peerdma_cache_trim(cache, 10) == 1);
	pthread_testcancel();
	return NULL;
}

static void functions(void)
{
	ops.check = cancelled_check;
	ops.extent = cancelled_extent;
	begin();
	toy.in_add = toy.in_remove = cancel_point;
	MUST(check_in_thread(dies_after_use, NULL) == PTHREAD_CANCELED);
	MUST(toy.adds == 3 && toy.removes == 3 && !counters().regions && !counters().dead);
}

static sem_t registering, go_on;

static void slow(void)
{
	MUST(!sem_post(&registering));
	while (sem_wait(&go_on))
		;
}

static void *registers(void *unused)
{
	get_and_put(AT(0), PAGE);
	return NULL;
}

static void *waits(void *unused)
{
	get_and_put(AT(0), PAGE);
	pthread_testcancel();
	return unused;
}

/* Cancelled while it waits for another thread's add(). */
static void waiting(void)
{
	pthread_t maker, waiter;
	void *ret;

	begin();
	MUST(!sem_init(&registering, 0, 0) && !sem_init(&go_on, 0, 0));
	toy.in_add = slow;
	MUST(!pthread_create(&maker, NULL, registers, NULL));
	while (sem_wait(&registering))
		;
	MUST(!pthread_create(&waiter, NULL, waits, NULL));
	usleep(20000);
	MUST(!pthread_cancel(waiter));
	usleep(20000);
	MUST(!pthread_cancel(maker));
	MUST(!sem_post(&go_on));
	MUST(!pthread_join(maker, &ret) && !pthread_join(waiter, &ret) && ret == PTHREAD_CANCELED);
	toy.in_add = NULL;
	touch(AT(0), PAGE);
	MUST(toy.adds == 1 && !counters().dead);
	MUST(peerdma_cache_trim(cache, 1) == 1);
}

static bool came_back;

static void cancelled_ended(void *unused, const struct peerdma_cached *region)
{
	cancel_point();
}

static void *frees_held(void *unused)
{
	MUST(peerdma_cache_invalidate(cache, AT(0), PAGE) == 1);
	came_back = true;
	pthread_testcancel();
	return unused;
}

/* Cancelled where the holder of freed memory is told. */
static void told(void)
{
	struct peerdma_cached *hold;
	pthread_t thread;
	void *ret;

	options.ended = cancelled_ended;
	begin();
	hold = get(AT(0), PAGE);
	MUST(!pthread_create(&thread, NULL, frees_held, NULL));
	MUST(!pthread_join(thread, &ret) && ret == PTHREAD_CANCELED && came_back);
	peerdma_cache_put(cache, hold);
	MUST(toy.removes == 1 && !counters().dead);
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(allocations), TEST(functions), TEST(waiting), TEST(told),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(60);
	check_before = fresh;
	check_after = finish;
	return check_run(tests, CHECK_COUNT(tests), 0, NULL);
}
