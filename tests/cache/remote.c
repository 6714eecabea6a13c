// SPDX-License-Identifier: MIT
/*
 * remote.c - `peerdma cache`'s reader on this process's own memory, while at one read
 * after the other something happens: a thread ends, a cache is made or closed, a
 * region is used until its counts move.  What is told was true before that or after
 * it, and is nothing in between.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>

#include "../../peerdma/lib/cache/thread_cache.h"
#include "../check.h"
#include "nothing.h"
#include "remote_cache.h"

#define BASE	(1ULL << 40)
#define PAGE	4096ULL
#define MOST	16
#define HITS	100
/* A thread's refs count up to 16384; then they go to the region. */
#define USED	30000
#define MORE	5000

enum event { NOTHING, THREAD_ENDS, CACHE_MADE, CACHE_CLOSED, REGION_USED, EVENTS };

static struct peerdma_cache *cache, *other;
static pthread_t thread;
static pthread_barrier_t thread_ready, thread_may_go;
static unsigned int reads, when;
static enum event what;
static int mem;

static struct peerdma_cache *make(void)
{
	static const struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add_nothing, .remove = remove_nothing };
	struct peerdma_cache_options o = { .size = sizeof(o), .capacity = 64 };
	struct peerdma_cache *c;

	MUST(!peerdma_cache_create(&ops, NULL, &o, &c));
	return c;
}

static void use(struct peerdma_cache *c, uint64_t page, int times)
{
	while (times--) {
		struct peerdma_cached *hold;

		MUST(!peerdma_cache_get(c, (void *)(uintptr_t)(BASE + page * PAGE), PAGE, &hold));
		peerdma_cache_put(c, hold);
	}
}

static void *lives(void *arg)
{
	use(cache, 1, HITS);
	use(cache, 2, HITS);
	pthread_barrier_wait(&thread_ready);
	pthread_barrier_wait(&thread_may_go);
	return arg;
}

/* ---- what happens, and the state that it begins with ---- */

static void prepare(void)
{
	cache = make();
	use(cache, 1, USED);
	if (what == CACHE_CLOSED)
		other = make();
	if (what != THREAD_ENDS)
		return;
	MUST(!pthread_create(&thread, NULL, lives, NULL));
	pthread_barrier_wait(&thread_ready);
}

static void happen(void)
{
	switch (what) {
	case THREAD_ENDS:
		pthread_barrier_wait(&thread_may_go);
		MUST(!pthread_join(thread, NULL));
		break;
	case CACHE_MADE:
		other = make();
		break;
	case CACHE_CLOSED:
		peerdma_cache_close(other);
		other = NULL;
		break;
	case REGION_USED:
		use(cache, 1, MORE);
		break;
	default:
		break;
	}
}

static int read_own(void *arg, uint64_t addr, void *to, size_t length)
{
	if (reads++ == when)
		happen();
	return pread(mem, to, length, (off_t)addr) == (ssize_t)length ? 0 : -EFAULT;
}

/* ---- what is told ---- */

struct told {
	size_t caches;
	uint64_t gets, hits, misses, threads, region_gets;
};

static struct told counted(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cache_entry entries[MOST] = { { .size = sizeof(entries[0]) } };
	struct told t = { 0 };
	int n;

	MUST(!peerdma_cache_counters(cache, &c));
	n = peerdma_cache_list(cache, 0, entries, MOST);
	t = (struct told){ 1 + (other != NULL), c.gets, c.hits, c.misses, c.threads, 0 };
	while (n-- > 0)
		t.region_gets += entries[n].gets;
	return t;
}

static struct told read_told(uint64_t page)
{
	struct remote_memory memory = { read_own, NULL, REMOTE_BUDGET };
	struct remote_caches caches = { 0 };
	struct told t = { 0 };

	MUST(!remote_caches_read(&memory, page, MOST, &caches));
	t.caches = caches.count;
	for (size_t i = 0; i < caches.count; i++) {
		const struct remote_cache *c = &caches.caches[i];

		/* The other one is never used. */
		t.gets += c->counters.gets;
		t.hits += c->counters.hits;
		t.misses += c->counters.misses;
		t.threads += c->counters.threads;
		for (size_t k = 0; k < c->region_count; k++)
			t.region_gets += c->regions[k].gets;
	}
	remote_caches_free(&caches);
	return t;
}

static bool same(const struct told *a, const struct told *b)
{
	return a->caches == b->caches && a->gets == b->gets && a->hits == b->hits && a->misses == b->misses &&
	       a->threads == b->threads;
}

