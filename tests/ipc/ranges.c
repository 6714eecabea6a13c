// SPDX-License-Identifier: MIT
/*
 * ranges.c - peerdma/lib/ipc/ranges.c alone: against a search of all ranges; a reader after each single store of a writer;
 * how many nodes a search looks at; readers beside a writer.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../peerdma/lib/base/order.h"

static void (*after_store)(void);
static uint64_t looks;
static bool counts;		/* before there are threads */

#undef ord_store_release
#define ord_store_release(p, v) do {					\
		__atomic_store_n(p, v, __ATOMIC_RELEASE);		\
		if (after_store)					\
			after_store();					\
	} while (0)
static void (*at_look)(void);
#define RANGES_LOOKED() ((void)(counts && looks++), at_look ? at_look() : (void)0)

#include "../../peerdma/lib/ipc/ranges.c"

#include "util.h"

#define SOME		200		/* ranges, as many as are compared with a search of all */
#define MANY		65536U
#define SPACE		4096		/* addresses */
#define ROUNDS		20000

static struct ranges ranges;
static struct {
	bool there;
	uint64_t first, last;
} all[SOME];

static void begin(uint32_t count)
{
	free(ranges.nodes);
	ranges_init(&ranges, aligned_alloc(64, ranges_size(count)), count);
	memset(ranges.nodes, 0, ranges_size(count));
	memset(all, 0, sizeof(all));
}

static uint64_t seed = 1;

/* The next in order that overlaps, of all. */
static uint32_t next_of_all(uint64_t first, uint64_t last, const struct ranges_place *place)
{
	uint32_t best = RANGES_NONE;

	for (uint32_t i = 0; i < SOME; i++) {
		if (!all[i].there || all[i].first > last || all[i].last < first || all[i].first < place->first ||
		    (all[i].first == place->first && i < place->after))
			continue;
		if (best == RANGES_NONE || all[i].first < all[best].first)
			best = i;
	}
	return best;
}

static bool same(uint64_t first, uint64_t last)
{
	struct ranges_place place = { 0 }, was;
	uint32_t found;

	do {
		was = place;
		found = ranges_next(&ranges, first, last, &place);
		if (found != next_of_all(first, last, &was))
			return false;
	} while (found != RANGES_NONE);
	return true;
}

static void change(uint32_t i)
{
	if (all[i].there) {
		all[i].there = false;
		ranges_remove(&ranges, i);
		return;
	}
	all[i].first = below(&seed, 8) ? below(&seed, SPACE) : 0;
	/* Most are short, some cover much, one in a while reaches the end of addresses. */
	all[i].last = below(&seed, 50) ? all[i].first + below(&seed, below(&seed, 4) ? 32 : SPACE) : UINT64_MAX;
	ranges_insert(&ranges, i, all[i].first, all[i].last);
	all[i].there = true;
}

static void order(void)
{
	unsigned int wrong = 0;

	begin(SOME);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t first = below(&seed, SPACE);

		change((uint32_t)below(&seed, SOME));
		wrong += !same(first, below(&seed, 2) ? first : first + below(&seed, SPACE));
		wrong += !(i % 64) && !same(0, UINT64_MAX);
	}
	CHECK(!wrong, "of %d changes, %u are followed by a search that finds others than a search of all", ROUNDS, wrong);
}

/* Even numbers stay where they are: each is found, whatever is being done with an odd one. */
static unsigned int missed, searches;

static void find_all_that_stay(void)
{
	uint64_t at = below(&seed, SPACE);
	struct ranges_place place = { 0 };
	unsigned int due = 0, found = 0;
	uint32_t n;

	for (uint32_t i = 0; i < SOME; i += 2)
		due += all[i].there && all[i].first <= at && all[i].last >= at;
	while ((n = ranges_next(&ranges, at, at, &place)) != RANGES_NONE)
		found += !(n & 1);
	searches++;
	missed += found != due;
}

static void stores(void)
{
	begin(SOME);
	for (uint32_t i = 0; i < SOME; i += 2)
		change(i);
	after_store = find_all_that_stay;
	for (int i = 0; i < ROUNDS / 4; i++)
		change((uint32_t)below(&seed, SOME / 2) * 2 + 1);
	after_store = NULL;
	CHECK(!missed && searches > ROUNDS, "%u searches, each after a store of a writer: %u missed a range that was there", searches, missed);
}

