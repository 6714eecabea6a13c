// SPDX-License-Identifier: MIT
/*
 * thread_cache.c - see thread_cache.h.
 */
#include <stdlib.h>

#include "../base/memory.h"
#include "lock.h"
#include "thread_cache.h"

#define SLOTS_FIRST	256
/* This many slots fit into a processor's second-level cache, beside other data */
#define SLOTS_NEAR	(1U << 16)
#define GROWTH		2
/*
 * A table is crowded above 3/8 of its slots.  At 1/2, a power of two of blocks would be exactly on
 * the limit.
 */
#define CROWDED		3
/*
 * With more hits than this for each get that found no slot, more slots are not worth their memory
 */
#define CROWDED_HITS	64
#define PAGE		(1ULL << RANGE_SHIFT)
/*
 * Log2 of the least number of blocks in a region.  There are fewer if a block would be less than a
 * page, or if the region consists of greater aligned blocks.
 */
#define BLOCKS_SHIFT	3
#define BLOCKS_EACH	(8U << BLOCKS_SHIFT)	/* by far enough, except for blocks of BLOCK_MAX */
/* 512 KiB of address space; unused pages take no memory */
#define REFS_EAGER	32768U
#define REFS_PATIENCE	1024U	/* slow puts after which the refs grow */
#define REFS_PAGE	256U	/* refs in 4096 bytes */
#define AREA_PAGES	(AREA_SHIFT - RANGE_SHIFT)	/* log2 of the pages in an area */

struct thread_cache thread_cache_none;

#ifndef this_thread
/* The variable is in static TLS, so an access needs no call. */
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

/* Forgets the block sizes of all areas.  Later gets learn them again. */
static void blocks_forget(struct thread_cache *tc)
{
	tc->turn = (uint8_t)(tc->turn + AREA_TURN);
	if (!tc->turn)
		tc->turn = AREA_TURN;
}

/*
 * Returns log2 of the pages in a block of the region.  That is the greatest aligned block of which
 * the region consists, so that it shares no block with other regions.  But the block is large
 * enough that the region takes few blocks, wherever it begins: fewer in a table with many slots.
 */
static uint32_t block_of(const struct thread_cache *tc, uint64_t first, uint64_t end)
{
	uint32_t bits = 63 - (uint32_t)__builtin_clzll(end - first);
	uint32_t whole = (uint32_t)__builtin_ctzll(first | end);
	uint32_t few = slots_count(tc) <= SLOTS_NEAR ? BLOCKS_SHIFT : 1;
	uint32_t size = bits < few ? 0 : bits - few;

	if (whole > size)
		size = whole < bits ? whole : bits;
	return size < BLOCK_MAX ? size : BLOCK_MAX;
}

/* ---- the fast path: open or closed ---- */

static void mark(struct thread_cache *tc)
{
	ord_store(&tc->marked, 1);
	ord_store(&tc->get_serial, 0);
	ord_store(&tc->put_serial, 0);
}

/* Lock. */
static void open_fast_path(struct thread_cache *tc)
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
	open_fast_path(tc);
}

/* ---- refs ---- */

static uint64_t *touched_word(const struct thread_cache *tc, uint32_t page)
{
	return &tc->touched[page / 64];
}

/* The size of the refs and of the bits `touched` behind them. */
static size_t refs_size(uint32_t capacity)
{
	size_t pages = (capacity + REFS_PAGE - 1) / REFS_PAGE;

	return memory_rounded(capacity * sizeof(struct thread_refs) +
			      (pages + 63) / 64 * sizeof(uint64_t));
}

/* Lock. */
static void spill(struct thread_cache *tc, uint32_t number)
{
	struct region *region = &tc->regions[number];
	uint32_t count = ord_load(&tc->refs[number].count);

	region->refs += inspect_held(count);
	region->gets += inspect_gets(count);
	ord_store_release(&tc->refs[number].count, 0);
}

void __attribute__((noinline)) refs_spill(struct thread_cache *tc, uint32_t number)
{
	cache_lock(tc->cache);
	spill(tc, number);
	cache_unlock(tc->cache);
}

/* Reads only those pages of refs that the thread has touched. */
void thread_cache_leave(struct peerdma_cache *cache, struct thread_cache *tc)
{
	uint32_t pages = (tc->capacity + REFS_PAGE - 1) / REFS_PAGE;

	for (uint32_t page = 0; page < pages; page++) {
		uint64_t word = *touched_word(tc, page);

		if (!word)
			page |= 63;
		if (!(word >> page % 64 & 1))
			continue;
		for (uint32_t i = page * REFS_PAGE; i < tc->capacity && i < (page + 1) * REFS_PAGE;
		     i++) {
			if (ord_load(&tc->refs[i].count))
				spill(tc, i);
		}
	}
	/* While the cache is being closed, this thread may still put in remove(). */
	ord_store(&tc->put_serial, 0);
	cache->stats.gone_slot_hits += tc->hits;
	cache->stats.gone_hits += tc->index_hits;
	if (tc->next)
		tc->next->prev = tc->prev;
	if (tc->prev)
		tc->prev->next = tc->next;
	else
		cache->threads = tc->next;
	/* Last: another process that reads the list counts changes first. */
	ord_store_release(&cache->stats.thread_changes, cache->stats.thread_changes + 1);
}

void refs_free(struct thread_refs *refs, uint32_t capacity)
{
	memory_put(refs, refs_size(capacity));
}

static void set_refs(struct thread_cache *tc, struct thread_refs *refs, uint32_t capacity)
{
	tc->refs = refs;
	tc->capacity = capacity;
	tc->touched = (uint64_t *)(refs + capacity);
}

