// SPDX-License-Identifier: MIT
/*
 * get.c - the hit: a get of a range that a region covers, and the put.
 *
 *	get ----> the address's slot leads to a region that covers the range: takes a ref
 *	  +-----> get_other_slot()	tries the slot for the area's block size, then the second
 *	  |				slot
 *	  +-----> get_checked()		the thread's fast path is closed: does the work that it
 *	  |				leaves out, and tries the slots
 *	  +-----> get_ended()		the slot's region has ended: undoes the ref
 *	  +-----> get_full()		the thread's count for the region is full: moves it to the
 *	  |				region
 *	  '-----> get_from_index()	no slot leads to a region: searches the index; then miss.c
 *
 *	put ----> gives the ref back in the thread's refs
 *	  +-----> put_checked()		the thread's fast path is closed
 *	  +-----> put_unmet()		the refs have no generation: they are new, or the region has
 *	  |				ended
 *	  '-----> put_full()		the thread's count for the region is full
 *
 * The fast path is open if the thread cache's serial equals the cache's gate.  Then this_thread has
 * this cache in its place, hits need no fence and no look at a monitor's word, and nothing is
 * deferred.  The fast path saves no register: each other path is a call at its end.
 */
#include "../base/cancel.h"
#include "../internal.h"
#include "calls.h"
#include "deferred.h"
#include "invalidate.h"
#include "lock.h"
#include "miss.h"
#include "teardown.h"

#define REQUEST_FIRST	END_OF(struct peerdma_cache_request, reserved)
/* Aligns the function to a cache line.  Without this, a hit took up to a third longer. */
#define HOT	__attribute__((aligned(64)))

/* ---- put ---- */

/* There is no memory for the thread's refs, so the region itself counts the put. */
static void __attribute__((noinline)) put_to_region(struct peerdma_cache *cache,
						    struct region *region)
{
	cache_lock(cache);
	region->refs--;
	cache_unlock(cache);
	teardown_last_ref(cache, region_number(cache, region));
}

/*
 * The thread has put the region in refs without a generation.  They get the region's generation
 * now, unless the region has ended, perhaps with this put.
 */
static void given_unmet(struct peerdma_cache *cache, struct thread_refs *refs,
			struct region *region)
{
	if (ref_put_first(refs, &region->state_word) == REF_UNDONE)
		teardown_last_ref(cache, region_number(cache, region));
}

static void __attribute__((noinline)) put_checked(struct peerdma_cache *cache,
						  struct region *region)
{
	struct thread_cache *tc;
	struct thread_refs *refs;
	uint32_t count;

	if (cache_foreign(cache) || ord_load(&cache->closing))
		return;
	tc = thread_cache_find(cache);
	if (!tc)
		tc = thread_cache_get(cache);
	if (tc && ord_load(&tc->marked))
		deferred_drain(cache, tc);
	if (tc && !tc->fence)
		refs_hurry(tc);
	refs = tc ? refs_meet(tc, region) : NULL;
	if (!refs) {
		put_to_region(cache, region);
		return;
	}
	if (ref_put(refs, tc->fence, &count) == REF_CHECK)
		given_unmet(cache, refs, region);
	if (COUNT_LOW(count))
		refs_spill(tc, region_number(cache, region));
}

static void __attribute__((noinline)) put_full(struct peerdma_cache *cache, struct region *region)
{
	refs_spill(thread_cache_find(cache), region_number(cache, region));
}

static void __attribute__((noinline)) put_unmet(struct peerdma_cache *cache, struct region *region)
{
	struct thread_refs *refs;
	bool low;

	if (cache_foreign(cache))
		return;
	refs = refs_meet(thread_cache_find(cache), region);
	/*
	 * Read before given_unmet(), which may call remove(); that may call the cache and move the
	 * refs.
	 */
	low = COUNT_LOW(ord_load(&refs->count));
	given_unmet(cache, refs, region);
	if (low)
		put_full(cache, region);
}

EXPORT HOT void peerdma_cache_put(struct peerdma_cache *cache, struct peerdma_cached *hold)
{
	struct region *region = (struct region *)hold;
	struct thread_cache *tc;
	uint64_t gate;
	uint32_t count;

	if (__builtin_expect(!cache || !hold, 0))
		return;
	gate = cache_gate(cache);
	tc = this_thread.last[gate % THREAD_LAST];
	if (__builtin_expect(ord_load(&tc->put_serial) != gate, 0))
		put_checked(cache, region);
	else if (__builtin_expect(ref_put(refs_of(tc, region), false, &count) == REF_CHECK, 0))
		put_unmet(cache, region);
	else if (__builtin_expect(COUNT_LOW(count), 0))
		put_full(cache, region);
}

