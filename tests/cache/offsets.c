// SPDX-License-Identifier: MIT
/*
 * offsets.c - gets anywhere in regions of all sizes.
 *
 *	known	in great regions: a thread's own table knows all of each, wherever a get falls
 *	mixed	the same of regions of 4 KiB to 1 GiB beside each other
 *	right	in regions of all sizes beside each other, from the first page to the last
 *		that a cache takes, which come and go: what a get returns is what is there
 *
 * usage: cache_offsets [ROUNDS [SEED]]
 */
#include "../check.h"
#include "nothing.h"

#define KIB		(1ULL << 10)
#define MIB		(1ULL << 20)
#define GIB		(1ULL << 30)
#define TIB		(1ULL << 40)
#define PAGE		4096ULL
#define BASE		(1ULL << 44)
#define GETS		200000

/* ---- known ---- */

struct layout {
	uint32_t n;
	uint64_t length, apart, span;
};

static uint64_t somewhere(const struct layout *l, uint64_t *seed, bool ends)
{
	uint64_t region = BASE + below(seed, l->n) * (l->length + l->apart);

	return region + (ends ? below(seed, 2) * (l->length - 64) : below(seed, l->span / 64) * 64);
}

static void gets(struct peerdma_cache *cache, const struct layout *l, uint64_t *seed, uint64_t n, bool ends)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t addr = somewhere(l, seed, ends);
		struct peerdma_cached *hold;

		MUST(!peerdma_cache_get(cache, (void *)(uintptr_t)addr, 64, &hold));
		MUST(hold->addr <= addr && addr + 64 <= hold->addr + hold->length);
		peerdma_cache_put(cache, hold);
	}
}

/* Of all gets that follow nearly all find what they want in the table. */
static void knows(struct peerdma_cache *cache, const struct layout *l, uint64_t *seed, bool ends)
{
	struct peerdma_cache_counters before = { .size = sizeof(before) }, after = { .size = sizeof(after) };
	uint64_t known;

	gets(cache, l, seed, 64 * l->n + GETS, ends);
	MUST(!peerdma_cache_counters(cache, &before));
	gets(cache, l, seed, GETS, ends);
	MUST(!peerdma_cache_counters(cache, &after));
	known = after.hits_front - before.hits_front;
	printf("%u regions of %llu KiB, %s: %llu of %d in the table\n", l->n, (unsigned long long)(l->length / KIB),
	       ends ? "at their ends" : "anywhere", (unsigned long long)known, GETS);
	MUST(after.misses == l->n && after.regions == l->n);
	MUST(known * 100 >= 97ULL * GETS);
}

static void known(uint64_t seed)
{
	static const struct layout layouts[] = {
		{ 1, 16 * GIB, 0, 16 * GIB },
		{ 1, TIB - PAGE, 0, TIB - PAGE },		/* the greatest that a record tells whole */
		{ 16, GIB, 0, GIB },
		{ 16, GIB, 17 * PAGE, GIB },
		{ 1024, 16 * MIB, 0, 16 * MIB },
		{ 1024, 16 * MIB, 17 * PAGE, 16 * MIB },
		{ 1024, 23 * MIB + 3 * PAGE, 0, 23 * MIB + 3 * PAGE },
		{ 4096, 3 * PAGE, 5 * PAGE, 3 * PAGE },
		{ 8192, MIB, 0, 64 * KIB },
		{ 8192, MIB, 0, MIB },
	};
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add_nothing, .remove = remove_nothing };

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		const struct layout *l = &layouts[i];
		struct peerdma_cache *cache;

		MUST(!peerdma_cache_create(&ops, NULL, NULL, &cache));
		for (uint32_t n = 0; n < l->n; n++) {
			struct peerdma_cached *hold;

			MUST(!peerdma_cache_get(cache, (void *)(uintptr_t)(BASE + n * (l->length + l->apart)), l->length, &hold));
			peerdma_cache_put(cache, hold);
		}
		knows(cache, l, &seed, false);
		knows(cache, l, &seed, true);
		peerdma_cache_close(cache);
	}
}

/* ---- mixed ---- */

#define MIXED		1024

/* Each size as often as any other, small ones beside great ones. */
static uint64_t mixed_length(uint64_t n)
{
	return PAGE << n * 7 % 19;
}

