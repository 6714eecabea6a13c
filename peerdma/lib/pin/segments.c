// SPDX-License-Identifier: MIT
/*
 * segments.c - regions of several pins, for ranges that span allocations, if the back-end pins only
 * one allocation at a time.
 *
 * The part in each allocation is a segment: a region that the back-end pins, and that is in none of
 * the context's lists. A mapping, view or export of the whole region consists of one for each
 * segment.
 *
 * The whole becomes invalid at the same moment as any segment. A back-end that calls
 * region_revoked() before the memory goes away changes the word of the whole in that call. The
 * kernel changes the word of each pin first. So with the kernel back-end the whole refers to all
 * these words (region->words), and is valid while all are unchanged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend.h"

/* ---- pinning ---- */

/* Frees a segment without mappings, views or MRs. */
static void segment_free(struct peerdma_region *s)
{
	free(s->allocations);
	free(s);
}

static int pin_segment(struct peerdma_region *whole, const struct backend *backend,
		       const struct allocation *piece)
{
	struct peerdma_region *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return fail(-ENOMEM, "out of memory");
	s->ctx = whole->ctx;
	s->addr = piece->addr;
	s->length = piece->length;
	s->flags = whole->flags | PEERDMA_DEVICE;
	s->cached = whole->cached;
	region_set_backend(s, backend);
	s->whole = whole;
	s->one = s;
	ret = backend->pin(s);
	if (!ret) {
		whole->segments[whole->segment_count++] = s;
		return 0;
	}
	segment_free(s);
	/* The allocation existed when the range was queried, and was freed since. */
	if (ret == -ENXIO && piece->id && !cuda_has_id(piece->addr, piece->id))
		return fail(-ESTALE, "allocation %zu of %zu was freed meanwhile",
			    whole->segment_count + 1, whole->allocation_count);
	return fail(ret, "allocation %zu of the %zu that the range spans: %s",
		    whole->segment_count + 1, whole->allocation_count, peerdma_last_error());
}

static void undo(struct peerdma_region *whole)
{
	for (size_t i = 0; i < whole->segment_count; i++) {
		whole->segments[i]->backend->unpin(whole->segments[i]);
		segment_free(whole->segments[i]);
	}
	free(whole->segments);
	whole->segments = NULL;
	whole->segment_count = 0;
	whole->revoked = false;
	whole->word = 0;
}

static int pin_all(struct peerdma_region *whole, const struct backend *backend)
{
	const struct peerdma_region *first, *last;
	int ret = 0;

	whole->segments = calloc(whole->allocation_count, sizeof(struct peerdma_region *));
	if (!whole->segments)
		return fail(-ENOMEM, "out of memory");
	/* Set before the first segment is pinned, because the segment may be revoked at once. */
	whole->validity.slot = &whole->word;
	for (size_t i = 0; !ret && i < whole->allocation_count; i++)
		ret = pin_segment(whole, backend, &whole->allocations[i]);
	if (!ret && __atomic_load_n(&whole->revoked, __ATOMIC_ACQUIRE))
		ret = fail(-ESTALE, "part of the memory was freed meanwhile");
	first = whole->segments[0];
	if (!ret && first->validity.slot != &first->word && !words_make(whole))
		ret = fail(-ENOMEM, "out of memory");
	if (ret) {
		char why[512];

		snprintf(why, sizeof(why), "%s", peerdma_last_error());
		undo(whole);
		return fail(ret, "%s", why);
	}
	last = whole->segments[whole->segment_count - 1];
	whole->offset = first->offset;
	whole->pinned_length = last->addr - last->offset + last->pinned_length -
			       (first->addr - first->offset);
	whole->page_size = first->page_size;
	whole->provider = first->provider;
	whole->ends = first->ends;
	whole->validity.several = !!whole->words;
	/*
	 * The region's own word must never match here: programs built before `several` existed
	 * check only this word, and frees may be unreported. The word is 0, or 1 if a segment was
	 * just revoked, or 3 if that happens later.
	 */
	if (whole->words ||
	    (whole->ends == ENDS_UNREPORTED && !(whole->flags & PEERDMA_PERSISTENT)))
		whole->validity.generation = 2;
	whole->backend = &backend_segments;
	return 0;
}

int segments_or_one(struct peerdma_region *region, const struct backend *backend)
{
	int ret = backend->pin(region);
	bool holes = false;
	char why[512];

	if (ret != -ENXIO || region->flags & PEERDMA_HOST || !backend->one_allocation)
		return ret;
	snprintf(why, sizeof(why), "%s", peerdma_last_error());
	ret = allocations_find(region, &holes);
	if (ret == -ENOMEM || (ret && holes))
		return ret;
	/* several allocations were not the reason of the error */
	if (ret || region->allocation_count < 2)
		return fail(-ENXIO, "%s", why);
	return pin_all(region, backend);
}

