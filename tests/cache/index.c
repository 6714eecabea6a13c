// SPDX-License-Identifier: MIT
/*
 * index.c - the cache's index against an array that is searched from end to end,
 * and readers without a lock beside a writer.
 *
 * usage: cache_index [OPERATIONS [SEED]]
 */
#include <pthread.h>

#include "base/index.h"
#include "base/order.h"
#include "../check.h"

#define KEYS 4096

static struct index ix;
static void *memory;

static struct index_place kept;

/* From nowhere; and from where it was last, which must be the same. */
static uint32_t floor_of(uint64_t x)
{
	struct index_place place = { 0 };
	uint32_t answer = index_floor(&ix, &place, x);

	MUST(index_floor(&ix, &kept, x) == answer);
	MUST(answer == INDEX_NONE || (kept.key <= x && kept.key == place.key));
	return answer;
}

static void fresh(uint32_t keys)
{
	free(memory);
	memory = aligned_alloc(64, index_size(keys));
	memset(memory, 0, index_size(keys));
	/* What an index of before has left: a place, of the same number of changes. */
	memset(&ix, 0xff, sizeof(ix));
	ix.cursor = (struct index_place){ .changes = 1, .to = UINT64_MAX, .leaf = 1 };
	index_init(&ix, memory, keys);
	kept = (struct index_place){ 0 };
}

/* Every rule of the tree, by looking; returns the number of keys. */
static uint32_t look(uint32_t n, uint64_t from, uint64_t to, bool first)
{
	const struct index_node *node = &ix.nodes[n];
	uint32_t sum = 0;

	MUST(node->count <= INDEX_FAN);
	for (uint32_t i = node->count; i < INDEX_FAN + 2; i++)
		MUST(node->key[i] == UINT64_MAX);
	for (uint32_t i = 0; i < node->count; i++) {
		uint64_t low = node->height && !i ? from : node->key[i];	/* there it is 0 */
		uint64_t high = i + 1 < node->count ? node->key[i + 1] : to;

		MUST(low >= from && low < to);
		/* A separator is the first key below it. */
		if (!node->height && !i && !first)
			MUST(low == from);
		if (!node->height) {
			MUST(!i || node->key[i - 1] < node->key[i]);
			sum++;
			continue;
		}
		MUST(i || !node->key[0]);
		MUST(ix.nodes[node->child[i]].height + 1 == node->height && ix.nodes[node->child[i]].count);
		sum += look(node->child[i], low, high, first && !i);
	}
	return sum;
}

/* ---- the naive one: number i is there with key[i], or not ---- */

static struct {
	bool there;
	uint64_t key;
} naive[KEYS];
static uint32_t there;

static uint32_t naive_floor(uint64_t x)
{
	uint32_t best = INDEX_NONE;

	for (uint32_t i = 0; i < KEYS; i++) {
		if (naive[i].there && naive[i].key <= x && (best == INDEX_NONE || naive[i].key > naive[best].key))
			best = i;
	}
	return best;
}

static bool naive_has(uint64_t key)
{
	uint32_t n = naive_floor(key);

	return n != INDEX_NONE && naive[n].key == key;
}

static struct {
	uint64_t from, to, last;
	uint32_t count;
} seen;

static bool see(void *arg, uint32_t number)
{
	MUST(number < KEYS && naive[number].there);
	MUST(naive[number].key >= seen.from && naive[number].key < seen.to);
	MUST(!seen.count || naive[number].key > seen.last);
	seen.last = naive[number].key;
	seen.count++;
	return true;
}

static void check_range(uint64_t from, uint64_t to)
{
	uint32_t expected = 0;

	for (uint32_t i = 0; i < KEYS; i++)
		expected += naive[i].there && naive[i].key >= from && naive[i].key < to;
	memset(&seen, 0, sizeof(seen));
	seen.from = from;
	seen.to = to;
	index_visit(&ix, from, to, see, NULL);
	MUST(seen.count == expected);
}

static void set(uint32_t i, uint64_t key)
{
	int expected = naive_has(key) ? -EEXIST : 0;

	/* From the place of an earlier search, near or far, or from the writer's last step. */
	MUST((key & 1 ? index_insert_at(&ix, &kept, key, i) : index_insert(&ix, key, i)) == expected);
	if (!expected) {
		naive[i].there = true;
		naive[i].key = key;
		there++;
	}
}

static void clear(uint32_t i)
{
	MUST(index_remove(&ix, naive[i].key) == 0);
	MUST(index_remove(&ix, naive[i].key) == -ENOENT);
	naive[i].there = false;
	there--;
}

static uint64_t some_key(uint64_t *seed, unsigned int style)
{
	static uint64_t next = 1 << 20;

	switch (style) {
	case 0:	return next += 1 + below(seed, 3);		/* ascending */
	case 1: return next -= 1 + below(seed, 3);		/* descending */
	case 2: return below(seed, KEYS * 2);			/* dense: many exist */
	case 3: return rnd(seed) - 2;
	default: return below(seed, 4) * (1ULL << 40) + below(seed, 64) * 4096;
	}
}