/* That many gets, nearly all of which find what they want in the table, soon. */
static void mixed(uint64_t seed)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add_nothing, .remove = remove_nothing };
	struct peerdma_cache_counters before = { .size = sizeof(before) }, after = { .size = sizeof(after) };
	static uint64_t from[MIXED];
	struct peerdma_cached *hold;
	struct peerdma_cache *cache;
	uint64_t at = BASE, known;

	MUST(!peerdma_cache_create(&ops, NULL, NULL, &cache));
	for (uint32_t n = 0; n < MIXED; n++) {
		from[n] = at;
		MUST(!peerdma_cache_get(cache, (void *)(uintptr_t)at, mixed_length(n), &hold));
		peerdma_cache_put(cache, hold);
		at += mixed_length(n) + 17 * PAGE;
	}
	for (int i = 0; i < 8 * GETS; i++) {
		uint64_t n = below(&seed, MIXED), addr = from[n] + below(&seed, mixed_length(n) / 64) * 64;

		if (i == 7 * GETS)
			MUST(!peerdma_cache_counters(cache, &before));
		MUST(!peerdma_cache_get(cache, (void *)(uintptr_t)addr, 64, &hold));
		MUST(hold->addr == from[n]);
		peerdma_cache_put(cache, hold);
	}
	MUST(!peerdma_cache_counters(cache, &after));
	known = after.hits_front - before.hits_front;
	printf("%d regions of 4 KiB to 1 GiB: %llu of %d in the table\n", MIXED, (unsigned long long)known, GETS);
	MUST(after.misses == MIXED);
	MUST(known * 100 >= 97ULL * GETS);
	peerdma_cache_close(cache);
}

/* ---- right ---- */

#define PLACES		600

/* A place for a region, up to the next; `there`: the number of what is registered there now. */
static struct place {
	uint64_t addr, room, length;
	uint64_t there;
} places[PLACES];

static uint64_t registered, made;

static struct place *place_of(uint64_t addr)
{
	int i = 0;

	while (addr - places[i].addr >= places[i].room)
		MUST(++i < PLACES);
	return &places[i];
}

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	struct place *p = place_of(addr);

	MUST(!p->there && p->addr == addr && p->length == length);
	p->there = ++made;
	registered++;
	out->handle = (void *)(uintptr_t)p->there;
	return 0;
}

static void drop(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	struct place *p = place_of(addr);

	MUST(p->there && p->there == (uintptr_t)handle);
	p->there = 0;
	registered--;
}

/* Pages by powers of two, and near them. */
static uint64_t some_length(uint64_t *seed, uint64_t room)
{
	uint64_t length = (PAGE << below(seed, 30)) + below(seed, 3) * PAGE;

	return length < room ? length : room;
}

static void places_make(uint64_t *seed)
{
	uint64_t at = PAGE, top = UINT64_MAX - PAGE + 1;

	for (int i = 0; i < PLACES; i++) {
		struct place *p = &places[i];

		p->room = PAGE << below(seed, below(seed, 3) ? 12 : 31);
		if (i == PLACES / 4)		/* around the end of what a record tells */
			at = (1ULL << 48) - TIB;
		if (i == PLACES / 3)		/* more than one can tell */
			p->room = 3 * TIB - 5 * PAGE;
		if (i == PLACES / 2)		/* areas that share with the first */
			at = 3ULL << 52;
		if (i >= PLACES * 3 / 4) {	/* downwards from the end of all addresses */
			top -= p->room;
			p->addr = top;
		} else {
			p->addr = at;
			at += p->room + below(seed, 2) * below(seed, 40) * PAGE;
		}
		p->length = some_length(seed, p->room);
	}
}

/* A part of its region, or all. */
static void use(struct peerdma_cache *cache, struct place *p, uint64_t *seed)
{
	uint64_t from = 0, length = p->length;
	struct peerdma_cached *hold;

	if (p->there && below(seed, 8)) {
		from = below(seed, 4) ? below(seed, p->length) : below(seed, 2) * (p->length - 1);
		length -= from;
		length = 1 + below(seed, below(seed, 2) || length < 100 ? length : 100);
	}
	MUST(!peerdma_cache_get(cache, (void *)(uintptr_t)(p->addr + from), length, &hold));
	MUST(hold->addr == p->addr && hold->length == p->length);
	MUST(p->there && hold->registration == (void *)(uintptr_t)p->there);
	peerdma_cache_put(cache, hold);
}

static void right(uint64_t rounds, uint64_t seed)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = drop };
	struct peerdma_cache_options options = { .size = sizeof(options), .capacity = 4096 };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cache *cache;

	places_make(&seed);
	MUST(!peerdma_cache_create(&ops, NULL, &options, &cache));
	for (uint64_t n = 0; n < rounds; n++) {
		/* A few most of the time; which ones, changes. */
		struct place *p = &places[(below(&seed, 4) ? below(&seed, 9) + n / 5000 * 7 : below(&seed, PLACES)) % PLACES];

		use(cache, p, &seed);
		if (!below(&seed, 16)) {
			MUST(peerdma_cache_invalidate(cache, (void *)(uintptr_t)(p->addr + below(&seed, p->length)), 1) == 1);
			/* What it left to a later call. */
			MUST(peerdma_cache_drain(cache) >= 0);
			MUST(!p->there);
			p->length = some_length(&seed, p->room);
		}
	}
	MUST(!peerdma_cache_counters(cache, &c));
	MUST(c.regions == registered && c.misses == made);
	printf("%llu gets: %llu hits, %llu in the table\n", (unsigned long long)c.gets, (unsigned long long)c.hits,
	       (unsigned long long)c.hits_front);
	peerdma_cache_close(cache);
	MUST(!registered);
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000, seed = check_seed(argc, argv, 2);

	known(seed);
	mixed(seed);
	right(rounds, seed);
	return 0;
}