/* ---- get ---- */

/* A region of which the caller has a ref is stale: ends it, and gives the ref back. */
static bool __attribute__((noinline)) found_stale(struct peerdma_cache *cache,
						  struct region *region, uint64_t state_word)
{
	if (state_of(state_word) == STATE_LIVE)
		teardown_stale(cache, thread_cache_find(cache), region, state_word);
	put_checked(cache, region);
	return false;
}

/* Disables cancellation: a cancelled thread would hold the region for ever. */
static bool check_says(struct peerdma_cache *cache, const struct region *region, uint64_t addr,
		       uint64_t length)
{
	int was = cancel_off();
	bool good = cache->ops.check(cache->arg, &region->pub, addr, length);

	cancel_back(was);
	return good;
}

/*
 * The caller holds a ref of the region.  Returns whether the region's memory is still at this
 * address.  If not, gives the ref back.
 */
static inline bool still_good(struct peerdma_cache *cache, struct region *region, uint64_t addr,
			      uint64_t length)
{
	uint64_t state_word = ord_load(&region->state_word);
	bool good = !region->word || ord_load_acquire(region->word) == region->expected;

	if (good && cache->ops.check && !(cache->word_will_do && region->word))
		/* A cache of pins disables cancellation in check() itself, around calls of CUDA. */
		good = cache->word_will_do ?
		       cache->ops.check(cache->arg, &region->pub, addr, length) :
		       check_says(cache, region, addr, length);
	return __builtin_expect(good, 1) || found_stale(cache, region, state_word);
}

/*
 * Searches the index without the lock.  The index may change meanwhile, and the number may go to
 * another region.  So find() takes a ref, and then compares the range again.
 */
static struct region *find(struct peerdma_cache *cache, struct thread_cache *tc, uint64_t addr,
			   uint64_t last, uint32_t access)
{
	uint32_t entry = index_floor(&cache->index, &tc->place, addr);
	uint32_t number = entry_number(entry), count;
	struct thread_refs *refs;
	struct region *region;
	bool first;
	uint64_t state_word;

	if (!entry_may_reach(entry, tc->place.key, addr) || number >= ord_load(&cache->ready))
		return NULL;
	region = &cache->regions[number];
	state_word = ord_load_acquire(&region->state_word);
	if (state_of(state_word) != STATE_LIVE || access & ~state_access(state_word) ||
	    !region_covers(region, addr, last))
		return NULL;
	refs = refs_meet(tc, region);
	if (!refs)
		return NULL;
	first = ord_load(&refs->gen) != state_gen(state_word);
	if (!first && ref_get(refs, tc->fence, &count) == REF_UNDONE) {
		ref_undo(refs, count);
		teardown_last_ref(cache, number);
		return NULL;
	}
	if (first && ref_get_first(refs, &region->state_word, state_word) == REF_UNDONE) {
		teardown_last_ref(cache, number);
		return NULL;
	}
	if (COUNT_FULL(ord_load(&refs->count)))
		refs_spill(tc, number);
	if (!region_covers(region, addr, last)) {
		put_checked(cache, region);
		return NULL;
	}
	/* Slots refer only to regions with the access that peerdma_cache_get() needs. */
	if (!(cache->options.access & ~state_access(state_word)))
		thread_cache_remember(tc, region, addr);
	return region;
}

/* A new region may become stale at once, so there are several attempts. */
static int get_by_miss(struct peerdma_cache *cache, struct thread_cache *tc,
		       struct request *request, struct peerdma_cached **hold)
{
	struct region *region;
	int ret;

	for (int tries = 0; tries < MISS_TRIES; tries++) {
		ret = miss(cache, tc, request, &region);
		if (ret)
			return ret;
		if (!cache->monitored ||
		    still_good(cache, region, request->addr, request->length)) {
			*hold = &region->pub;
			return 0;
		}
		if (!request->counted)
			miss_found_stale(cache);
	}
	miss_failed(cache, request->counted);
	return fail(-ESTALE, "peerdma_cache_get: [0x%llx, +%llu): each of %d new registrations was stale at once, by check() or by "
		    "its word", (unsigned long long)request->addr,
		    (unsigned long long)request->length, MISS_TRIES);
}

