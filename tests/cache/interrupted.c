// SPDX-License-Identifier: MIT
/*
 * interrupted.c - signal handlers that free memory while their thread has a cache's lock, at places that
 * the test chooses: the library's calls of pthread_mutex_lock() and pthread_mutex_unlock() come here, and
 * a "handler" runs before the real one.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "../check.h"
#include "peerdma_cache.h"

#define PAGE	4096UL
#define BASE	(1UL << 40)
#define AT(n)	((void *)(BASE + (n) * PAGE))
#define CACHES	6

static struct peerdma_cache *caches[CACHES];
static int ended[CACHES], adds[CACHES];

/* ---- handlers ---- */

/* Of this thread: the next so many times. */
static _Thread_local void (*before_lock)(void), (*before_unlock)(void);
static _Thread_local int locks, unlocks;

static void interrupt(void (**handler)(void), int *times)
{
	void (*fn)(void) = *handler;

	if (!fn)
		return;
	if (!--*times)
		*handler = NULL;
	fn();
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
	static int (*real)(pthread_mutex_t *m);

	if (!real)
		real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	interrupt(&before_lock, &locks);
	return real(m);
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
	static int (*real)(pthread_mutex_t *m);

	if (!real)
		real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	interrupt(&before_unlock, &unlocks);
	return real(m);
}

static void at_unlock(void (*fn)(void), int times)
{
	unlocks = times;
	before_unlock = fn;
}

static void at_lock(void (*fn)(void), int times)
{
	locks = times;
	before_lock = fn;
}

/* ---- caches ---- */

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	out->handle = (void *)(uintptr_t)++*(int *)arg;
	return 0;
}

static void remove_it(void *arg, uint64_t addr, uint64_t length, void *handle)
{
}

static void on_ended(void *arg, const struct peerdma_cached *region)
{
	++*(int *)arg;
}

static void begin(int n)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = remove_it };
	struct peerdma_cache_options options = { .size = sizeof(options), .ended = on_ended };

	for (int i = 0; i < n; i++) {
		adds[i] = ended[i] = 0;
		options.arg = &ended[i];
		MUST(!peerdma_cache_create(&ops, &adds[i], &options, &caches[i]));
	}
}

static void finish(void)
{
	for (int i = 0; i < CACHES; i++) {
		peerdma_cache_close(caches[i]);
		caches[i] = NULL;
	}
}

static struct peerdma_cached *get(int cache, unsigned long page)
{
	struct peerdma_cached *hold;

	MUST(!peerdma_cache_get(caches[cache], AT(page), PAGE, &hold));
	return hold;
}

static void touch(int cache, unsigned long page)
{
	peerdma_cache_put(caches[cache], get(cache, page));
}

/* ---- tests ---- */

/* So many that what counts them would begin anew. */
#define MANY	65536
#define PLACES	16

static void one_page(void)
{
	for (int i = 0; i < MANY; i++)
		MUST(!peerdma_cache_invalidate(caches[0], AT(0), PAGE));
}

/* More than there are places for, and no other page that has one again. */
static void many_pages(void)
{
	for (int i = 0; i < MANY; i++)
		MUST(!peerdma_cache_invalidate(caches[0], AT(i < PLACES ? i : PLACES + i % PLACES), PAGE));
}

static void more_than_a_gate_counts(void (*handler)(void))
{
	begin(1);
	for (int i = 0; i < 3; i++)
		touch(0, 0);
	at_unlock(handler, 1);
	touch(0, 1000);
	adds[0] = 0;
	touch(0, 0);
	MUST(adds[0] == 1);
	touch(0, 0);
	MUST(adds[0] == 1);
	finish();
}

static void one_page_again_and_again(void)
{
	more_than_a_gate_counts(one_page);
}

static void many_pages_again_and_again(void)
{
	more_than_a_gate_counts(many_pages);
}

static void all_invalidate(void)
{
	for (int i = 0; i < CACHES && caches[i]; i++)
		MUST(peerdma_cache_invalidate(caches[i], AT(1), PAGE) >= 0);
}

/* As monitors do: what the thread is in is one of several that are notified. */
static void every_cache_notifies(void)
{
	struct peerdma_cached *hold[CACHES];

	begin(CACHES);
	for (int i = 0; i < CACHES; i++)
		hold[i] = get(i, 1);
	at_unlock(all_invalidate, 1);
	touch(0, 2);
	for (int i = 0; i < CACHES; i++) {
		MUST(ended[i] == 1);
		peerdma_cache_put(caches[i], hold[i]);
	}
	finish();
}

static void *use_and_end(void *unused)
{
	touch(0, 2);
	at_unlock(all_invalidate, 1);
	return unused;
}

static void a_thread_ends(void)
{
	struct peerdma_cached *hold;

	begin(2);
	hold = get(0, 1);
	check_in_thread(use_and_end, NULL);
	MUST(ended[0] == 1);
	peerdma_cache_put(caches[0], hold);
	finish();
}

static void *look(void *unused)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };

	touch(0, 4);
	MUST(!peerdma_cache_counters(caches[0], &c));
	return unused;
}

static void invalidate_three(void)
{
	MUST(!peerdma_cache_invalidate(caches[0], AT(3), PAGE));
}

/* Another thread ends what was left, and meanwhile a handler leaves something else. */
static void another_thread_helps(void)
{
	check_in_thread(look, NULL);
	at_unlock(invalidate_three, 1);
}

static void invalidate_one(void)
{
	MUST(!peerdma_cache_invalidate(caches[0], AT(1), PAGE));
	at_lock(another_thread_helps, 1);
}

static void left_while_there_is_nothing_to_do(void)
{
	struct peerdma_cached *one, *three;

	begin(1);
	one = get(0, 1);
	three = get(0, 3);
	at_unlock(invalidate_one, 1);
	touch(0, 2);
	MUST(ended[0] == 2);
	peerdma_cache_put(caches[0], one);
	peerdma_cache_put(caches[0], three);
	finish();
}

/* Each time that the lock is given back a region of which another thread may be in a hit is freed. */
static void *hit(void *unused)
{
	touch(0, 1);
	return unused;
}

static void held_again(void)
{
	MUST(!peerdma_cache_invalidate(caches[0], AT(1), PAGE));
}

static void a_storm(void)
{
	begin(1);
	for (int i = 0; i < 3; i++)
		touch(0, 1);
	check_in_thread(hit, NULL);
	at_unlock(held_again, 100000);
	touch(0, 2);
	MUST(!before_unlock);
	touch(0, 1);
	MUST(adds[0] >= 3);
	finish();
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(one_page_again_and_again), TEST(many_pages_again_and_again), TEST(every_cache_notifies), TEST(a_thread_ends),
		TEST(left_while_there_is_nothing_to_do), TEST(a_storm),
	};

	return check_run(tests, CHECK_COUNT(tests), argc - 1, argv + 1);
}