static uint64_t page_find(void)
{
	static char text[1 << 20];
	uint64_t page;
	FILE *f = fopen("/proc/self/maps", "re");
	size_t n;

	MUST(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	MUST(remote_pages_find(text, &page, 1) == 1);
	return page;
}

/* How many reads that took. */
static unsigned int once(uint64_t page)
{
	struct told before, told, after;

	prepare();
	before = counted();
	reads = 0;
	told = read_told(page);
	if (reads <= when)
		happen();
	after = counted();
	MUST(same(&told, &before) || same(&told, &after), "event %d at read %u: told of %zu caches, %llu gets, %llu hits, %llu threads",
	     what, when, told.caches, (unsigned long long)told.gets, (unsigned long long)told.hits,
	     (unsigned long long)told.threads);
	/* Each region at a time of its own. */
	MUST(told.region_gets >= before.region_gets && told.region_gets <= after.region_gets);
	peerdma_cache_close(cache);
	peerdma_cache_close(other);
	other = NULL;
	return reads;
}

/* A page as a library with another layout has it: the field of this number lies elsewhere; or another version. */
static int read_another(void *arg, uint64_t addr, void *to, size_t length)
{
	struct inspect_page *page = to;
	int field = *(int *)arg;

	MUST(!read_own(NULL, addr, to, length) && length == sizeof(*page));
	if (field < INSPECT_FIELDS)
		page->layout[field] += 8;
	else
		page->version++;
	return 0;
}

static void another_version(uint64_t page)
{
	for (int field = 0; field <= INSPECT_FIELDS; field++) {
		struct remote_memory memory = { read_another, &field, REMOTE_BUDGET };
		struct remote_caches caches = { 0 };

		when = UINT32_MAX;
		MUST(remote_caches_read(&memory, page, MOST, &caches) == -EPROTO && !caches.count);
	}
}

static int read_result(uint64_t page)
{
	struct remote_memory memory = { read_own, NULL, REMOTE_BUDGET_GLANCE };
	struct remote_caches caches = { 0 };
	int ret = remote_caches_read(&memory, page, 0, &caches);

	MUST(!ret || !caches.count);
	remote_caches_free(&caches);
	return ret;
}

/* Counters that no cache has. */
static void impossible(uint64_t page)
{
	static const size_t huge[] = {
		offsetof(struct cache_stats, count), offsetof(struct cache_stats, dead), offsetof(struct cache_stats, bytes),
		offsetof(struct cache_stats, host), offsetof(struct cache_stats, device), offsetof(struct cache_stats, bar1_use),
		offsetof(struct cache_stats, late_hits), offsetof(struct cache_stats, misses), offsetof(struct cache_stats, failures),
		offsetof(struct cache_stats, merges), offsetof(struct cache_stats, evictions), offsetof(struct cache_stats, retries),
		offsetof(struct cache_stats, invalidations), offsetof(struct cache_stats, stale), offsetof(struct cache_stats, fences),
		offsetof(struct cache_stats, gone_hits), offsetof(struct cache_stats, gone_slot_hits),
	};
	struct cache_stats right;

	cache = make();
	use(cache, 1, USED);
	when = UINT32_MAX;
	right = cache->stats;
	for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		*(uint64_t *)((char *)&cache->stats + huge[i]) = UINT64_MAX - 1;
		MUST(read_result(page) == -EBADMSG);
		cache->stats = right;
	}
	/* Together they do not overflow either. */
	cache->stats.late_hits = cache->stats.gone_hits = REMOTE_COUNT_MAX;
	MUST(read_result(page) == -EBADMSG);
	cache->stats = right;
	cache->stats.failures = right.misses + 2;
	MUST(read_result(page) == -EBADMSG);
	cache->stats = right;
	cache->stats.count = right.used + 1;
	MUST(read_result(page) == -EBADMSG);
	cache->stats = right;
	cache->threads->hits += REMOTE_COUNT_MAX;
	MUST(read_result(page) == -EBADMSG);
	cache->threads->hits -= REMOTE_COUNT_MAX;
	MUST(!read_result(page));
	peerdma_cache_close(cache);
}

/* As many as are read, and one more; and a list that has no end. */
static void many_caches(uint64_t page)
{
	static struct peerdma_cache *all[REMOTE_CACHES_MAX + 1];
	struct peerdma_cache *next;

	when = UINT32_MAX;
	for (size_t i = 0; i < REMOTE_CACHES_MAX; i++)
		all[i] = make();
	MUST(!read_result(page));
	all[REMOTE_CACHES_MAX] = make();
	MUST(read_result(page) == -E2BIG);
	/* The newest is the first. */
	next = all[9]->next;
	MUST(next == all[8]);
	all[9]->next = all[REMOTE_CACHES_MAX / 2];
	MUST(read_result(page) == -EBADMSG);
	all[9]->next = next;
	for (size_t i = 0; i <= REMOTE_CACHES_MAX; i++)
		peerdma_cache_close(all[i]);
}

int main(void)
{
	unsigned int total = 0, most;
	uint64_t page;

	/* What is freed is something else at once. */
	mallopt(M_PERTURB, 0x5a);
	mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	if (mem < 0) {
		printf("skipped: /proc/self/mem: %s\n", strerror(errno));
		return 77;
	}
	pthread_barrier_init(&thread_ready, NULL, 2);
	pthread_barrier_init(&thread_may_go, NULL, 2);
	peerdma_cache_close(make());
	page = page_find();
	another_version(page);
	impossible(page);
	many_caches(page);
	for (what = 0; what < EVENTS; what++) {
		when = UINT32_MAX;
		most = once(page);
		for (when = 0; when <= most; when++)
			total += once(page);
	}
	printf("%u reads\n", total);
	close(mem);
	return 0;
}
