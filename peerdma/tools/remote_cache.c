// SPDX-License-Identifier: MIT
/*
 * remote_cache.c - see remote_cache.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/cache/inspect.h"
#include "remote_cache.h"

_Static_assert(REMOTE_ENDED_MAX == INSPECT_ENDED, "all that the cache keeps");

#define TRIES		50
#define CHUNK		512U		/* regions at a time */
#define THREADS_MAX	65536U
#define USED_MAX	(1U << 24)	/* the library's greatest capacity */

static int get(struct remote_memory *m, uint64_t addr, void *to, size_t length)
{
	if (m->budget < length + REMOTE_READ_COST)
		return -EFBIG;
	m->budget -= length + REMOTE_READ_COST;
	return m->read(m->arg, addr, to, length);
}

/* ---- regions ---- */

/* Those with most gets, in a heap whose root has fewest. */
struct top {
	struct remote_region *heap;
	size_t count, room, most;
	uint64_t left_out;
};

static bool less(const struct remote_region *a, const struct remote_region *b)
{
	return a->gets != b->gets ? a->gets < b->gets : a->addr > b->addr;
}

static void swap(struct remote_region *a, struct remote_region *b)
{
	struct remote_region t = *a;

	*a = *b;
	*b = t;
}

static void sift_down(struct remote_region *heap, size_t count, size_t i)
{
	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++) {
			if (less(&heap[child], &heap[least]))
				least = child;
		}
		if (least == i)
			return;
		swap(&heap[i], &heap[least]);
		i = least;
	}
}

