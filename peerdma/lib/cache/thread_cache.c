// SPDX-License-Identifier: MIT
/*
 * thread_cache.c - a thread's own side of a cache: its table of regions by address, and
 * its refs.  current.c says whose it is.
 */
#include <stdlib.h>

#include "../base/memory.h"
#include "lock.h"
#include "thread_cache.h"

#define SLOTS_FIRST	256
#define GROWTH		2
#define CROWDED		3	/* eighths, so that no power of two of blocks is on the edge */
#define PAGE		(1ULL << RANGE_SHIFT)
#define BLOCKS_SHIFT	3	/* the smallest region in an area has so many blocks at least, as a power of two */
#define REFS_EAGER	32768U	/* 512 KiB of address space, whatever the thread uses */
#define REFS_PATIENCE 1024U	/* careful puts */
#define REFS_PAGE	256U	/* 4096 bytes of them */
#define AREA_PAGES	(AREA_SHIFT - RANGE_SHIFT)	/* in an area, as a power of two */

struct thread_cache thread_cache_none;

#ifndef this_thread
/* In the room that the loader keeps for such: no call is needed to find it. */
_Thread_local struct thread_state this_thread __attribute__((tls_model("initial-exec"))) = {
	.last = { [0 ... THREAD_LAST - 1] = &thread_cache_none },
};
#endif

static uint32_t slots_count(const struct thread_cache *tc)
{
	return (uint32_t)tc->slot_mask + 1;
}

static size_t slots_size(const struct thread_cache *tc)
{
	return sizeof(*tc->slots) * (slots_count(tc) + slots_count(tc) / 2);
}

/* Found again, by what is looked for in each area. */
static void blocks_forget(struct thread_cache *tc)
{
	tc->turn = (uint8_t)(tc->turn + AREA_TURN);
	if (!tc->turn)
		tc->turn = AREA_TURN;
}

static uint32_t block_of(uint64_t pages)
{
	uint32_t bits = 63 - (uint32_t)__builtin_clzll(pages);

	return bits < BLOCKS_SHIFT ? 0 : bits - BLOCKS_SHIFT < BLOCK_MAX ? bits - BLOCKS_SHIFT : BLOCK_MAX;
}

/* ---- the common path, and the careful one ---- */

static void mark(struct thread_cache *tc)
{
	ord_store(&tc->marked, 1);
	ord_store(&tc->get_serial, 0);
	ord_store(&tc->put_serial, 0);
}

/* Lock. */
static void serials_are(struct thread_cache *tc)
{
	ord_store(&tc->get_serial, tc->fence || tc->monitored ? 0 : tc->serial);
	ord_store(&tc->put_serial, tc->fence || tc->capacity < tc->cache->ready ? 0 : tc->serial);
}

void thread_caches_mark(struct peerdma_cache *cache)
{
	for (struct thread_cache *tc = cache->threads; tc; tc = tc->next)
		mark(tc);
}

void thread_cache_unmark(struct peerdma_cache *cache, struct thread_cache *tc)
{
	ord_store(&tc->marked, 0);
	tc->fence = cache->fence;
	serials_are(tc);
}

/* ---- refs ---- */

static uint64_t *touched_word(const struct thread_cache *tc, uint32_t page)
{
	return &tc->touched[page / 64];
}

/* The refs, and behind them which were touched. */
static size_t refs_size(uint32_t capacity)
{
	size_t pages = (capacity + REFS_PAGE - 1) / REFS_PAGE;

	return memory_rounded(capacity * sizeof(struct thread_refs) + (pages + 63) / 64 * sizeof(uint64_t));
}

/* Lock. */
static void spill(struct thread_cache *tc, uint32_t number)
{
	struct region *region = &tc->regions[number];
	uint32_t count = ord_load(&tc->refs[number].count);

	region->refs += count_refs(count);
	region->gets += count_gets(count);
	ord_store_release(&tc->refs[number].count, 0);
}

void __attribute__((noinline)) refs_spill(struct thread_cache *tc, uint32_t number)
{
	cache_lock(tc->cache);
	spill(tc, number);
	cache_unlock(tc->cache);
}