/*
 * If the kernel refuses an unpin, that segment stays pinned and a later call tries again; the whole
 * is invalid by then. Segments are freed with the whole region, because a revocation of one segment
 * may read the others.
 */
static int segments_unpin(struct peerdma_region *region)
{
	char why[256];
	int ret = 0, error;

	views_free(region);
	for (size_t i = 0; i < region->segment_count; i++) {
		struct peerdma_region *s = region->segments[i];

		if (s->ended)
			continue;
		error = s->backend->unpin(s);
		s->ended = !error;
		if (error) {
			ret = error;
			snprintf(why, sizeof(why), "%s", peerdma_last_error());
		}
	}
	return ret ? fail(ret, "%s", why) : 0;
}

static int segments_status(struct peerdma_region *region, struct peerdma_status *status)
{
	for (size_t i = 0; i < region->segment_count; i++) {
		struct peerdma_status s = { .size = sizeof(s) };
		int ret;

		if (region->segments[i]->ended) {
			status->state = PEERDMA_STATE_REVOKED;
			continue;
		}
		ret = region_facts(region->segments[i], &s);
		if (ret)
			return ret;
		if (s.state != PEERDMA_STATE_LIVE)
			status->state = s.state;
		status->exports += s.exports;
		status->flags |= s.flags;
		status->direct = s.direct;
		memcpy(status->provider, s.provider, sizeof(status->provider));
		memcpy(status->backend, s.backend, sizeof(status->backend));
	}
	return 0;
}

/* ---- for a device ---- */

static void unmap_all(struct peerdma_mapping **mappings, size_t n)
{
	while (n--) {
		mappings[n]->region->backend->unmap(mappings[n]);
		free(mappings[n]);
	}
}

/*
 * Joins the ranges of all segments. Pinned pages may extend beyond a segment. The first and the
 * last segment contribute this extension at the outer end; elsewhere only the requested part
 * counts.
 */
static size_t join_ranges(const struct peerdma_region *whole, struct peerdma_mapping *const *each,
			  struct peerdma_range *out)
{
	size_t n = 0;

	for (size_t i = 0; i < whole->segment_count; i++) {
		const struct peerdma_region *s = whole->segments[i];
		uint64_t skip = i ? s->offset : 0, left = i + 1 < whole->segment_count ?
								  s->offset + s->length :
								  s->pinned_length;

		left -= skip;
		for (size_t j = 0; j < each[i]->count && left; j++) {
			struct peerdma_range r = each[i]->ranges[j];

			if (skip >= r.length) {
				skip -= r.length;
				continue;
			}
			r.addr += skip;
			r.length -= skip;
			skip = 0;
			if (r.length > left)
				r.length = left;
			left -= r.length;
			out[n++] = r;
		}
	}
	return n;
}

static int segments_map(struct peerdma_region *region, const char *pci,
			struct peerdma_map_args *args, struct peerdma_mapping **out)
{
	size_t n = region->segment_count, total = 0, i;
	struct peerdma_mapping **each = calloc(n, sizeof(struct peerdma_mapping *)), *m;
	int ret = each ? 0 : fail(-ENOMEM, "peerdma_map: out of memory");

	for (i = 0; !ret && i < n; i++) {
		struct peerdma_region *s = region->segments[i];
		struct peerdma_map_args own = *args;

		ret = s->backend->map ? s->backend->map(s, pci, &own, &each[i]) :
		      backend_cannot(s, "peerdma_map", "addresses for devices");
		if (ret)
			break;
		each[i]->region = s;
		each[i]->each = NULL;
		total += each[i]->count;
	}
	m = ret ? NULL : malloc(sizeof(*m) + total * sizeof(m->ranges[0]));
	if (!ret && !m)
		ret = fail(-ENOMEM, "peerdma_map: out of memory");
	if (ret) {
		unmap_all(each, i);
		free(each);
		return ret;
	}
	m->each = each;
	m->each_count = n;
	m->count = join_ranges(region, each, m->ranges);
	*out = m;
	return 0;
}

static int segments_unmap(struct peerdma_mapping *mapping)
{
	while (mapping->each_count) {
		struct peerdma_mapping *last = mapping->each[mapping->each_count - 1];
		int ret = last->region->backend->unmap(last);

		if (ret)
			return ret;
		free(last);
		mapping->each_count--;
	}
	return 0;
}

/* ---- for the CPU ---- */

static uint64_t first_byte(const struct peerdma_region *region)
{
	return region->addr - region->offset;
}