static int top_add(struct top *top, const struct remote_region *r)
{
	if (top->count == top->most) {
		top->left_out++;
		if (top->most && less(&top->heap[0], r)) {
			top->heap[0] = *r;
			sift_down(top->heap, top->count, 0);
		}
		return 0;
	}
	if (top->count == top->room) {
		size_t room = top->room ? top->room * 2 : 64;
		struct remote_region *bigger = realloc(top->heap, room * sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		top->heap = bigger;
		top->room = room;
	}
	top->heap[top->count] = *r;
	for (size_t i = top->count++; i && less(&top->heap[i], &top->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&top->heap[i], &top->heap[(i - 1) / 2]);
	return 0;
}

static int most_used_first(const void *a, const void *b)
{
	return less(a, b) ? 1 : less(b, a) ? -1 : 0;
}

static enum remote_guard guard_of(const struct inspect_cache *cache, const struct inspect_region *r)
{
	if (!r->word)
		return cache->has_check ? GUARD_CHECK : GUARD_CALLS;
	return r->word == cache->by_hooks ? GUARD_HOOKS : r->word == cache->by_calls ? GUARD_CALLS : GUARD_WORD;
}

/* The refs of a thread, of the first so many regions. */
struct refs_at {
	uint64_t at;
	uint32_t capacity;
};

static bool is_shown(const struct inspect_region *r)
{
	uint64_t state = r->state_word & INSPECT_STATE;

	return (state == INSPECT_LIVE || state == INSPECT_DEAD) && r->addr + r->length >= r->addr;
}

/*
 * Reads n regions, from `first` on, as they were at one time: the threads' counts are read between two reads of the
 * regions, which must agree.
 */
static int read_chunk(struct remote_memory *m, const struct inspect_cache *cache, const struct refs_at *refs,
		      size_t threads, uint32_t first, uint32_t n, struct top *top)
{
	static struct inspect_region before[CHUNK], after[CHUNK];
	static struct inspect_refs of_one[CHUNK];
	struct remote_region found[CHUNK];
	uint64_t at = cache->regions + (uint64_t)first * sizeof(before[0]);
	int ret = get(m, at, before, n * sizeof(before[0]));

	for (uint32_t i = 0; i < n; i++) {
		found[i] = (struct remote_region){
			.addr = before[i].addr, .length = before[i].length, .gets = before[i].gets,
			.holds = before[i].refs, .guard = guard_of(cache, &before[i]), .aperture = before[i].state_word & INSPECT_BAR1,
			.dead = (before[i].state_word & INSPECT_STATE) == INSPECT_DEAD,
		};
	}
	for (size_t t = 0; !ret && t < threads; t++) {
		uint32_t known = first < refs[t].capacity ? refs[t].capacity - first : 0;

		known = known < n ? known : n;
		if (known)
			ret = get(m, refs[t].at + (uint64_t)first * sizeof(of_one[0]), of_one, known * sizeof(of_one[0]));
		for (uint32_t i = 0; !ret && i < known; i++) {
			found[i].gets += inspect_gets(of_one[i].count);
			found[i].holds += inspect_held(of_one[i].count);
		}
	}
	for (uint32_t i = 0; i < n; i++)
		found[i].hits = found[i].gets - !!found[i].gets;
	if (!ret)
		ret = get(m, at, after, n * sizeof(after[0]));
	if (!ret && memcmp(before, after, n * sizeof(after[0]))) {
		if (n == 1)
			return -EAGAIN;
		/* One by one, then, for those that are used all the time. */
		for (uint32_t i = 0; !ret && i < n; i++) {
			int tries = 0;

			do
				ret = read_chunk(m, cache, refs, threads, first + i, 1, top);
			while (ret == -EAGAIN && ++tries < TRIES);
			if (ret == -EAGAIN) {
				top->left_out++;
				ret = 0;
			}
		}
		return ret;
	}
	for (uint32_t i = 0; !ret && i < n; i++) {
		if (is_shown(&before[i]))
			ret = top_add(top, &found[i]);
	}
	return ret;
}

/* ---- one cache ---- */

static void read_ended(const struct inspect_cache *cache, struct remote_cache *out)
{
	static const char *const why[] = {
		[ENDED_MERGED] = "merged", [ENDED_EVICTED] = "evicted", [ENDED_INVALIDATED] = "invalidated", [ENDED_STALE] = "stale",
	};

	out->ended_count = 0;
	for (uint64_t n = cache->ended_count, i = 0; i < n && i < INSPECT_ENDED; i++) {
		const struct inspect_ended *e = &cache->ended[(n - 1 - i) % INSPECT_ENDED];

		if (e->why < sizeof(why) / sizeof(why[0]))
			out->ended[out->ended_count++] = (struct remote_ended){ e->addr, e->length, e->gets, why[e->why] };
	}
}

/* The threads' counters, and where their refs are. */
static int read_threads(struct remote_memory *m, const struct inspect_cache *cache, struct peerdma_cache_counters *counters,
			struct refs_at **refs)
{
	size_t room = 0, n = 0;
	uint64_t at = cache->threads;

	*refs = NULL;
	while (at) {
		struct inspect_thread thread;
		int ret = n == THREADS_MAX ? -EBADMSG : get(m, at, &thread, sizeof(thread));

		if (!ret && n == room) {
			struct refs_at *bigger;

			room = room ? room * 2 : 16;
			bigger = realloc(*refs, room * sizeof(*bigger));
			if (bigger)
				*refs = bigger;
			else
				ret = -ENOMEM;
		}
		if (ret) {
			free(*refs);
			*refs = NULL;
			return ret;
		}
		inspect_count_thread(thread.slot_hits, thread.index_hits, counters);
		(*refs)[n++] = (struct refs_at){ thread.refs, thread.capacity };
		at = thread.next;
	}
	return 0;
}

/* Once: -EAGAIN if threads came or went meanwhile. */
static int try_cache(struct remote_memory *m, uint64_t at, size_t most, struct remote_cache *out, uint64_t *next)
{
	struct inspect_cache cache, again;
	struct top top = { .most = most };
	struct refs_at *refs = NULL;
	int ret = get(m, at, &cache, sizeof(cache));

	if (ret)
		return ret;
	memset(out, 0, sizeof(*out));
	out->serial = cache.number;
	inspect_count(&cache, &out->counters);
	read_ended(&cache, out);
	*next = cache.next;
	ret = read_threads(m, &cache, &out->counters, &refs);
	inspect_sum(&out->counters);
	if (!ret && (cache.used > cache.capacity || cache.capacity > USED_MAX))
		ret = -EBADMSG;
	top.left_out = most ? 0 : out->counters.regions;
	for (uint32_t i = 0; !ret && most && i < cache.used; i += CHUNK)
		ret = read_chunk(m, &cache, refs, out->counters.threads, i, cache.used - i < CHUNK ? cache.used - i : CHUNK,
				 &top);
	free(refs);
	/* Whatever was wrong, if threads came or went it may be because of that. */
	if (!get(m, at, &again, sizeof(again)) && again.number == cache.number && again.thread_changes != cache.thread_changes)
		ret = ret == -ENOMEM ? ret : -EAGAIN;
	if (ret) {
		free(top.heap);
		return ret;
	}
	if (top.count)
		qsort(top.heap, top.count, sizeof(*top.heap), most_used_first);
	out->regions = top.heap;
	out->region_count = top.count;
	out->left_out = top.left_out;
	return 0;
}

static int read_cache(struct remote_memory *m, uint64_t at, size_t most, struct remote_cache *out, uint64_t *next)
{
	int ret = -EAGAIN;

	for (int tries = 0; ret == -EAGAIN && tries < TRIES; tries++)
		ret = try_cache(m, at, most, out, next);
	return ret;
}

/* ---- all of them ---- */

static int try_list(struct remote_memory *m, uint64_t first, size_t most, struct remote_caches *out)
{
	uint64_t at = first;

	while (at) {
		struct remote_cache *bigger;
		int ret = out->count == REMOTE_CACHES_MAX ? -EBADMSG : 0;

		bigger = ret ? NULL : realloc(out->caches, (out->count + 1) * sizeof(*bigger));
		if (!bigger)
			return ret ? ret : -ENOMEM;
		out->caches = bigger;
		ret = read_cache(m, at, most, &bigger[out->count], &at);
		if (ret)
			return ret;
		out->count++;
	}
	return 0;
}

static void forget(struct remote_caches *c, size_t from)
{
	while (c->count > from)
		free(c->caches[--c->count].regions);
}

int remote_caches_read(struct remote_memory *m, uint64_t page, size_t most, struct remote_caches *out)
{
	size_t before = out->count;
	struct inspect_page p, again;
	int ret = -EAGAIN;

	for (int tries = 0; ret == -EAGAIN && tries < TRIES; tries++) {
		ret = get(m, page, &p, sizeof(p));
		if (ret)
			break;
		p.magic[sizeof(p.magic) - 1] = 0;
		if (strcmp(p.magic, INSPECT_NAME) || p.version != INSPECT_VERSION || p.size != sizeof(p))
			return -EPROTO;
		ret = p.changes & 1 ? -EAGAIN : try_list(m, p.first, most, out);
		/* Whatever was wrong, a cache that was closed meanwhile may be the cause. */
		if (!get(m, page, &again, sizeof(again)) && again.changes != p.changes && ret != -ENOMEM)
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