/* What was counted goes to the regions; only pages of refs that were touched are looked at. */
void thread_cache_leave(struct peerdma_cache *cache, struct thread_cache *tc)
{
	uint32_t pages = (tc->capacity + REFS_PAGE - 1) / REFS_PAGE;

	for (uint32_t page = 0; page < pages; page++) {
		uint64_t word = *touched_word(tc, page);

		if (!word)
			page |= 63;
		if (!(word >> page % 64 & 1))
			continue;
		for (uint32_t i = page * REFS_PAGE; i < tc->capacity && i < (page + 1) * REFS_PAGE; i++) {
			if (ord_load(&tc->refs[i].count))
				spill(tc, i);
		}
	}
	/* Its thread may put once more, in remove(), while the cache closes. */
	ord_store(&tc->put_serial, 0);
	cache->thread_changes++;
	cache->gone_slot_hits += tc->hits;
	cache->gone_hits += tc->index_hits;
	if (tc->next)
		tc->next->prev = tc->prev;
	if (tc->prev)
		tc->prev->next = tc->next;
	else
		cache->threads = tc->next;
}

void refs_free(struct thread_refs *refs, uint32_t capacity)
{
	memory_put(refs, refs_size(capacity));
}

static void refs_are(struct thread_cache *tc, struct thread_refs *refs, uint32_t capacity)
{
	tc->refs = refs;
	tc->capacity = capacity;
	tc->touched = (uint64_t *)(refs + capacity);
}

/* Twice as many at least.  Enders look at them under the lock; only what was touched is copied. */
static bool refs_grow(struct thread_cache *tc, uint32_t number)
{
	struct thread_refs *old = tc->refs, *refs;
	uint32_t had = tc->capacity, capacity = had;
	const uint64_t *touched = tc->touched;

	while (capacity <= number || capacity < ord_load(&tc->cache->ready))
		capacity *= 2;
	refs = memory_get(refs_size(capacity), true);
	if (!refs)
		return false;
	cache_lock(tc->cache);
	refs_are(tc, refs, capacity);
	for (uint32_t i = 0; i < had; i++) {
		uint32_t page = i / REFS_PAGE;

		if (!(touched[page / 64] >> page % 64 & 1)) {
			i |= REFS_PAGE - 1;
			continue;
		}
		refs[i] = old[i];
		*touched_word(tc, page) |= 1ULL << page % 64;
	}
	tc->cache->thread_changes++;
	if (!tc->marked)
		serials_are(tc);
	cache_unlock(tc->cache);
	refs_free(old, had);
	return true;
}

struct thread_refs *refs_meet(struct thread_cache *tc, const struct region *region)
{
	uint32_t number = (uint32_t)(region - tc->regions), page = number / REFS_PAGE;

	if (number >= tc->capacity && !refs_grow(tc, number))
		return NULL;
	*touched_word(tc, page) |= 1ULL << page % 64;
	return &tc->refs[number];
}

void refs_keep_up(struct thread_cache *tc)
{
	uint32_t ready = ord_load(&tc->cache->ready);

	if (tc->capacity < ready && ready <= REFS_EAGER)
		refs_grow(tc, ready - 1);
}

void refs_hurry(struct thread_cache *tc)
{
	uint32_t ready = ord_load(&tc->cache->ready);

	if (tc->capacity < ready && ++tc->careful_puts % REFS_PATIENCE == 0)
		refs_grow(tc, ready - 1);
}

void thread_cache_free(struct thread_cache *tc)
{
	memory_put(tc->slots, slots_size(tc));
	memory_put(tc->areas, AREAS);
	free(tc);
}

struct thread_cache *thread_cache_make(struct peerdma_cache *cache)
{
	/* Not next to another thread's: processors fetch lines in pairs. */
	struct thread_cache *tc = aligned_alloc(128, (sizeof(*tc) + 127) / 128 * 128);
	uint32_t ready = ord_load(&cache->ready), capacity = ready < REFS_EAGER ? ready : REFS_EAGER;
	struct thread_refs *refs;

