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

#include "../../peerdma/lib/cache/inspect.h"
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
