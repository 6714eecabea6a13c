// SPDX-License-Identifier: MIT
/*
 * front.c - a thread's own side of a cache: its table of regions by address, and
 * its records.  thread.c says whose it is.
 */
#include <stdlib.h>

#include "cache.h"
#include "front.h"

#define SLOTS_FIRST	256
#define GROWTH		2
#define PAGE		(1ULL << RANGE_SHIFT)

static uint32_t slots_count(const struct front *f)
{
	return (uint32_t)f->slot_mask + 1;
}

static size_t slots_size(const struct front *f)
{
	return sizeof(*f->slots) * slots_count(f);
}

void front_leave(struct peerdma_cache *cache, struct front *f)
{
	for (uint32_t i = 0; i < cache->used; i++) {
		if (ord_load(&f->records[i].word))
			front_spill(f, i);
		ord_store(&f->records[i].gen, 0);
		ord_store(&f->records[i].word, 0);
	}
	cache->front_changes++;
	cache->gone_front_hits += f->hits;
	cache->gone_hits += f->index_hits;
	if (f->next)
		f->next->prev = f->prev;
	if (f->prev)
		f->prev->next = f->next;
	else
		cache->fronts = f->next;
}

void records_free(struct record *records, uint32_t capacity)
{
	memory_put(records, (size_t)capacity * sizeof(*records));
}

void front_free(struct front *f)
{
	memory_put(f->slots, slots_size(f));
	free(f);
}

struct front *front_make(struct peerdma_cache *cache)
{
	/* Not next to another thread's: processors fetch lines in pairs. */
	struct front *f = aligned_alloc(128, (sizeof(*f) + 127) / 128 * 128);
	size_t records;

	if (!f)
		return NULL;
	*f = (struct front){
		.serial = cache->serial, .regions = cache->regions,
		.get_serial = cache->fence || cache->monitored ? 0 : cache->serial,
		.put_serial = cache->fence ? 0 : cache->serial,
		.fence = cache->fence, .monitored = cache->monitored,
		.capacity = cache->capacity, .cache = cache, .process = cache->process,
		.slot_mask = SLOTS_FIRST - 1,
	};
	/* The first slots are behind the records, in one piece: whoever frees either gives back its own pages. */
	records = memory_rounded((size_t)f->capacity * sizeof(struct record));
	f->records = memory_get(records + slots_size(f), true);
	if (!f->records) {
		free(f);
		return NULL;
	}
	f->slots = (uint32_t *)((char *)f->records + records);
	return f;
}

void front_join(struct front *f)
{
	struct peerdma_cache *cache = f->cache;

	cache->front_changes++;
	f->next = cache->fronts;
	f->prev = NULL;
	if (f->next)
		f->next->prev = f;
	cache->fronts = f;
}

/* ---- the table ---- */

/* What was in it is found again when it is looked for. */
static void front_grow(struct front *f)
{
	uint32_t *old = f->slots;
	size_t old_size = slots_size(f);
	uint32_t *slots = memory_get(old_size * GROWTH, true);

	f->crowded = 0;
	if (!slots)
		return;
	/* Before anything is given back: that may call us. */
	f->slots = slots;
	f->slot_mask = (uint64_t)slots_count(f) * GROWTH - 1;
	memory_put(old, old_size);
}

void front_remember(struct front *f, const struct region *region, uint64_t addr)
{
	/* Pages that are the region's from end to end: the record tells no parts of them. */
	uint64_t first = (region->pub.addr + PAGE - 1) >> RANGE_SHIFT;
	uint64_t end = (region->pub.addr + region->pub.length) >> RANGE_SHIFT;
	uint64_t page = addr >> RANGE_SHIFT;
	struct record *record = record_of(f, region);

	if (page < first || page >= end || end > RANGE_PAGE_MAX)
		return;
	if (++f->crowded > slots_count(f) / 2 && slots_count(f) < SLOTS_LAST)
		front_grow(f);
	/* Of a very big region, what is around the address. */
	if (end - first > RANGE_COUNT_MAX && page - first > RANGE_COUNT_MAX / 2)
		first = page - RANGE_COUNT_MAX / 2;
	if (end - first > RANGE_COUNT_MAX)
		end = first + RANGE_COUNT_MAX;
	ord_store(&record->range, range_of(first, end - first));
	*front_slot(f, addr) = (uint32_t)((char *)record - (char *)f->records);
}

void front_spill(struct front *f, uint32_t number)
{
	struct region *region = &f->regions[number];
	uint32_t word = ord_load(&f->records[number].word);

	region->holds += word_holds(word);
	region->gets += word_takes(word);
	ord_store_release(&f->records[number].word, 0);
}