	if (!tc)
		return NULL;
	*tc = (struct thread_cache){
		.serial = cache_serial(cache), .regions = cache->regions,
		.monitored = cache->monitored,
		.cache = cache, .process = cache->process,
		.slot_mask = SLOTS_FIRST - 1,
	};
	blocks_forget(tc);
	/* Areas and the first slots lie behind the refs, in one piece; each frees its own pages. */
	refs = memory_get(refs_size(capacity) + AREAS + slots_size(tc), true);
	if (!refs) {
		free(tc);
		return NULL;
	}
	refs_are(tc, refs, capacity);
	tc->areas = (uint8_t *)refs + refs_size(capacity);
	tc->slots = (uint32_t *)(tc->areas + AREAS);
	return tc;
}

void thread_cache_join(struct thread_cache *tc)
{
	struct peerdma_cache *cache = tc->cache;

	cache->thread_changes++;
	thread_cache_unmark(cache, tc);
	tc->next = cache->threads;
	tc->prev = NULL;
	if (tc->next)
		tc->next->prev = tc;
	cache->threads = tc;
	if (cache->deferred != NO_REGION)
		mark(tc);
}

/* ---- the table ---- */

/* What was in it is found again when it is looked for. */
static void thread_cache_grow(struct thread_cache *tc)
{
	uint32_t *old = tc->slots;
	size_t old_size = slots_size(tc);
	uint32_t *slots = memory_get(old_size * GROWTH, true);

	if (!slots)
		return;
	/* Before anything is given back: that may call us. */
	tc->slots = slots;
	tc->slot_mask = (uint64_t)slots_count(tc) * GROWTH - 1;
	memory_put(old, old_size);
}

/* Much was not in the table: there is more than it has room for, or blocks are smaller than today's regions ask for. */
static void __attribute__((noinline)) crowded(struct thread_cache *tc)
{
	tc->crowded = 0;
	blocks_forget(tc);
	if (slots_count(tc) < SLOTS_LAST)
		thread_cache_grow(tc);
}

/* A slot that was never used has refs 0, which may be a region's; then this finds another slot. */
static bool free_at(const struct thread_cache *tc, uint32_t at)
{
	return !at || !ord_load(&refs_at(tc, at)->range);
}

/* All areas that the block of this page is in, as far as it is the region's: found at once or not at all. */
static void areas_learn(struct thread_cache *tc, uint64_t first, uint64_t end, uint64_t page, uint32_t size)
{
	uint64_t from = page >> size << size, to = from + (1ULL << size);

	to = (to < end ? to : end) - 1;
	from = from > first ? from : first;
	for (uint64_t i = from >> AREA_PAGES; i <= to >> AREA_PAGES; i++) {
		uint8_t *area = &tc->areas[i & (AREAS - 1)];

		if (size < (uint32_t)(*area ^ tc->turn))
			*area = (uint8_t)(tc->turn + size);
	}
}

void thread_cache_remember(struct thread_cache *tc, const struct region *region, uint64_t addr)
{
	/* Whole pages of the region only: the refs cannot describe parts of a page. */
	uint64_t first = (region->pub.addr + PAGE - 1) >> RANGE_SHIFT;
	uint64_t end = (region->pub.addr + region->pub.length) >> RANGE_SHIFT;
	uint64_t page = addr >> RANGE_SHIFT;
	struct thread_refs *refs = refs_of(tc, region);
	uint32_t at = (uint32_t)((char *)refs - (char *)tc->refs), *slot, *second;
	int32_t block;

	if (page < first || page >= end || end > RANGE_PAGE_MAX)
		return;
	if (++tc->crowded > slots_count(tc) / 8 * CROWDED)
		crowded(tc);
	areas_learn(tc, first, end, page, block_of(end - first));
	block = block_at(tc, addr);
	this_thread.block[tc->serial % THREAD_LAST] = block;
	/* Of a very big region, what is around the address. */
	if (end - first > RANGE_COUNT_MAX && page - first > RANGE_COUNT_MAX / 2)
		first = page - RANGE_COUNT_MAX / 2;
	if (end - first > RANGE_COUNT_MAX)
		end = first + RANGE_COUNT_MAX;
	ord_store(&refs->range, range_of(first, end - first));
	slot = first_slot(tc, addr, block);
	second = second_slot(tc, addr, block);
	/* An empty slot; or else one of the two is replaced, and is found again through the index. */
	if (*slot == at || *second == at)
		return;
	if (free_at(tc, *slot) || (tc->crowded & 1 && !free_at(tc, *second)))
		*slot = at;
	else
		*second = at;
}
