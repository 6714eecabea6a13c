// SPDX-License-Identifier: MIT
/*
 * seen.c - a process with caches, for others to look at: what `peerdma cache` tells
 * is what peerdma_cache_counters() has told here.
 *
 * It goes from one state to the next when a line comes on its standard input, and
 * says what that state is on its standard output: a line with the counters.  The
 * end of the input ends it.
 *
 * usage: cache_inspect STATE...
 *   used	four regions, of which one is used most
 *   ended	each kind of end: merged, evicted, invalidated, stale; and one held
 *   threads	a second thread with hits, that lives; a third that has ended
 *   child	a forked child without a cache, whose number it says
 *   closed	its cache closed
 *   another	its page has another version
 *   impossible	more hits than fit
 *   many	1024 caches more
 *   busy	a thread that uses and ends regions, and one that makes and closes caches, until it ends
 */
#include <pthread.h>

#include "../../peerdma/lib/cache/thread_cache.h"
#include "../check.h"
#include "nothing.h"

#define BASE	(1ULL << 40)
#define PAGE	4096ULL

static struct peerdma_cache *cache;
static uint32_t word;
static bool stop;

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	out->word = addr == BASE + 100 * PAGE ? &word : NULL;
	out->expected = word;
	return 0;
}

static struct peerdma_cached *get_in(struct peerdma_cache *c, uint64_t page, uint64_t pages)
{
	struct peerdma_cached *hold;

	MUST(!peerdma_cache_get(c, (void *)(uintptr_t)(BASE + page * PAGE), pages * PAGE, &hold));
	return hold;
}

static void use(uint64_t page, uint64_t pages)
{
	peerdma_cache_put(cache, get_in(cache, page, pages));
}

static struct peerdma_cache *make(void)
{
	static const struct peerdma_cache_ops ops = {
		.size = sizeof(ops), .monitors = PEERDMA_MONITOR_WORD, .add = add, .remove = remove_nothing,
	};
	struct peerdma_cache *c;

	MUST(!peerdma_cache_create(&ops, NULL, NULL, &c));
	return c;
}

static void tell(long extra)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };

	if (cache)
		MUST(!peerdma_cache_counters(cache, &c));
	printf("{\"gets\": %llu, \"hits\": %llu, \"hits_front\": %llu, \"misses\": %llu, \"failures\": %llu, \"merges\": %llu, "
	       "\"evictions\": %llu, \"retries\": %llu, \"invalidations\": %llu, \"stale\": %llu, \"regions\": %llu, "
	       "\"dead\": %llu, \"bytes\": %llu, \"host\": %llu, \"device\": %llu, "
	       "\"aperture\": %llu, \"threads\": %llu, \"fences\": %llu}\n%ld\n",
	       (unsigned long long)c.gets, (unsigned long long)c.hits, (unsigned long long)c.hits_front,
	       (unsigned long long)c.misses, (unsigned long long)c.failures, (unsigned long long)c.merges,
	       (unsigned long long)c.evictions, (unsigned long long)c.retries, (unsigned long long)c.invalidations,
	       (unsigned long long)c.stale, (unsigned long long)c.regions, (unsigned long long)c.dead,
	       (unsigned long long)c.bytes, (unsigned long long)c.host, (unsigned long long)c.device,
	       (unsigned long long)c.aperture, (unsigned long long)c.threads,
	       (unsigned long long)c.fences, extra);
	fflush(stdout);
}

/* ---- the states ---- */

static void used(void)
{
	for (int i = 0; i < 1000; i++)
		use(i % 10 < 7 ? 30 : 10 * (uint64_t)(i % 3), 2);
	for (int i = 0; i < 40000; i++)		/* more than a record counts up to */
		use(30, 1);
}

