// SPDX-License-Identifier: MIT
/* calls_many.c - big regions, many of them, and the end of memory. */
#include <pthread.h>
#include <sys/resource.h>

#include "toy.h"

void big(void)
{
	begin();
	/* 64 GiB: more pages than an entry tells of. */
	touch(AT(0), 64ULL << 30);
	for (uint64_t i = 0; i < 1000; i++)
		touch((char *)AT(0) + (64ULL << 30) / 1000 * i, 100000);
	touch((char *)AT(0) + (64ULL << 30) - 5, 5);
	touch(AT(0), 64ULL << 30);
	MUST(toy.adds == 1);
}

/* Tables grow, and what is in them is right. */
void many_regions(void)
{
	options.capacity = 1 << 17;
	begin();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 100000; i++)
			touch(AT(2 * i), PAGE);
	}
	MUST(toy.adds == 100000 && counters().hits == 200000);
	MUST(invalidate(AT(0), 100000 * PAGE) == 50000);
	for (int i = 50000; i < 100000; i++)
		touch(AT(2 * i), PAGE);
	MUST(toy.adds == 100000);
}

/* No growth: the same regions made and ended, over and over. */
void no_growth(void)
{
	long before = 0, after;
	struct rusage u;

	begin();
	for (int i = 0; i < 200000; i++) {
		touch(AT(2 * (i % 300)), PAGE);
		if (i % 3 == 0)
			invalidate(AT(2 * (i % 300)), PAGE);
		if (i == 100000) {
			getrusage(RUSAGE_SELF, &u);
			before = u.ru_maxrss;
		}
	}
	getrusage(RUSAGE_SELF, &u);
	after = u.ru_maxrss;
	MUST(after - before < 1024);	/* KiB */
}

static void valid_again(void)
{
	toy.valid = 1;
}

/* Without a table of its own: the get finds what is stale, and the next one that it makes is a miss. */
static void *finds_stale(void *arg)
{
	struct rlimit *old = arg, small = *old;

	small.rlim_cur = 1 << 20;
	MUST(!setrlimit(RLIMIT_AS, &small));
	touch(AT(0), PAGE);
	MUST(counters().misses == 1 && counters().hits == 1);
	toy.valid = 0;
	toy.in_add = valid_again;
	touch(AT(0), PAGE);
	MUST(!setrlimit(RLIMIT_AS, old));
	MUST(counters().misses == 2 && counters().hits == 1 && counters().stale == 1 && toy.adds == 2);
	return NULL;
}

void no_address_space(void)
{
	struct rlimit old, small;
	pthread_t thread;
	int ret;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return;		/* their own memory is over any limit */
#endif
	if (getrlimit(RLIMIT_AS, &old))
		return;
	options.capacity = 1 << 24;
	small = old;
	small.rlim_cur = 256 << 20;
	if (setrlimit(RLIMIT_AS, &small))
		return;
	ret = peerdma_cache_create(&ops, &toy, &options, &cache);
	setrlimit(RLIMIT_AS, &old);
	MUST(ret == -ENOMEM && strstr(peerdma_last_error(), "capacity"));

	fresh();
	ops.check = toy_check;
	begin();
	touch(AT(0), PAGE);
	MUST(!pthread_create(&thread, NULL, finds_stale, &old) && !pthread_join(thread, NULL));
}
