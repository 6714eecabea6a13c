// SPDX-License-Identifier: MIT
/*
 * front.c - a thread's own side of a cache: its table of regions by address, and
 * its records.  thread.c says whose it is.
 */
#include <stdlib.h>

#include "state.h"
#include "lock.h"
#include "front.h"

#define SLOTS_FIRST	256
#define GROWTH		2
#define CROWDED		3	/* eighths, so that no power of two of blocks is on the edge */
#define PAGE		(1ULL << RANGE_SHIFT)
#define BLOCKS_SHIFT	3	/* the smallest region in an area has so many blocks at least, as a power of two */
#define RECORDS_EAGER	32768U	/* 512 KiB of address space, whatever the thread uses */
#define RECORDS_PATIENCE 1024U	/* careful puts */
#define RECORDS_PAGE	256U	/* 4096 bytes of them */
#define AREA_PAGES	(AREA_SHIFT - RANGE_SHIFT)	/* in an area, as a power of two */

struct front front_none;

#ifndef front_words
/* In the room that the loader keeps for such: no call is needed to find it. */
_Thread_local struct last_fronts front_words __attribute__((tls_model("initial-exec"))) = {
	.front = { [0 ... FRONT_WORDS - 1] = &front_none },
};
#endif

static uint32_t slots_count(const struct front *f)
{
	return (uint32_t)f->slot_mask + 1;
}

static size_t slots_size(const struct front *f)
{
	return sizeof(*f->slots) * (slots_count(f) + slots_count(f) / 2);
}

/* Found again, by what is looked for in each area. */
static void blocks_forget(struct front *f)
{
	f->turn = (uint8_t)(f->turn + AREA_TURN);
	if (!f->turn)
		f->turn = AREA_TURN;
}

static uint32_t block_of(uint64_t pages)
{
	uint32_t bits = 63 - (uint32_t)__builtin_clzll(pages);

	return bits < BLOCKS_SHIFT ? 0 : bits - BLOCKS_SHIFT < BLOCK_MAX ? bits - BLOCKS_SHIFT : BLOCK_MAX;
}

/* ---- the common path, and the careful one ---- */

static void mark(struct front *f)
{
	ord_store(&f->marked, 1);
	ord_store(&f->get_serial, 0);
	ord_store(&f->put_serial, 0);
}

/* Lock. */
static void serials_are(struct front *f)
{
	ord_store(&f->get_serial, f->fence || f->monitored ? 0 : f->serial);
	ord_store(&f->put_serial, f->fence || f->capacity < f->cache->ready ? 0 : f->serial);
}

void fronts_mark(struct peerdma_cache *cache)
{
	for (struct front *f = cache->fronts; f; f = f->next)
		mark(f);
}

void front_unmark(struct peerdma_cache *cache, struct front *f)
{
	ord_store(&f->marked, 0);
	f->fence = cache->fence;
	serials_are(f);
}

/* ---- records ---- */

static uint64_t *touched_word(const struct front *f, uint32_t page)
{
	return &f->touched[page / 64];
}

/* The records, and behind them which were touched. */
static size_t records_size(uint32_t capacity)
{
	size_t pages = (capacity + RECORDS_PAGE - 1) / RECORDS_PAGE;

	return memory_rounded(capacity * sizeof(struct record) + (pages + 63) / 64 * sizeof(uint64_t));
}

/* What was counted goes to the regions; only pages of records that were touched are looked at. */
void front_leave(struct peerdma_cache *cache, struct front *f)
{
	uint32_t pages = (f->capacity + RECORDS_PAGE - 1) / RECORDS_PAGE;

	for (uint32_t page = 0; page < pages; page++) {
		uint64_t word = *touched_word(f, page);

		if (!word)
			page |= 63;
		if (!(word >> page % 64 & 1))
			continue;
		for (uint32_t i = page * RECORDS_PAGE; i < f->capacity && i < (page + 1) * RECORDS_PAGE; i++) {
			if (ord_load(&f->records[i].word))
				front_spill(f, i);
		}
	}
	/* Its thread may put once more, in remove(), while the cache closes. */
	ord_store(&f->put_serial, 0);
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
	memory_put(records, records_size(capacity));
}

static void records_are(struct front *f, struct record *records, uint32_t capacity)
{
	f->records = records;
	f->capacity = capacity;
	f->touched = (uint64_t *)(records + capacity);
}

/* Twice as many at least.  Enders look at them under the lock; only what was touched is copied. */
static bool records_grow(struct front *f, uint32_t number)
{
	struct record *old = f->records, *records;
	uint32_t had = f->capacity, capacity = had;
	const uint64_t *touched = f->touched;

	while (capacity <= number || capacity < ord_load(&f->cache->ready))
		capacity *= 2;
	records = memory_get(records_size(capacity), true);
	if (!records)
		return false;
	cache_lock(f->cache);
	records_are(f, records, capacity);
	for (uint32_t i = 0; i < had; i++) {
		uint32_t page = i / RECORDS_PAGE;

		if (!(touched[page / 64] >> page % 64 & 1)) {
			i |= RECORDS_PAGE - 1;
			continue;
		}
		records[i] = old[i];
		*touched_word(f, page) |= 1ULL << page % 64;
	}
	f->cache->front_changes++;
	if (!f->marked)
		serials_are(f);
	cache_unlock(f->cache);
	records_free(old, had);
	return true;
}

struct record *front_meet(struct front *f, const struct region *region)
{
	uint32_t number = (uint32_t)(region - f->regions), page = number / RECORDS_PAGE;

	if (number >= f->capacity && !records_grow(f, number))
		return NULL;
	*touched_word(f, page) |= 1ULL << page % 64;
	return &f->records[number];
}