static void against_naive(uint32_t operations, uint64_t seed)
{
	uint64_t target = KEYS / 2;
	uint32_t gaps = 0;

	fresh(KEYS);
	for (uint32_t n = 0; n < operations; n++) {
		uint32_t i = (uint32_t)below(&seed, KEYS);
		uint64_t x = some_key(&seed, 2 + (unsigned int)below(&seed, 3));

		/* Now and then the tide turns: nearly empty, nearly full. */
		if (below(&seed, 2000) == 0)
			target = below(&seed, KEYS);
		if (!naive[i].there && there <= target)
			set(i, some_key(&seed, (unsigned int)below(&seed, 5)));
		else if (naive[i].there && (there >= target || below(&seed, 4) == 0))
			clear(i);
		/* A hint may be wrong in any way. */
		if (below(&seed, 4) == 0)
			ix.hints[below(&seed, ix.hints_mask + 1)] = (uint32_t)below(&seed, ix.used);
		MUST(floor_of(x) == naive_floor(x));
		if (below(&seed, 2))
			MUST(index_seek(&ix, x) == naive_floor(x));
		if (below(&seed, 2)) {
			uint64_t to = x + 1 + rnd(&seed) % 4096;
			uint32_t before;
			bool gap = to > x && to < UINT64_MAX && index_gap(&ix, &kept, x, to, &before);

			/* That there is none is never said wrongly. */
			MUST(!gap || (before == naive_floor(x) && naive_floor(to - 1) == before));
			gaps += gap;
		}
		if (naive[i].there) {
			MUST(floor_of(naive[i].key) == i);
			MUST(!naive[i].key || floor_of(naive[i].key - 1) == naive_floor(naive[i].key - 1));
		}
		if (n % 64 == 0) {
			uint64_t to = naive[i].key + rnd(&seed) % 8192;

			check_range(naive[i].key, to);
			check_range(0, UINT64_MAX);
			MUST(look(ix.root, 0, UINT64_MAX, true) == there);
			MUST(ix.used - ix.free_count <= there / 2 + 64);
		}
	}
	/* A range from its end, as an invalidation does; then all that is left. */
	for (uint32_t i = KEYS; i--;) {
		if (naive[i].there)
			clear(i);
	}
	MUST(gaps > operations / 20);
	MUST(floor_of(UINT64_MAX - 1) == INDEX_NONE);
	MUST(ix.used - ix.free_count == 1);
}

/* ---- readers beside a writer ---- */

static bool stop;

/* Numbers are what they must be whatever the writer does; how many answers were wrong is not our concern here. */
static void *reader(void *arg)
{
	uint64_t seed = (uintptr_t)arg, right = 0;
	struct index_place place = { 0 };

	while (!ord_load(&stop)) {
		uint64_t x = below(&seed, 4) ? (place.key / 16 + below(&seed, 8)) % KEYS : below(&seed, KEYS);
		uint32_t n = index_floor(&ix, &place, x * 16);

		MUST(n == INDEX_NONE || n < KEYS);
		right += n == x;
	}
	return (void *)(uintptr_t)right;
}

static void beside_a_writer(uint32_t operations, uint64_t seed)
{
	static bool in[KEYS];
	pthread_t threads[2];
	void *right;

	fresh(KEYS);
	for (uintptr_t i = 0; i < 2; i++)
		MUST(!pthread_create(&threads[i], NULL, reader, (void *)(seed + i)));
	for (uint32_t n = 0; n < operations; n++) {
		uint32_t first = (uint32_t)below(&seed, KEYS), count = 1 + (uint32_t)below(&seed, 100);

		for (uint32_t i = first; i < KEYS && i < first + count; i++) {
			MUST((in[i] ? index_remove(&ix, i * 16) : index_insert(&ix, i * 16, i)) == 0);
			in[i] = !in[i];
		}
	}
	ord_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		MUST(!pthread_join(threads[i], &right));
		printf("a reader: %llu right answers\n", (unsigned long long)(uintptr_t)right);
	}
	/* When the writer is done, every answer is right. */
	for (uint32_t i = 0; i < KEYS; i++)
		MUST((floor_of(i * 16 + 15) == i) == in[i]);
}

/* Not room enough: the insertion that finds none says so, and the tree is whole. */
static void full(void)
{
	uint32_t n;

	fresh(64);
	ix.capacity = 8;
	for (n = 0; !index_insert(&ix, n * 2ULL, n); n++)
		;
	/* Of keys in ascending order each leaf but the last is full: with halves it were 96. */
	MUST(n == 6 * (INDEX_FAN - 1) + INDEX_FAN);
	MUST(look(ix.root, 0, UINT64_MAX, true) == n);
	MUST(index_insert(&ix, n * 2ULL, n) == -ENOMEM);
}

int main(int argc, char **argv)
{
	uint32_t operations = argc > 1 ? (uint32_t)atoi(argv[1]) : 100000;
	uint64_t seed = check_seed(argc, argv, 2);

	against_naive(operations, seed);
	full();
	beside_a_writer(operations / 10, seed);
	free(memory);
	return 0;
}