static void view_end(struct peerdma_region *region, size_t n, char *base)
{
	for (size_t i = 0; i < n; i++) {
		struct peerdma_region *s = region->segments[i];

		s->backend->view_end(s, base + (first_byte(s) - first_byte(region)));
	}
}

static void segments_view_end(struct peerdma_region *region, void *base)
{
	view_end(region, region->segment_count, base);
}

/*
 * Whether the pinned pages of the segments are adjacent. If one page contains the end of a segment
 * and the beginning of the next, no view can show both.
 */
static bool is_contiguous(const struct peerdma_region *region)
{
	uint64_t at = first_byte(region);

	for (size_t i = 0; i < region->segment_count; i++) {
		const struct peerdma_region *s = region->segments[i];

		if (!s->backend->view_at || first_byte(s) != at)
			return false;
		at += s->pinned_length;
	}
	return true;
}

static int segments_view(struct peerdma_region *region, bool writable, void **out)
{
	size_t i = 0, done = 0;
	char *base;
	int ret = 0;

	if (!is_contiguous(region))
		return fail(-EOPNOTSUPP,
			    "peerdma_cpu_view: the region has %zu pins, which cannot be mapped as one; view each of "
			    "peerdma_segments()",
			    region->segment_count);
	base = mmap(NULL, region->pinned_length, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return fail(-ENOMEM, "peerdma_cpu_view: no address space for it");
	for (; !ret && i < region->segment_count; i++) {
		struct peerdma_region *s = region->segments[i];

		ret = s->backend->view_at(s, writable, base + done);
		if (ret)
			break;
		done += s->pinned_length;
	}
	if (ret) {
		view_end(region, i, base);
		munmap(base + done, region->pinned_length - done);
		return ret;
	}
	*out = base;
	return 0;
}

/* ---- as a dma-buf ---- */

/* Returns the segment that contains the whole range. NULL: none. */
static struct peerdma_region *find_segment(const struct peerdma_region *region, uint64_t from,
					   uint64_t length)
{
	for (size_t i = 0; i < region->segment_count; i++) {
		struct peerdma_region *s = region->segments[i];

		if (from >= first_byte(s) && length <= s->pinned_length &&
		    from - first_byte(s) <= s->pinned_length - length)
			return s;
	}
	return NULL;
}

static int fail_no_dmabuf(const struct peerdma_region *region, const char *why)
{
	return fail(-EOPNOTSUPP, "peerdma_export_dmabuf: no single dma-buf can cover the %zu allocations (%s); export each of "
		    "peerdma_segments()", region->segment_count, why);
}

/* Checks CUDA's buffer ids and the words: the kernel may not have been notified of a free yet. */
static bool all_valid(const struct peerdma_region *region)
{
	if (region->cached)
		return region_usable(region);
	return allocations_valid(region, region->addr, region->length) &&
	       (region->ends == ENDS_UNREPORTED || peerdma_valid(region));
}

/* Exports the range by CUDA, and then checks that the pinned memory still exists. */
static int export_all(struct peerdma_region *region, uint64_t from, uint64_t length, int *fd)
{
	int error = 0, ret;

	switch (cuda_dmabuf(from, length, fd, &error)) {
	case CUDA_KNOWN:
		break;
	case CUDA_ABSENT:
		return fail_no_dmabuf(region, "this libcuda has none");
	default:
		ret = cuda_dmabuf_error(error);
		if (ret == -ENOMEM)
			return fail(ret, "peerdma_export_dmabuf: %s", peerdma_last_error());
		if (!all_valid(region))
			return fail(-ESTALE, "peerdma_export_dmabuf: part of the memory was freed");
		return fail_no_dmabuf(region, peerdma_last_error());
	}
	if (all_valid(region))
		return 0;
	sys_close(*fd);
	return fail(-ESTALE, "peerdma_export_dmabuf: part of the memory was freed");
}

static int segments_export(struct peerdma_region *region, uint64_t offset, uint64_t length, int *fd)
{
	uint64_t from = first_byte(region) + offset;
	struct peerdma_region *s;
	int ret;

	if (!offset && !length)
		length = region->pinned_length;
	ret = check_export(region, offset, length);
	if (ret)
		return ret;
	s = find_segment(region, from, length);
	if (s && s->backend->export)
		return s->backend->export(s, from - first_byte(s), length, fd);
	return export_all(region, from, length, fd);
}

const struct backend backend_segments = {
	.name = "segments",
	.pin = NULL,
	.unpin = segments_unpin,
	.status = segments_status,
	.map = segments_map,
	.unmap = segments_unmap,
	.view = segments_view,
	.view_end = segments_view_end,
	.export = segments_export,
};
