// SPDX-License-Identifier: MIT
/*
 * remote_cache.c - see remote_cache.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/cache/thread_cache.h"
#include "remote_cache.h"

_Static_assert(REMOTE_ENDED_MAX == INSPECT_ENDED, "all that the cache keeps");

#define TRIES		50
#define CHUNK		512U		/* regions at a time */

static int get(struct remote_memory *m, uint64_t addr, void *to, size_t length)
{
	if (m->budget < length + REMOTE_READ_COST)
		return -EFBIG;
	m->budget -= length + REMOTE_READ_COST;
	return m->read(m->arg, addr, to, length);
}

/* A cache while it is read: copies of its struct and of its threads' ones.  Their pointers are the other process's. */
struct reading {
	struct remote_memory *memory;
	struct peerdma_cache cache;
	struct thread_cache *threads;
	size_t count, most, room;
	struct remote_cache *out;
};

/* ---- regions ---- */

static int most_used_first(const void *a, const void *b)
{
	const struct remote_region *x = a, *y = b;

	if (x->gets != y->gets)
		return x->gets < y->gets ? 1 : -1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void drop_least_used(struct remote_cache *out, size_t most)
{
	if (out->region_count)
		qsort(out->regions, out->region_count, sizeof(*out->regions), most_used_first);
	if (out->region_count > most) {
		out->left_out += out->region_count - most;
		out->region_count = most;
	}
}

/* There is room for twice as many as are wanted, and those too many go when it is full. */
static int add_region(struct reading *r, const struct remote_region *region)
{
	struct remote_cache *out = r->out;

	if (out->region_count == r->room && r->room / 2 >= r->most)
		drop_least_used(out, r->most);
	if (out->region_count == r->room) {
		size_t room = r->room ? r->room * 2 : 64;
		struct remote_region *bigger = realloc(out->regions, room * sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		out->regions = bigger;
		r->room = room;
	}
	out->regions[out->region_count++] = *region;
	return 0;
}

static enum remote_guard guard_of(const struct peerdma_cache *cache, const struct region *r)
{
	uintptr_t word = (uintptr_t)r->word;

	if (!word)
		return cache->ops.check ? GUARD_CHECK : GUARD_CALLS;
	return word == cache->stats.by_hooks ? GUARD_HOOKS :
	       word == cache->stats.by_calls ? GUARD_CALLS : GUARD_WORD;
}

static bool is_shown(const struct region *r)
{
	enum state state = state_of(r->state_word);

	return (state == STATE_LIVE || state == STATE_DEAD) &&
	       r->pub.addr + r->pub.length >= r->pub.addr;
}

struct found {
	struct remote_region region;
	bool shown;
	bool settled;		/* all of it is of one time */
};

/* The threads' counts are read between two reads of the regions, which must agree. */
static int read_regions(struct reading *r, uint32_t first, uint32_t n, struct found *found)
{
	static struct region before[CHUNK], after[CHUNK];
	static struct thread_refs refs[CHUNK];
	uint64_t at = (uintptr_t)r->cache.regions + first * sizeof(before[0]);
	int ret = get(r->memory, at, before, n * sizeof(before[0]));

	for (uint32_t i = 0; i < n; i++) {
		found[i].shown = is_shown(&before[i]);
		found[i].region = (struct remote_region){
			.addr = before[i].pub.addr, .length = before[i].pub.length,
			.gets = before[i].gets,
			.holds = before[i].refs, .guard = guard_of(&r->cache, &before[i]),
			.aperture = before[i].state_word & STATE_BAR1,
			.dead = state_of(before[i].state_word) == STATE_DEAD,
		};
	}
	for (size_t t = 0; !ret && t < r->count; t++) {
		const struct thread_cache *thread = &r->threads[t];
		uint32_t known = first < thread->capacity ? thread->capacity - first : 0;

		known = known < n ? known : n;
		if (known)
			ret = get(r->memory, (uintptr_t)thread->refs + first * sizeof(refs[0]),
				  refs, known * sizeof(refs[0]));
		for (uint32_t i = 0; !ret && i < known; i++) {
			found[i].region.gets += inspect_gets(refs[i].count);
			found[i].region.holds += inspect_held(refs[i].count);
		}
	}
	if (!ret)
		ret = get(r->memory, at, after, n * sizeof(after[0]));
	for (uint32_t i = 0; i < n; i++) {
		found[i].region.hits = found[i].region.gets - !!found[i].region.gets;
		found[i].settled = !memcmp(&before[i], &after[i], sizeof(after[i]));
	}
	return ret;
}

/* Those that are used all the time are read again, one by one. */
static int read_chunk(struct reading *r, uint32_t first, uint32_t n)
{
	struct found found[CHUNK];
	int ret = read_regions(r, first, n, found);

	for (uint32_t i = 0; !ret && i < n; i++) {
		for (int tries = 0; !ret && !found[i].settled && tries < TRIES; tries++)
			ret = read_regions(r, first + i, 1, &found[i]);
		if (!ret && !found[i].settled)
			r->out->left_out++;
		else if (!ret && found[i].shown)
			ret = add_region(r, &found[i].region);
	}
	return ret;
}

/* ---- one cache ---- */

static void read_ended(const struct cache_stats *stats, struct remote_cache *out)
{
	static const char *const why[] = {
		[ENDED_MERGED] = "merged", [ENDED_EVICTED] = "evicted",
		[ENDED_INVALIDATED] = "invalidated", [ENDED_STALE] = "stale",
	};

	for (uint64_t n = stats->ended_count, i = 0; i < n && i < INSPECT_ENDED; i++) {
		const struct inspect_ended *e = &stats->ended[(n - 1 - i) % INSPECT_ENDED];

		if (e->why < sizeof(why) / sizeof(why[0]))
			out->ended[out->ended_count++] = (struct remote_ended){ e->addr, e->length,
				e->gets, why[e->why] };
	}
}

static bool within(const uint64_t *counts, size_t n, uint64_t max)
{
	for (size_t i = 0; i < n; i++) {
		if (counts[i] > max)
			return false;
	}
	return true;
}

/* A failure is counted after its miss: there may be one whose miss another processor does not see yet. */
static bool makes_sense(const struct cache_stats *s)
{
	const uint64_t counts[] = {
		s->bytes, s->host, s->device, s->bar1_use, s->late_hits, s->misses, s->failures,
		s->merges, s->evictions, s->retries, s->invalidations, s->stale, s->fences,
		s->gone_hits, s->gone_slot_hits,
	};
	const uint64_t regions[] = { s->count, s->dead };

	return s->used <= ENTRY_NUMBERS && within(regions, 2, s->used) &&
	       s->failures <= s->misses + 1 &&
	       within(counts, sizeof(counts) / sizeof(counts[0]), REMOTE_COUNT_MAX);
}

/* The process may change the counters while they are copied: those of two times may contradict each other. */
static int read_struct(struct reading *r, uint64_t at)
{
	int ret;

	for (int tries = 0; tries < TRIES; tries++) {
		ret = get(r->memory, at, &r->cache, sizeof(r->cache));
		if (ret || makes_sense(&r->cache.stats))
			return ret;
	}
	return -EBADMSG;
}

static int read_threads(struct reading *r)
{
	struct peerdma_cache_counters *counters = &r->out->counters;

	for (const struct thread_cache *at = r->cache.threads; at;
	     at = r->threads[r->count++].next) {
		int ret;

		/* At 0, 1, 2, 4, 8... threads. */
		if (!(r->count & (r->count - 1))) {
			size_t room = r->count ? r->count * 2 : 1;
			struct thread_cache *bigger = realloc(r->threads, room * sizeof(*bigger));

			if (!bigger)
				return -ENOMEM;
			r->threads = bigger;
		}
		ret = r->count == REMOTE_THREADS_MAX ? -E2BIG :
			get(r->memory, (uintptr_t)at, &r->threads[r->count], sizeof(*at));
		if (ret)
			return ret;
		if (!within((uint64_t[]){ r->threads[r->count].hits,
					  r->threads[r->count].index_hits }, 2, REMOTE_COUNT_MAX))
			return -EBADMSG;
		inspect_count_thread(r->threads[r->count].hits, r->threads[r->count].index_hits,
				     counters);
		if (!within((uint64_t[]){ counters->hits, counters->hits_front }, 2,
			    REMOTE_COUNT_MAX))
			return -EBADMSG;
	}
	return 0;
}

/* Once: -EAGAIN if threads came or went meanwhile. */
static int read_cache(struct reading *r, uint64_t at)
{
	struct peerdma_cache *cache = &r->cache;
	uint64_t changes_at = at + offsetof(struct peerdma_cache, stats.thread_changes);
	uint64_t before, after;
	uint32_t used;
	int ret = get(r->memory, changes_at, &before, sizeof(before)), err;

	if (!ret)
		ret = read_struct(r, at);
	if (ret)
		return ret;
	used = cache->stats.used;
	r->out->serial = cache_number(cache);
	inspect_count(&cache->stats, &r->out->counters);
	read_ended(&cache->stats, r->out);
	ret = read_threads(r);
	inspect_sum(&r->out->counters);
	r->out->left_out = r->most ? 0 : r->out->counters.regions;
	for (uint32_t i = 0; !ret && r->most && i < used; i += CHUNK)
		ret = read_chunk(r, i, used - i < CHUNK ? used - i : CHUNK);
	drop_least_used(r->out, r->most);
	/* Whatever was wrong, if threads came or went it may be because of that. */
	err = get(r->memory, changes_at, &after, sizeof(after));
	if (err)
		return ret ? ret : err;
	return after != before && ret != -ENOMEM ? -EAGAIN : ret;
}

/* ---- all of them ---- */

/* A list that leads back to itself has the same cache twice. */
static int too_many(const struct remote_caches *c, size_t from)
{
	for (size_t i = from; i + 1 < c->count; i++) {
		if (c->caches[i].serial == c->caches[c->count - 1].serial)
			return -EBADMSG;
	}
	return -E2BIG;
}

static int read_list(struct remote_memory *m, uint64_t at, size_t most, struct remote_caches *out)
{
	size_t before = out->count;
	struct reading r;
	int ret = 0;

	for (; !ret && at; at = (uintptr_t)r.cache.next) {
		struct remote_cache *bigger;

		if (out->count == REMOTE_CACHES_MAX)
			return too_many(out, before);
		bigger = realloc(out->caches, (out->count + 1) * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		out->caches = bigger;
		bigger += out->count++;
		*bigger = (struct remote_cache){ 0 };
		r = (struct reading){ .memory = m, .most = most, .out = bigger };
		ret = read_cache(&r, at);
		free(r.threads);
	}
	return ret;
}

static void forget(struct remote_caches *c, size_t from)
{
	while (c->count > from)
		free(c->caches[--c->count].regions);
}

int remote_caches_read(struct remote_memory *m, uint64_t page, size_t most,
		       struct remote_caches *out)
{
	static const uint16_t layout[INSPECT_FIELDS] = INSPECT_LAYOUT;
	size_t before = out->count;
	struct inspect_page p, again;
	int ret = -EAGAIN, err;

	for (int tries = 0; ret == -EAGAIN && tries < TRIES; tries++) {
		ret = get(m, page, &p, sizeof(p));
		if (ret)
			break;
		if (strncmp(p.magic, INSPECT_NAME, sizeof(p.magic)) ||
		    p.version != INSPECT_VERSION || memcmp(p.layout, layout, sizeof(layout)))
			return -EPROTO;
		ret = p.changes & 1 ? -EAGAIN : read_list(m, p.first, most, out);
		/* Whatever was wrong, a cache that was closed meanwhile may be the cause. */
		err = get(m, page, &again, sizeof(again));
		if (err)
			ret = ret ? ret : err;
		else if (again.changes != p.changes && ret != -ENOMEM)
			ret = -EAGAIN;
		if (ret)
			forget(out, before);
	}
	return ret;
}

void remote_caches_free(struct remote_caches *caches)
{
	forget(caches, 0);
	free(caches->caches);
	*caches = (struct remote_caches){ 0 };
}