/*
 * At least doubles the refs.  Enders read them under the lock.  Copies only pages that were
 * touched.
 */
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
	set_refs(tc, refs, capacity);
	for (uint32_t i = 0; i < had; i++) {
		uint32_t page = i / REFS_PAGE;

		if (!(touched[page / 64] >> page % 64 & 1)) {
			i |= REFS_PAGE - 1;
			continue;
		}
		refs[i] = old[i];
		*touched_word(tc, page) |= 1ULL << page % 64;
	}
	tc->cache->stats.thread_changes++;
	if (!tc->marked)
		open_fast_path(tc);
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

	if (tc->capacity < ready && ++tc->slow_puts % REFS_PATIENCE == 0)
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
	/* Not beside another thread's data: processors fetch cache lines in pairs. */
	struct thread_cache *tc = aligned_alloc(128, (sizeof(*tc) + 127) / 128 * 128);
	uint32_t ready = ord_load(&cache->ready);
	uint32_t capacity = ready < REFS_EAGER ? ready : REFS_EAGER;
	struct thread_refs *refs;

	if (!tc)
		return NULL;
	*tc = (struct thread_cache){
		.cache = cache, .serial = cache_serial(cache), .process = cache->process,
		.regions = cache->regions, .monitored = cache->monitored,
		.slot_mask = SLOTS_FIRST - 1,
	};
	blocks_forget(tc);
	/* Refs, areas and the first slots share one mapping.  Their pages are freed separately. */
	refs = memory_get(refs_size(capacity) + AREAS + slots_size(tc), true);
	if (!refs) {
		free(tc);
		return NULL;
	}
	set_refs(tc, refs, capacity);
	tc->areas = (uint8_t *)refs + refs_size(capacity);
	tc->slots = (uint32_t *)(tc->areas + AREAS);
	return tc;
}

void thread_cache_join(struct thread_cache *tc)
{
	struct peerdma_cache *cache = tc->cache;

	cache->stats.thread_changes++;
	thread_cache_unmark(cache, tc);
	tc->next = cache->threads;
	tc->prev = NULL;
	if (tc->next)
		tc->next->prev = tc;
	cache->threads = tc;
	if (cache->deferred != NO_REGION)
		mark(tc);
}

/* ---- slots ---- */

/*
 * The new slots are empty.  The next get of each region finds it in the index, and fills a slot
 * again.
 */
static void slots_grow(struct thread_cache *tc)
{
	uint32_t *old = tc->slots;
	size_t old_size = slots_size(tc);
	uint32_t *slots = memory_get(old_size * GROWTH, true);

	if (!slots)
		return;
	/* Set before memory_put(), which may be reported to a monitor that calls the cache. */
	tc->slots = slots;
	tc->slot_mask = (uint64_t)slots_count(tc) * GROWTH - 1;
	memory_put(old, old_size);
}

/*
 * Returns whether the existing regions may have more blocks than the slots are made for.  If
 * regions come and go, few exist at a time.
 */
static bool slots_too_few(const struct thread_cache *tc)
{
	struct peerdma_cache *cache = tc->cache;
	uint64_t blocks;

	cache_lock(cache);
	blocks = cache->stats.count * BLOCKS_EACH +
		(cache->stats.bytes >> (RANGE_SHIFT + BLOCK_MAX));
	cache_unlock(cache);
	return slots_count(tc) < SLOTS_LAST && slots_count(tc) / 8 * CROWDED < blocks;
}

/*
 * Many gets found no slot.  Either there are too few slots, or the block sizes are smaller than the
 * current regions need.
 */
static void __attribute__((noinline)) crowded(struct thread_cache *tc)
{
	uint64_t hits = tc->hits - tc->hits_then;
	uint32_t gets = tc->crowded;

	tc->hits_then = tc->hits;
	tc->crowded = 0;
	if (hits > (uint64_t)CROWDED_HITS * gets)
		return;
	blocks_forget(tc);
	if (slots_too_few(tc))
		slots_grow(tc);
}

/* A slot that was never used contains 0, the offset of refs 0, which may be in use. */
static bool free_at(const struct thread_cache *tc, uint32_t at)
{
	return !at || !ord_load(&refs_at(tc, at)->range);
}

/*
 * Updates all areas in which the page's block and the region overlap.  So a get there finds the
 * block's slot with its first look, or not at all.
 */
static void areas_learn(struct thread_cache *tc, uint64_t first, uint64_t end, uint64_t page,
			uint32_t size)
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
	/* Uses whole pages of the region: the range cannot describe parts of pages. */
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
	areas_learn(tc, first, end, page, block_of(tc, first, end));
	block = block_at(tc, addr);
	this_thread.block[tc->serial % THREAD_LAST] = block;
	/* The range cannot describe a very big region: use the part around the address. */
	if (end - first > RANGE_COUNT_MAX && page - first > RANGE_COUNT_MAX / 2)
		first = page - RANGE_COUNT_MAX / 2;
	if (end - first > RANGE_COUNT_MAX)
		end = first + RANGE_COUNT_MAX;
	ord_store(&refs->range, range_of(first, end - first));
	slot = first_slot(tc, addr, block);
	second = second_slot(tc, addr, block);
	/*
	 * Use an empty slot.  If there is none, replace another region, which gets will find
	 * through the index.
	 */
	if (*slot == at || *second == at)
		return;
	if (free_at(tc, *slot) || (tc->crowded & 1 && !free_at(tc, *second)))
		*slot = at;
	else
		*second = at;
}
