// SPDX-License-Identifier: MIT
/*
 * signals.c - a signal handler frees memory wherever its thread is: a timer's, a thousand
 * times a second and more, while the thread hits, misses and puts, and another thread does, too.
 *
 * usage: cache_signals calls|host [MS]
 *
 * calls: the handler calls peerdma_cache_invalidate().  host: it maps other memory over
 * the page, which the monitor of host memory sees.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "../check.h"
#include "peerdma_cache.h"

#define PAGES	512U
#define PAGE	4096UL
#define MOST	64U		/* regions, so that misses evict, too */

static struct peerdma_cache *cache;
static char *memory;
static bool host;
/* What is at a page now, as far as add() sees; and at least, as far as a free has returned. */
static _Atomic uint64_t there[PAGES], freed[PAGES];
static _Atomic uint64_t frees, ends, uses[2];
static atomic_bool stop;

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	out->handle = (void *)(uintptr_t)there[(addr - (uintptr_t)memory) / PAGE];
	return 0;
}

static void remove_it(void *arg, uint64_t addr, uint64_t length, void *handle)
{
}

static void on_ended(void *arg, const struct peerdma_cached *region)
{
	ends++;
}

/* Half of the time in pages that are mostly hit. */
static unsigned int some_page(uint64_t *state)
{
	return (unsigned int)below(state, below(state, 2) ? 8 : PAGES);
}

static void free_one(unsigned int n)
{
	char *p = memory + n * PAGE;

	if (!host)
		peerdma_cache_invalidate(cache, p, PAGE);
	there[n]++;
	if (!host)
		peerdma_cache_invalidate(cache, p, PAGE);
	else
		MUST(mmap(p, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	freed[n] = there[n];
	frees++;
}

/* Sometimes more than a cache has room for. */
static void on_signal(int number)
{
	static uint64_t state = 7;
	int before = errno;

	for (uint64_t n = below(&state, 16) ? 1 : 40; n--;)
		free_one(some_page(&state));
	errno = before;
}

static void *use(void *arg)
{
	uint64_t state = 3 + (uintptr_t)arg, counted = 0;
	struct peerdma_cached *hold, *kept = NULL;

	while (!stop) {
		unsigned int n = some_page(&state);
		uint64_t least = freed[n];

		MUST(!peerdma_cache_get(cache, memory + n * PAGE, 64, &hold));
		MUST((uintptr_t)hold->registration >= least);
		/* Some are held for a while. */
		if (below(&state, 8)) {
			peerdma_cache_put(cache, hold);
		} else {
			if (kept)
				peerdma_cache_put(cache, kept);
			kept = hold;
		}
		uses[(uintptr_t)arg] = ++counted;
	}
	if (kept)
		peerdma_cache_put(cache, kept);
	return NULL;
}

/* It does not hang: every half of a second both have gone on, or do so within 20 seconds on a busy machine. */
static void *watch(void *arg)
{
	long ms = *(long *)arg;

	for (long t = 0; t < ms; t += 500) {
		uint64_t before[2] = { uses[0], uses[1] };

		for (int i = 0; i < 40 && (uses[0] == before[0] || uses[1] == before[1]); i++)
			usleep(500000);
		if (uses[0] == before[0] || uses[1] == before[1]) {
			fprintf(stderr, "after %ld ms a thread waits for itself: %llu and %llu gets, %llu frees\n", t,
				(unsigned long long)uses[0], (unsigned long long)uses[1], (unsigned long long)frees);
			_exit(1);
		}
		usleep(500000);
	}
	stop = true;
	return NULL;
}

int main(int argc, char **argv)
{
	const struct itimerspec often = { .it_interval = { 0, 100000 }, .it_value = { 0, 100000 } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	struct peerdma_cache_options options = { .size = sizeof(options), .max_regions = MOST, .ended = on_ended };
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = remove_it };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t other, watcher;
	sigset_t set;
	timer_t timer;
	long ms = argc > 2 ? atol(argv[2]) : 1000;
	int ret;

	MUST(argc > 1);
	host = !strcmp(argv[1], "host");
	memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(memory != MAP_FAILED);
	ops.monitors = host ? PEERDMA_MONITOR_HOST : 0;
	ret = peerdma_cache_create(&ops, NULL, &options, &cache);
	if (host && ret == -EOPNOTSUPP) {
		printf("skipped: %s\n", peerdma_last_error());
		return 77;
	}
	MUST(!ret);
	/* The other two threads take no signals. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	MUST(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	MUST(!pthread_create(&other, NULL, use, (void *)1) && !pthread_create(&watcher, NULL, watch, &ms));
	MUST(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
	event._sigev_un._tid = gettid();
	MUST(!sigaction(SIGUSR1, &action, NULL) && !timer_create(CLOCK_MONOTONIC, &event, &timer));
	MUST(!timer_settime(timer, 0, &often, NULL));
	use((void *)0);
	timer_delete(timer);
	MUST(!pthread_join(other, NULL) && !pthread_join(watcher, NULL));
	peerdma_cache_drain(cache);
	MUST(!peerdma_cache_counters(cache, &c));
	printf("%llu and %llu gets, %llu misses, %llu frees, %llu regions invalidated, %llu of them held, %llu fences\n",
	       (unsigned long long)uses[0], (unsigned long long)uses[1], (unsigned long long)c.misses, (unsigned long long)frees,
	       (unsigned long long)c.invalidations, (unsigned long long)ends, (unsigned long long)c.fences);
	MUST(frees && c.invalidations && ends && !c.dead && !c.deferred && !c.bad_puts);
	peerdma_cache_close(cache);
	return 0;
}
