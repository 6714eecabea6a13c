// SPDX-License-Identifier: MIT
/*
 * pages.c - the cache's memory on kernels with greater pages, as arm64 has them: what it
 * takes it gives back, by calls that such a kernel does not refuse.
 *
 * mmap() and the like are this file's, over the system's: they know pages of 16 KiB only.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../check.h"
#include "nothing.h"

#define BIG	((uintptr_t)16384)
#define BASE	(1ULL << 40)
#define REGIONS	600			/* a thread's table grows twice */

static uintptr_t mapped;		/* bytes; a thread at a time */
static int refused;

static uintptr_t whole(uintptr_t n)
{
	return (n + BIG - 1) / BIG * BIG;
}

static int refuse(void)
{
	refused++;
	errno = EINVAL;
	return -1;
}

int getpagesize(void)
{
	return (int)BIG;
}

/* The place is found first: a file mapped at another one than the kernel's would begin elsewhere in the file. */
void *mmap(void *want, size_t n, int prot, int flags, int fd, off_t offset)
{
	uintptr_t p, at;

	MUST(!want);
	n = whole(n);
	p = (uintptr_t)syscall(SYS_mmap, NULL, n + BIG, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(p != (uintptr_t)MAP_FAILED);
	at = whole(p);
	MUST(at == p || !syscall(SYS_munmap, p, at - p));
	MUST(!syscall(SYS_munmap, at + n, p + BIG - at));
	MUST((uintptr_t)syscall(SYS_mmap, at, n, prot, flags | MAP_FIXED, fd, offset) == at);
	mapped += n;
	return (void *)at;
}

int munmap(void *p, size_t n)
{
	if ((uintptr_t)p % BIG || !n)
		return refuse();
	mapped -= whole(n);
	return (int)syscall(SYS_munmap, p, whole(n));
}

int madvise(void *p, size_t n, int advice)
{
	return (uintptr_t)p % BIG ? refuse() : (int)syscall(SYS_madvise, p, whole(n), advice);
}

static void *use(void *cache)
{
	for (int round = 0; round < 3; round++)		/* made, found in the index, found in the thread's table */
		for (uintptr_t i = 0; i < REGIONS; i++) {
			struct peerdma_cached *hold;

			MUST(!peerdma_cache_get(cache, (void *)(uintptr_t)(BASE + 2 * i * BIG), BIG, &hold));
			peerdma_cache_put(cache, hold);
		}
	return NULL;
}

/* In a thread of its own: what it has goes with it. */
static void *round_of(void *capacity)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add_nothing, .remove = remove_nothing };
	struct peerdma_cache_options options = { .size = sizeof(options), .capacity = *(uint32_t *)capacity };
	struct peerdma_cache *cache;
	pthread_t other;

	MUST(!peerdma_cache_create(&ops, NULL, &options, &cache));
	use(cache);
	MUST(!pthread_create(&other, NULL, use, cache) && !pthread_join(other, NULL));
	peerdma_cache_close(cache);
	return NULL;
}

int main(void)
{
	uintptr_t before = 0;

	for (uint32_t capacity = REGIONS; capacity < REGIONS + 3000; capacity += 100) {
		pthread_t thread;

		MUST(!pthread_create(&thread, NULL, round_of, &capacity) && !pthread_join(thread, NULL));
		MUST(!refused);
		/* What is made once for all caches comes with the first. */
		MUST(capacity == REGIONS || mapped == before);
		before = mapped;
	}
	return 0;
}