static void ended(void)
{
	use(200, 1);
	use(201, 1);
	use(200, 2);
	use(100, 1);
	__atomic_add_fetch(&word, 1, __ATOMIC_RELEASE);
	use(100, 1);
	use(300, 1);
	MUST(peerdma_cache_invalidate(cache, (void *)(uintptr_t)(BASE + 300 * PAGE), 1) == 1);
	get_in(cache, 400, 1);
	MUST(peerdma_cache_invalidate(cache, (void *)(uintptr_t)(BASE + 400 * PAGE), 1) == 1);
	MUST(peerdma_cache_trim(cache, 1) == 1);
	use(100, 1);
}

static pthread_barrier_t begun;

static void *lives(void *arg)
{
	for (int i = 0; i < 100; i++)
		use(30, 1);
	if (!arg)
		return NULL;
	pthread_barrier_wait(&begun);
	for (;;)
		pause();
}

static void threads(void)
{
	pthread_t t;

	MUST(!pthread_create(&t, NULL, lives, NULL));
	MUST(!pthread_join(t, NULL));
	pthread_barrier_init(&begun, NULL, 2);
	MUST(!pthread_create(&t, NULL, lives, &begun));
	pthread_barrier_wait(&begun);
}

/* Ends with its parent: that holds the other end of its standard input. */
static long child(void)
{
	int pipes[2];
	pid_t pid;
	char c;

	MUST(!pipe(pipes));
	pid = fork();
	MUST(pid >= 0);
	if (pid)
		return pid;
	close(pipes[1]);
	while (read(pipes[0], &c, 1) > 0)
		;
	_exit(0);
}

/* Where the library's page is. */
static struct inspect_page *find_page(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long at = 0;
	char line[512];

	MUST(maps);
	while (!at && fgets(line, sizeof(line), maps))
		at = strstr(line, "/memfd:" INSPECT_NAME) ? strtoul(line, NULL, 16) : 0;
	fclose(maps);
	MUST(at);
	return (struct inspect_page *)at;
}

static void many(void)
{
	for (int i = 0; i < 1024; i++)
		make();
}

static void *uses_and_ends(void *arg)
{
	for (uint64_t i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		use(1000 + i % 50, 1 + i % 3);
		use(30, 1);
		if (!(i % 64))
			MUST(peerdma_cache_invalidate(cache, (void *)(uintptr_t)(BASE + 1000 * PAGE), 10 * PAGE) >= 0);
	}
	return NULL;
}

static void *comes_and_goes(void *arg)
{
	struct peerdma_cache *c = make();

	peerdma_cache_put(c, get_in(c, 1, 1));
	use(30, 1);
	peerdma_cache_close(c);
	return arg;
}

static void *makes_and_closes(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		pthread_t t;

		MUST(!pthread_create(&t, NULL, comes_and_goes, NULL));
		MUST(!pthread_join(t, NULL));
		usleep(1000);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t busy[2];
	int n = 0, c = '\n';

	cache = make();
	for (int i = 1; i <= argc && c == '\n'; i++) {
		const char *state = i < argc ? argv[i] : "";
		long extra = getpid();

		if (!strcmp(state, "used"))
			used();
		else if (!strcmp(state, "ended"))
			ended();
		else if (!strcmp(state, "threads"))
			threads();
		else if (!strcmp(state, "child"))
			extra = child();
		else if (!strcmp(state, "closed"))
			peerdma_cache_close(cache), cache = NULL;
		else if (!strcmp(state, "another"))
			find_page()->version++;
		else if (!strcmp(state, "impossible"))
			cache->stats.gone_hits = UINT64_MAX - 1;
		else if (!strcmp(state, "many"))
			many();
		else if (!strcmp(state, "busy"))
			for (n = 0; n < 2; n++)
				MUST(!pthread_create(&busy[n], NULL, n ? makes_and_closes : uses_and_ends, NULL));
		if (i < argc) {
			tell(extra);
			while ((c = getchar()) != '\n' && c != EOF)
				;
		}
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	while (n)
		MUST(!pthread_join(busy[--n], NULL));
	/* Open caches stay so: what is told at the exit is told of them, too. */
	return 0;
}