/* The thread's slots do not lead to a region for the range. */
static int __attribute__((noinline)) get_request(struct peerdma_cache *cache,
						 struct request *request,
						 struct peerdma_cached **hold)
{
	struct thread_cache *tc = this_thread.last[cache_gate(cache) % THREAD_LAST];
	uint64_t addr = request->addr, length = request->length;
	struct region *region;
	int ret;

	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_get");
	ret = check_range("peerdma_cache_get", addr, length);
	if (ret)
		return ret;
	if (gate_closed(cache))
		invalidate_left(cache);
	if (tc->serial != cache_serial(cache))
		tc = thread_cache_get(cache);
	if (tc) {
		if (ord_load(&tc->marked))
			deferred_drain(cache, tc);
		region = find(cache, tc, addr, addr + length - 1, request->access);
		if (region && (!cache->monitored || still_good(cache, region, addr, length))) {
			ord_store(&tc->index_hits, tc->index_hits + 1);
			*hold = &region->pub;
			return 0;
		}
	}
	return get_by_miss(cache, tc, request, hold);
}

static int __attribute__((noinline)) get_from_index(struct peerdma_cache *cache, uint64_t addr,
						    uint64_t length, struct peerdma_cached **hold)
{
	struct request request = { .addr = addr, .length = length,
				   .access = cache->options.access };

	return get_request(cache, &request, hold);
}

/* A slot led to refs of a region that has ended.  The region's number is the index of the refs. */
static int __attribute__((noinline)) get_ended(struct peerdma_cache *cache, uint64_t addr,
					       uint64_t length, struct peerdma_cached **hold,
					       struct thread_refs *refs)
{
	struct thread_cache *tc = this_thread.last[cache_gate(cache) % THREAD_LAST];

	ref_undo(refs, ord_load(&refs->count));
	teardown_last_ref(cache, (uint32_t)(refs - tc->refs));
	return get_from_index(cache, addr, length, hold);
}

static int __attribute__((noinline)) get_full(struct peerdma_cache *cache,
					      struct peerdma_cached *hold)
{
	refs_spill(thread_cache_find(cache), region_number(cache, (struct region *)hold));
	return 0;
}

/*
 * Finds the region by the slots, and does the work that the fast path leaves out.  NULL: no slot
 * leads to it, or it has ended.
 */
static inline __attribute__((always_inline))
struct region *slots_get(struct peerdma_cache *cache, struct thread_cache *tc, uint64_t addr,
			 uint64_t length)
{
	struct region *region;
	struct thread_refs *refs;
	uint32_t count, at;

	if (gate_closed(cache) && !cache_foreign(cache))
		invalidate_left(cache);
	if (ord_load(&tc->marked) && !cache_foreign(cache))
		deferred_drain(cache, tc);
	at = *first_slot(tc, addr, this_thread.block[tc->serial % THREAD_LAST]);
	if (!covered_at(tc, at, addr, length) && !slots_look(tc, addr, length, &at))
		return NULL;
	region = region_at(tc, at);
	refs = refs_at(tc, at);
	if (ref_get(refs, tc->fence, &count) == REF_UNDONE) {
		ref_undo(refs, ord_load(&refs->count));
		teardown_last_ref(cache, region_number(cache, region));
		return NULL;
	}
	if (COUNT_FULL(count))
		refs_spill(tc, region_number(cache, region));
	if (tc->monitored && !still_good(cache, region, addr, length))
		return NULL;
	ord_store(&tc->hits, tc->hits + 1);
	return region;
}

/* The fast path is closed, or this_thread has the thread cache of another cache in this place. */
static int __attribute__((noinline)) get_checked(struct peerdma_cache *cache, uint64_t addr,
						 uint64_t length, struct peerdma_cached **hold)
{
	struct thread_cache *tc = this_thread.last[cache_gate(cache) % THREAD_LAST];
	struct region *region;

	if (tc->serial != cache_serial(cache))
		tc = thread_cache_find(cache);
	region = tc ? slots_get(cache, tc, addr, length) : NULL;
	if (!region)
		return get_from_index(cache, addr, length, hold);
	*hold = &region->pub;
	return 0;
}

/* The slot leads to refs `at`, which cover the range. */
static inline int get_slot(struct peerdma_cache *cache, struct thread_cache *tc, uint32_t at,
			   uint64_t addr, uint64_t length, struct peerdma_cached **hold)
{
	struct thread_refs *refs = refs_at(tc, at);
	uint32_t count;

	if (__builtin_expect(ref_get(refs, false, &count) == REF_UNDONE, 0))
		return get_ended(cache, addr, length, hold, refs);
	ord_store(&tc->hits, tc->hits + 1);
	*hold = &region_at(tc, at)->pub;
	return __builtin_expect(COUNT_FULL(count), 0) ? get_full(cache, *hold) : 0;
}