/* The writer has its turn at some looks of a reader: it moves many of the others, also the one that the reader is at. */
static unsigned int until;

static void move_some(void)
{
	if (until--)
		return;
	at_look = NULL;
	for (int i = 0; i < 40; i++)
		change((uint32_t)below(&seed, SOME / 2) * 2 + 1);
}

static void looks_between(void)
{
	begin(SOME);
	for (uint32_t i = 0; i < SOME; i++)
		change(i);
	missed = searches = 0;
	for (int i = 0; i < ROUNDS / 8; i++) {
		until = (unsigned int)below(&seed, 20);
		at_look = move_some;
		find_all_that_stay();
	}
	at_look = NULL;
	CHECK(!missed, "%u searches, in the middle of which others are moved: %u missed a range that was there", searches, missed);
}

/* Ranges of a page each, two pages apart, in a random order: looks of a search, and of an insertion, on average. */
static void fill(uint32_t count, double *search, double *insertion)
{
	uint32_t *at = malloc(count * sizeof(*at));

	begin(MANY);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t j = (uint32_t)below(&seed, i + 1);

		at[i] = at[j];
		at[j] = i;
	}
	counts = true;
	looks = 0;
	for (uint32_t i = 0; i < count; i++)
		ranges_insert(&ranges, i, 8192ULL * at[i], 8192ULL * at[i] + 4095);
	*insertion = (double)looks / count;
	looks = 0;
	for (uint32_t i = 0; i < 10000; i++) {
		struct ranges_place place = { 0 };
		uint64_t page = below(&seed, 2 * count);
		uint32_t n = ranges_next(&ranges, 4096 * page, 4096 * page + 4095, &place);

		if ((n == RANGES_NONE) != (page & 1))
			exit(2);
	}
	*search = (double)looks / 10000;
	counts = false;
	free(at);
}

static void growth(void)
{
	double search[2], insertion[2];

	fill(16, &search[0], &insertion[0]);
	fill(MANY, &search[1], &insertion[1]);
	/* 4,096 times as many: six more levels, of which a search looks at two or three nodes each. */
	CHECK(search[1] < search[0] + 24, "a search of 16 looks at %.1f nodes, one of %u at %.1f", search[0], MANY, search[1]);
	CHECK(insertion[1] < insertion[0] + 28, "an insertion: at %.1f and %.1f", insertion[0], insertion[1]);
}

static bool over;

static void *search(void *unused)
{
	unsigned int wrong = 0, n = 0;
	uint64_t mine = 7;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		/* Each even number has the address 16 times it, alone. */
		uint32_t i = (uint32_t)below(&mine, SOME / 2) * 2, found;
		struct ranges_place place = { 0 };
		bool there = false;

		while ((found = ranges_next(&ranges, 16 * i, 16 * i, &place)) != RANGES_NONE)
			there |= found == i;
		wrong += !there;
		n++;
	}
	return (void *)(uintptr_t)(n ? wrong : 1);
}

static void threads(void)
{
	unsigned int wrong = 0;
	pthread_t t[2];
	void *ret;

	begin(SOME);
	for (uint32_t i = 0; i < SOME; i += 2)
		ranges_insert(&ranges, i, 16 * i, 16 * i);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, search, NULL);
	for (int i = 0; i < 10 * ROUNDS; i++) {
		uint32_t n = (uint32_t)below(&seed, SOME / 2) * 2 + 1;

		if (all[n].there)
			ranges_remove(&ranges, n);
		else
			ranges_insert(&ranges, n, below(&seed, SPACE), SPACE + below(&seed, SPACE));
		all[n].there = !all[n].there;
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &ret);
		wrong += (unsigned int)(uintptr_t)ret;
	}
	CHECK(!wrong, "two readers beside a writer: %u searches missed what was there", wrong);
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "order", order }, { "stores", stores }, { "looks", looks_between }, { "growth", growth }, { "threads", threads },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
