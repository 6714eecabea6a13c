// SPDX-License-Identifier: MIT
/*
 * front.c - a thread's own side of a cache: its table of regions by address, and
 * its records.
 *
 * Found through four words of the thread's own, by the cache's serial number.  A
 * front ends with its thread or with its cache, and whichever comes second finds
 * nothing left to do but to free it.
 */
#include <sched.h>
#include <stdlib.h>

#include "../internal.h"
#include "cache.h"
#include "front.h"

#define SLOTS_FIRST	256
#define SLOTS_LAST	(1U << 21)
#define GROWTH		4
#define PAGE		(1ULL << SLOT_SHIFT)

static struct front nobody;		/* serial 0: no cache's */

/* In the room that the loader keeps for such: no call is needed to find it. */
_Thread_local struct front *front_words[FRONT_WORDS] __attribute__((tls_model("initial-exec"))) = {
	&nobody, &nobody, &nobody, &nobody,
};
static _Thread_local struct front *mine __attribute__((tls_model("initial-exec")));

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_there;

static size_t slots_size(const struct front *f)
{
	return sizeof(struct slot) << (64 - f->slot_shift);
}

static size_t records_size(const struct front *f)
{
	return (size_t)f->capacity * sizeof(struct record);
}

/* ---- ends ---- */

/* Lock.  What the thread has counted goes to the regions: its holds are alive, and anybody's to give back. */
static void front_leave(struct peerdma_cache *cache, struct front *f)
{
	for (uint32_t i = 0; i < cache->used; i++) {
		if (ord_load(&f->records[i].word))
			front_spill(f, i);
		ord_store(&f->records[i].gen, 0);
		ord_store(&f->records[i].word, 0);
	}
	cache->gone_front_hits += f->hits;
	cache->gone_hits += f->index_hits;
	if (f->next)
		f->next->prev = f->prev;
	if (f->prev)
		f->prev->next = f->next;
	else
		cache->fronts = f->next;
}

static void front_free(struct front *f)
{
	memory_put(f->slots, slots_size(f));
	free(f);
}

/* The thread's part: of the cache's memory nothing is touched if the cache is, or may be, gone. */
static void front_end(struct front *f)
{
	struct peerdma_cache *cache = f->cache;
	struct record *records = f->records;
	size_t size = records_size(f);

	if (!ord_replace(&f->owner, FRONT_BOTH, FRONT_LEAVING)) {
		front_free(f);
		return;
	}
	pthread_mutex_lock(&cache->lock);
	front_leave(cache, f);
	pthread_mutex_unlock(&cache->lock);
	memory_put(records, size);
	front_free(f);
}

static void thread_ends(void *unused)
{
	struct front *f;

	(void)unused;
	for (int i = 0; i < FRONT_WORDS; i++)
		front_words[i] = &nobody;
	while ((f = mine)) {
		mine = f->mine;
		/* A child's locks may be held for ever by threads that it does not have. */
		if (f->process == process_id())
			front_end(f);
	}
}

/* Of caches that were closed while this thread lived. */
static void orphans_free(void)
{
	struct front **p = &mine, *f;

	while ((f = *p)) {
		if (ord_load_acquire(&f->owner) != FRONT_ORPHAN) {
			p = &f->mine;
			continue;
		}
		*p = f->mine;
		for (int i = 0; i < FRONT_WORDS; i++) {
			if (front_words[i] == f)
				front_words[i] = &nobody;
		}
		front_free(f);
	}
}

void fronts_orphan(struct peerdma_cache *cache)
{
	struct front *f;

	for (;;) {
		pthread_mutex_lock(&cache->lock);
		f = cache->fronts;
		if (!f)
			break;
		if (ord_load(&f->owner) == FRONT_BOTH) {
			struct record *records = f->records;
			size_t size = records_size(f);

			front_leave(cache, f);
			/* From here on it may be gone any time; or its thread ends just now, and waits for the lock. */
			if (ord_replace(&f->owner, FRONT_BOTH, FRONT_ORPHAN)) {
				pthread_mutex_unlock(&cache->lock);
				memory_put(records, size);
				continue;
			}
			f->prev = NULL;
			f->next = cache->fronts;
			if (f->next)
				f->next->prev = f;
			cache->fronts = f;
		}
		pthread_mutex_unlock(&cache->lock);
		sched_yield();
	}
	pthread_mutex_unlock(&cache->lock);
}

