// SPDX-License-Identifier: MIT
/*
 * bar1.c - see bar1.h.
 */
#include "bar1.h"

/* Returns log2 of the size of the region's BAR1 pages.  -1: the region takes no BAR1. */
static int page_shift(uint64_t state_word)
{
	return (int)((state_word & STATE_BAR1) >> STATE_BAR1_AT) - 1;
}

static uint64_t page_of(uint64_t addr, int shift)
{
	return addr >> shift << shift;
}

/* Returns the end of the page that contains the byte before `end`. */
static uint64_t pages_end(uint64_t end, int shift)
{
	return page_of(end - 1, shift) + (1ULL << shift);
}

static uint64_t bar1_alone(const struct region *region)
{
	int shift = page_shift(ord_load(&region->state_word));
	uint64_t addr = ord_load(&region->pub.addr);

	if (shift < 0)
		return 0;
	return pages_end(addr + ord_load(&region->pub.length), shift) - page_of(addr, shift);
}

void bar1_charge(struct peerdma_cache *cache, const struct region *region)
{
	cache->stats.bar1_use += bar1_alone(region);
}

void bar1_uncharge(struct peerdma_cache *cache, const struct region *region)
{
	cache->stats.bar1_use -= bar1_alone(region);
}

struct following {
	const struct peerdma_cache *cache;
	int shift;
	/* The start of the BAR1 pages of the next region whose pages have this size */
	uint64_t from;
};

static bool next_one(void *arg, uint32_t entry)
{
	struct following *next = arg;
	const struct region *r = &next->cache->regions[entry_number(entry)];

	if (page_shift(ord_load(&r->state_word)) != next->shift)
		return true;
	next->from = page_of(r->pub.addr, next->shift);
	return false;
}

/*
 * Finds the last region below addr whose BAR1 pages have this size.  Returns the end of its pages,
 * or `from` if no such region ends after `from`.
 */
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
	struct following next = { cache, page_shift(state_word), UINT64_MAX };
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