void front_keep_up(struct front *f)
{
	uint32_t ready = ord_load(&f->cache->ready);

	if (f->capacity < ready && ready <= RECORDS_EAGER)
		records_grow(f, ready - 1);
}

void front_hurry(struct front *f)
{
	uint32_t ready = ord_load(&f->cache->ready);

	if (f->capacity < ready && ++f->careful_puts % RECORDS_PATIENCE == 0)
		records_grow(f, ready - 1);
}

void front_free(struct front *f)
{
	memory_put(f->slots, slots_size(f));
	memory_put(f->areas, AREAS);
	free(f);
}

struct front *front_make(struct peerdma_cache *cache)
{
	/* Not next to another thread's: processors fetch lines in pairs. */
	struct front *f = aligned_alloc(128, (sizeof(*f) + 127) / 128 * 128);
	uint32_t ready = ord_load(&cache->ready), capacity = ready < RECORDS_EAGER ? ready : RECORDS_EAGER;
	struct record *records;

	if (!f)
		return NULL;
	*f = (struct front){
		.serial = cache_serial(cache), .regions = cache->regions,
		.monitored = cache->monitored,
		.cache = cache, .process = cache->process,
		.slot_mask = SLOTS_FIRST - 1,
	};
	blocks_forget(f);
	/* Areas and the first slots lie behind the records, in one piece; each frees its own pages. */
	records = memory_get(records_size(capacity) + AREAS + slots_size(f), true);
	if (!records) {
		free(f);
		return NULL;
	}
	records_are(f, records, capacity);
	f->areas = (uint8_t *)records + records_size(capacity);
	f->slots = (uint32_t *)(f->areas + AREAS);
	return f;
}

void front_join(struct front *f)
{
	struct peerdma_cache *cache = f->cache;

	cache->front_changes++;
	front_unmark(cache, f);
	f->next = cache->fronts;
	f->prev = NULL;
	if (f->next)
		f->next->prev = f;
	cache->fronts = f;
	if (cache->deferred != NO_REGION)
		mark(f);
}

/* ---- the table ---- */

/* What was in it is found again when it is looked for. */
static void front_grow(struct front *f)
{
	uint32_t *old = f->slots;
	size_t old_size = slots_size(f);
	uint32_t *slots = memory_get(old_size * GROWTH, true);

	if (!slots)
		return;
	/* Before anything is given back: that may call us. */
	f->slots = slots;
	f->slot_mask = (uint64_t)slots_count(f) * GROWTH - 1;
	memory_put(old, old_size);
}

/* Much was not in the table: there is more than it has room for, or blocks are smaller than today's regions ask for. */
static void __attribute__((noinline)) crowded(struct front *f)
{
	f->crowded = 0;
	blocks_forget(f);
	if (slots_count(f) < SLOTS_LAST)
		front_grow(f);
}

/* A slot that was never used has record 0, which may be a region's; then this finds another slot. */
static bool free_at(const struct front *f, uint32_t at)
{
	return !at || !ord_load(&record_at(f, at)->range);
}

/* All areas that the block of this page is in, as far as it is the region's: found at once or not at all. */
static void areas_learn(struct front *f, uint64_t first, uint64_t end, uint64_t page, uint32_t size)
{
	uint64_t from = page >> size << size, to = from + (1ULL << size);

	to = (to < end ? to : end) - 1;
	from = from > first ? from : first;
	for (uint64_t i = from >> AREA_PAGES; i <= to >> AREA_PAGES; i++) {
		uint8_t *area = &f->areas[i & (AREAS - 1)];

		if (size < (uint32_t)(*area ^ f->turn))
			*area = (uint8_t)(f->turn + size);
	}
}

void front_remember(struct front *f, const struct region *region, uint64_t addr)
{
	/* Whole pages of the region only: the record cannot describe parts of a page. */
	uint64_t first = (region->pub.addr + PAGE - 1) >> RANGE_SHIFT;
	uint64_t end = (region->pub.addr + region->pub.length) >> RANGE_SHIFT;
	uint64_t page = addr >> RANGE_SHIFT;
	struct record *record = record_of(f, region);
	uint32_t at = (uint32_t)((char *)record - (char *)f->records), *slot, *second;
	int32_t block;

	if (page < first || page >= end || end > RANGE_PAGE_MAX)
		return;
	if (++f->crowded > slots_count(f) / 8 * CROWDED)
		crowded(f);
	areas_learn(f, first, end, page, block_of(end - first));
	block = block_at(f, addr);
	front_words.block[f->serial % FRONT_WORDS] = block;
	/* Of a very big region, what is around the address. */
	if (end - first > RANGE_COUNT_MAX && page - first > RANGE_COUNT_MAX / 2)
		first = page - RANGE_COUNT_MAX / 2;
	if (end - first > RANGE_COUNT_MAX)
		end = first + RANGE_COUNT_MAX;
	ord_store(&record->range, range_of(first, end - first));
	slot = front_slot(f, addr, block);
	second = second_slot(f, addr, block);
	/* An empty slot; or else one of the two is replaced, and is found again through the index. */
	if (*slot == at || *second == at)
		return;
	if (free_at(f, *slot) || (f->crowded & 1 && !free_at(f, *second)))
		*slot = at;
	else
		*second = at;
}

void front_spill(struct front *f, uint32_t number)
{
	struct region *region = &f->regions[number];
	uint32_t word = ord_load(&f->records[number].word);

	region->holds += word_holds(word);
	region->gets += word_takes(word);
	ord_store_release(&f->records[number].word, 0);
}