/* ---- beginnings ---- */

static void key_make(void)
{
	key_there = !pthread_key_create(&key, thread_ends);
}

static struct front *front_make(struct peerdma_cache *cache)
{
	struct front *f = aligned_alloc(64, (sizeof(*f) + 63) / 64 * 64);

	if (!f)
		return NULL;
	*f = (struct front){
		.serial = cache->serial, .regions = cache->regions,
		.fence = cache->fence, .monitored = cache->monitored,
		.careful = cache->fence || cache->monitored, .capacity = cache->capacity, .cache = cache, .process = cache->process,
		.slot_shift = (uint8_t)(64 - __builtin_ctz(SLOTS_FIRST)),
	};
	f->records = memory_get(records_size(f), true);
	f->slots = memory_get(slots_size(f), true);
	if (!f->records || !f->slots) {
		memory_put(f->records, records_size(f));
		front_free(f);
		return NULL;
	}
	return f;
}

static struct front *front_find(const struct peerdma_cache *cache)
{
	struct front *f;

	for (f = mine; f && f->serial != cache->serial; f = f->mine)
		;
	if (f)
		front_words[cache->serial % FRONT_WORDS] = f;
	return f;
}

struct front *front_if_any(const struct peerdma_cache *cache)
{
	struct front *f = front_words[cache->serial % FRONT_WORDS];

	return f->serial == cache->serial ? f : front_find(cache);
}

struct front *front_of(struct peerdma_cache *cache)
{
	struct front *f = front_if_any(cache);

	if (f)
		return f;
	orphans_free();
	pthread_once(&key_once, key_make);
	/* The key makes thread_ends() be called; what it holds does not matter. */
	if (!key_there || pthread_setspecific(key, &nobody))
		return NULL;
	f = front_make(cache);
	if (!f)
		return NULL;
	f->mine = mine;
	mine = f;
	front_words[cache->serial % FRONT_WORDS] = f;
	pthread_mutex_lock(&cache->lock);
	f->next = cache->fronts;
	if (f->next)
		f->next->prev = f;
	cache->fronts = f;
	pthread_mutex_unlock(&cache->lock);
	return f;
}

/* ---- the table ---- */

/* What was in it is found again when it is looked for. */
static void front_grow(struct front *f)
{
	struct slot *old = f->slots;
	size_t old_size = slots_size(f);
	uint8_t shift = f->slot_shift - __builtin_ctz(GROWTH);
	struct slot *slots = memory_get(sizeof(*slots) << (64 - shift), true);

	f->crowded = 0;
	if (!slots)
		return;
	/* Before anything is given back: that may call us. */
	f->slots = slots;
	f->slot_shift = shift;
	memory_put(old, old_size);
}

void front_remember(struct front *f, const struct region *region, uint32_t gen, uint64_t addr)
{
	/* Pages that are the region's from end to end: the entry tells no parts of them. */
	uint64_t first = (region->pub.addr + PAGE - 1) >> SLOT_SHIFT;
	uint64_t end = (region->pub.addr + region->pub.length) >> SLOT_SHIFT;
	uint64_t page = addr >> SLOT_SHIFT;
	struct slot *slot;

	if (page < first || page >= end)
		return;
	if (++f->crowded > (1U << (64 - f->slot_shift)) / 2 && 1U << (64 - f->slot_shift) < SLOTS_LAST)
		front_grow(f);
	/* Of a very big region, what is around the address. */
	if (page - first > SLOT_COUNT_MAX / 2)
		first = page - SLOT_COUNT_MAX / 2;
	if (end - first > SLOT_COUNT_MAX)
		end = first + SLOT_COUNT_MAX;
	slot = front_slot(f, page);
	slot->range = first << SLOT_COUNT_BITS | (end - first);
	slot->who = (uint64_t)gen << 32 | (uint32_t)(region - f->regions);
}

void front_spill(struct front *f, uint32_t number)
{
	struct region *region = &f->regions[number];
	uint32_t word = ord_load(&f->records[number].word);

	region->holds += word_holds(word);
	region->gets += word_takes(word);
	ord_store_release(&f->records[number].word, WORD_START);
}
