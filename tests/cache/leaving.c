// SPDX-License-Identifier: MIT
/*
 * leaving.c - what ends while calls are made: a thread whose own memory is reported as it is
 * given back, and a cache whose registrations hold each other.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "toy.h"

void __libc_free(void *p);

/* ---- the allocator: aligned memory has pages of its own, which no thread can read after the free ---- */

#define BLOCKS	64
#define BLOCK	65536UL

static char *blocks;
static int blocks_used;
static struct peerdma_cache *told[2];	/* of every unmapping */

void *aligned_alloc(size_t align, size_t size)
{
	int n = __atomic_fetch_add(&blocks_used, 1, __ATOMIC_RELAXED);

	MUST(n < BLOCKS && size <= BLOCK && align <= BLOCK);
	return memset(blocks + n * BLOCK, 0, BLOCK);
}

void free(void *p)
{
	if (blocks && (uintptr_t)p - (uintptr_t)blocks < BLOCKS * BLOCK)
		MUST(!mprotect(p, BLOCK, PROT_NONE));
	else
		__libc_free(p);
}

int munmap(void *p, size_t length)
{
	for (int i = 0; i < 2; i++) {
		if (told[i])
			MUST(peerdma_cache_invalidate(told[i], p, length) >= 0);
	}
	return (int)syscall(SYS_munmap, p, length);
}

/* ---- a thread ends ---- */

static pthread_key_t later;

/* Another library's, which runs after the cache's: it frees memory. */
static void later_ends(void *unused)
{
	for (int i = 0; i < 2; i++)
		MUST(peerdma_cache_invalidate(told[i], AT(0), PAGE) == 1);
}

static void *use_both(void *unused)
{
	for (int i = 0; i < 2; i++) {
		cache = told[i];
		touch(AT(0), PAGE);
	}
	MUST(!pthread_setspecific(later, &later));
	return NULL;
}

static void thread_ends(void)
{
	fresh();
	for (int i = 0; i < 2; i++) {
		begin();
		told[i] = cache;
		touch(AT(1000), PAGE);
	}
	MUST(!pthread_key_create(&later, later_ends));
	check_in_thread(use_both, NULL);
	for (int i = 0; i < 2; i++) {
		peerdma_cache_close(told[i]);
		told[i] = NULL;
	}
	MUST(toy.adds == toy.removes);
}

/* ---- a cache is closed ---- */

static struct peerdma_cached *needed;

/* Each registration but the first holds that one. */
static void hold_first(void)
{
	toy.in_add = NULL;
	needed = get(AT(0), PAGE);
}

static void put_first(void)
{
	struct peerdma_cached *hold = needed;

	needed = NULL;
	if (hold)
		peerdma_cache_put(cache, hold);
}

static void hold_other(uint64_t first, uint64_t second)
{
	fresh();
	begin();
	toy.in_remove = put_first;
	touch(AT(first), PAGE);
	toy.in_add = hold_first;
	touch(AT(second), PAGE);
	MUST(needed && toy.adds == 2);
}

/* In a thread that ends afterwards: it has nothing left of the cache. */
static void *close_nested(void *freed)
{
	hold_other(0, 10);
	if (freed)
		MUST(peerdma_cache_invalidate(cache, AT(0), PAGE) == 1);
	peerdma_cache_close(cache);
	MUST(!needed && toy.adds == 2 && toy.removes == 2);
	return NULL;
}

/* What is registered still is freed by the first remove(), and that is reported. */
static void free_all(void)
{
	toy.in_remove = NULL;
	MUST(peerdma_cache_invalidate(cache, AT(0), 100 * PAGE) >= 0);
}

static void close_frees(void)
{
	fresh();
	begin();
	for (int i = 0; i < 10; i++)
		touch(AT(2 * i), PAGE);
	toy.in_remove = free_all;
	peerdma_cache_close(cache);
	MUST(toy.adds == 10 && toy.removes == 10);
}

int main(void)
{
	blocks = mmap(NULL, BLOCKS * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(blocks != MAP_FAILED);
	thread_ends();
	check_in_thread(close_nested, NULL);
	check_in_thread(close_nested, &later);
	close_frees();
	return 0;
}
