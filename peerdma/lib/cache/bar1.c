// SPDX-License-Identifier: MIT
/*
 * bar1.c - regions into the index and out of it, and the pages of a GPU's aperture that they take.
 */
#include "state.h"

/* log2 of the page size; -1: it takes none. */
static int page_shift(uint64_t state_word)
{
	return (int)((state_word & STATE_BAR1) >> STATE_BAR1_AT) - 1;
}

static uint64_t page_of(uint64_t addr, int shift)
{
	return addr >> shift << shift;
}

/* Behind the last byte. */
static uint64_t pages_end(uint64_t end, int shift)
{
	return page_of(end - 1, shift) + (1ULL << shift);
}

uint64_t bar1_alone(const struct region *region)
{
	int shift = page_shift(ord_load(&region->state_word));
	uint64_t addr = ord_load(&region->pub.addr);

	if (shift < 0)
		return 0;
	return pages_end(addr + ord_load(&region->pub.length), shift) - page_of(addr, shift);
}

struct beside {
	const struct peerdma_cache *cache;
	int shift;
	uint64_t from;		/* of the pages of the next one that has such pages */
};

static bool next_one(void *arg, uint32_t entry)
{
	struct beside *b = arg;
	const struct region *r = &b->cache->regions[entry_number(entry)];

	if (page_shift(ord_load(&r->state_word)) != b->shift)
		return true;
	b->from = page_of(r->pub.addr, b->shift);
	return false;
}

/* The end of the pages of the one before, if that is after from. */
static uint64_t before(struct peerdma_cache *cache, uint64_t addr, uint64_t from, int shift)
{
	struct index_place *place = &cache->index.cursor;

	while (addr) {
		uint32_t entry = index_floor(&cache->index, place, addr - 1);
		const struct region *r = &cache->regions[entry_number(entry)];

		if (entry == INDEX_NONE || r->pub.addr + r->pub.length <= from)
			break;
		if (page_shift(ord_load(&r->state_word)) == shift)
			return pages_end(r->pub.addr + r->pub.length, shift);
		addr = place->key;
	}
	return from;
}

uint64_t bar1_added(struct peerdma_cache *cache, uint64_t from, uint64_t to, uint64_t state_word)
{
	struct beside next = { cache, page_shift(state_word), UINT64_MAX };
	uint64_t first, end;

	if (next.shift < 0)
		return 0;
	end = pages_end(to, next.shift);
	first = before(cache, from, page_of(from, next.shift), next.shift);
	index_visit(&cache->index, from + 1, end, next_one, &next);
	if (end > next.from)
		end = next.from;
	return end > first ? end - first : 0;
}

void region_insert(struct peerdma_cache *cache, struct index_place *place, uint32_t number)
{
	const struct region *r = &cache->regions[number];
	uint64_t addr = ord_load(&r->pub.addr), length = ord_load(&r->pub.length);

	if (index_insert_at(&cache->index, place, addr, entry_of(number, length)))
		__builtin_trap();	/* index_size() has room for every number */
	cache->bar1_use += bar1_added(cache, addr, addr + length, ord_load(&r->state_word));
}

void region_remove(struct peerdma_cache *cache, struct region *r)
{
	cache->bar1_use -= bar1_added(cache, r->pub.addr, r->pub.addr + r->pub.length, ord_load(&r->state_word));
	index_remove(&cache->index, r->pub.addr);
}