/*
 * The slot that the fast path tried does not cover the range.  Either this area has another block
 * size than the last hit, or the slot refers to another region.
 */
static int __attribute__((noinline)) get_other_slot(struct peerdma_cache *cache, uint64_t addr,
						    uint64_t length, struct peerdma_cached **hold)
{
	struct thread_cache *tc = this_thread.last[cache_gate(cache) % THREAD_LAST];
	uint32_t at;

	if (!slots_look(tc, addr, length, &at))
		return get_from_index(cache, addr, length, hold);
	return get_slot(cache, tc, at, addr, length, hold);
}

bool cache_find(struct peerdma_cache *cache, const void *ptr, uint64_t length,
		struct peerdma_cached **hold)
{
	struct thread_cache *tc = this_thread.last[cache_gate(cache) % THREAD_LAST];
	uint64_t addr = (uintptr_t)ptr;
	struct region *region;

	if (cache_foreign(cache))
		return false;
	if (tc->serial != cache_serial(cache))
		tc = thread_cache_get(cache);
	if (!tc)
		return false;
	region = slots_get(cache, tc, addr, length);
	if (!region) {
		region = find(cache, tc, addr, addr + length - 1, cache->options.access);
		if (!region || (cache->monitored && !still_good(cache, region, addr, length)))
			return false;
		ord_store(&tc->index_hits, tc->index_hits + 1);
	}
	*hold = &region->pub;
	return true;
}

static int __attribute__((noinline)) get_refused(const struct peerdma_cache *cache,
						 struct peerdma_cached **hold)
{
	return check_given("peerdma_cache_get", "cache", cache, "hold", hold, NULL);
}

EXPORT HOT int peerdma_cache_get(struct peerdma_cache *cache, const void *ptr, size_t length,
				 struct peerdma_cached **hold)
{
	uint64_t gate, addr = (uintptr_t)ptr;
	struct thread_cache *tc;
	uint32_t at;

	if (__builtin_expect(!cache || !hold, 0))
		return get_refused(cache, hold);
	gate = cache_gate(cache);
	tc = this_thread.last[gate % THREAD_LAST];
	if (__builtin_expect(ord_load(&tc->get_serial) != gate, 0))
		return get_checked(cache, addr, length, hold);
	at = *first_slot(tc, addr, this_thread.block[gate % THREAD_LAST]);
	if (__builtin_expect(!covered_at(tc, at, addr, length), 0))
		return get_other_slot(cache, addr, length, hold);
	return get_slot(cache, tc, at, addr, length, hold);
}

EXPORT int peerdma_cache_get_with(struct peerdma_cache *cache, const void *ptr, size_t length,
				  const struct peerdma_cache_request *request,
				  struct peerdma_cached **hold)
{
	struct peerdma_cache_request r;
	struct request wanted = { .addr = (uintptr_t)ptr, .length = length, .request = &r };
	struct region *region;
	struct thread_cache *tc;
	int ret = check_given("peerdma_cache_get_with", "cache", cache, "request", request, "hold",
			      hold, NULL);

	if (!ret)
		ret = take_in("peerdma_cache_get_with", &r, sizeof(r), REQUEST_FIRST, request);
	if (ret)
		return ret;
	tc = this_thread.last[cache_gate(cache) % THREAD_LAST];
	if (r.flags & ~PEERDMA_REQUEST_DMABUF || r.access & ~cache->access_all ||
	    !all_zero(r.reserved, sizeof(r.reserved)))
		return fail(-EINVAL, "peerdma_cache_get_with: flags 0x%x, access 0x%x: this cache knows flags 0x%x and access 0x%x; and "
			    "reserved fields are 0", r.flags, r.access, PEERDMA_REQUEST_DMABUF,
			    cache->access_all);
	/* Slots refer only to regions with the access that peerdma_cache_get() needs. */
	if (tc->serial != cache_serial(cache))
		tc = thread_cache_find(cache);
	if (tc && !(r.access & ~cache->options.access)) {
		region = slots_get(cache, tc, wanted.addr, wanted.length);
		if (region) {
			*hold = &region->pub;
			return 0;
		}
	}
	wanted.access = r.access;
	return get_request(cache, &wanted, hold);
}

EXPORT void *peerdma_cache_payload(const struct peerdma_cache *cache,
				   const struct peerdma_cached *hold)
{
	if (!cache || !hold)
		return NULL;
	return cache->payload +
	       (size_t)region_number(cache, (const struct region *)hold) * cache->payload_step;
}
