// SPDX-License-Identifier: MIT
/*
 * query.c - peerdma_query(): finds out in what kind of memory a pointer is.
 */
#include "internal.h"
#include "base/mappings.h"
#include "known_host.h"

#define CUDA_GRAIN (2UL << 20)	/* CUDA reserves addresses in multiples of this size */

static const struct peerdma_memory the_hosts = {
	.size = sizeof(the_hosts),
	.kind = PEERDMA_KIND_HOST,
	.device = -1,
	.flags = PEERDMA_MEMORY_PINNABLE,
};

/* Queries CUDA and HSA, if the address alone does not show the kind of memory. */
static int query_providers(const char *call, const void *ptr, struct peerdma_memory *m)
{
	uint64_t word = known_host_word();	/* must be read before the query */
	enum cuda_answer answer;
	int error = 0;

	answer = cuda_query(ptr, m, &error);
	switch (answer) {
	case CUDA_KNOWN:
		return 0;
	case CUDA_FAILED:
		return fail(-EIO, "%s: cuPointerGetAttributes(%p) failed with CUDA error %d; "
			    "see cuGetErrorName(), and earlier errors of this program's kernels and copies",
			    call, ptr, error);
	case CUDA_ABSENT:
	case CUDA_UNKNOWN:
		break;
	}
	if (hsa_query(ptr, m))
		return 0;
	/*
	 * Reserved device addresses and freed memory cannot be read. Readable memory is host
	 * memory.
	 */
	if (!host_readable(ptr)) {
		m->kind = PEERDMA_KIND_UNKNOWN;
		m->flags = 0;
	/* some calls that create addresses of HSA are not counted */
	} else if (answer == CUDA_UNKNOWN && !hsa_there()) {
		known_host_add(ptr, word);
	}
	return 0;
}

EXPORT int peerdma_query(struct peerdma *ctx, const void *ptr, struct peerdma_memory *out)
{
	struct peerdma_memory m;
	int error;

	(void)ctx;	/* the result depends on the process, not on the context */
	if (!out)
		return check_given("peerdma_query", "out", out, NULL);
	error = check_size("peerdma_query", out->size, MEMORY_FIRST);
	if (error)
		return error;

	if (host_for_certain(ptr) || known_host(ptr)) {
		if (out->size == sizeof(m)) {
			*out = the_hosts;	/* this path takes only a few nanoseconds */
			return 0;
		}
		m = the_hosts;
	} else {
		m = the_hosts;
		error = query_providers("peerdma_query", ptr, &m);
		if (error)
			return error;
	}
	m.size = out->size;
	put_out(out, &m, sizeof(m));
	return 0;
}

/* Whether two ranges have the same properties. */
static bool alike(const struct peerdma_memory *a, const struct peerdma_memory *b)
{
	return !a->buffer_id && !b->buffer_id && a->kind == b->kind && a->flags == b->flags &&
	       a->device == b->device;
}

/*
 * Returns the end of the range from `at` on that CUDA does not know, at most the end of the mapping
 * or of the hole that contains `at`. Memory that CUDA knows has addresses of its own, so CUDA knows
 * no address in a hole between mappings. It also knows no private memory that the CPU can read,
 * except memory that the program has page-locked. For other mappings the range ends where CUDA may
 * have begun another allocation, and the caller queries again.
 */
static uint64_t unknown_until(struct mappings *mappings, uint64_t at, uint64_t end)
{
	uint64_t next = (at | (CUDA_GRAIN - 1)) + 1;

	if ((at ^ (end - 1)) < page_size())	/* all of a page is one kind of memory */
		return end;
	if (!mappings->file && !mappings_open(mappings))
		return next;
	if (!mappings_find(mappings, at))
		return end;
	if (mappings->from > at)
		return mappings->from;
	return mappings->plain || mappings->to < next ? mappings->to : next;
}

EXPORT int peerdma_query_range(struct peerdma *ctx, const void *ptr, size_t length,
			       struct peerdma_memory *out, size_t n, size_t *count)
{
	uint64_t at = (uintptr_t)ptr, end = at + length;
	struct peerdma_memory last = { 0 };
	struct mappings mappings = { 0 };
	uint32_t size;
	size_t found = 0;
	int error;

	(void)ctx;
	error = check_given("peerdma_query_range", "out", n ? (void *)out : &size, "count", count,
			    NULL);
	if (error)
		return error;
	size = n ? out->size : sizeof(*out);
	error = check_size("peerdma_query_range", size, MEMORY_FIRST);
	if (!error)
		error = check_range("peerdma_query_range", at, length);
	if (error)
		return error;
	while (at < end) {
		struct peerdma_memory m = the_hosts;
		uint64_t next;

		error = query_providers("peerdma_query_range", (const void *)(uintptr_t)at, &m);
		if (error)
			break;
		next = m.length ? m.base + m.length : unknown_until(&mappings, at, end);
		if (next > end || next <= at)
			next = end;
		m.size = size;
		m.base = at;
		m.length = next - at;
		if (found && alike(&last, &m)) {
			m.base = last.base;
			m.length += last.length;
			found--;
		}
		if (found < n)
			put_out((char *)out + found * size, &m, sizeof(m));
		last = m;
		found++;
		at = next;
	}
	mappings_close(&mappings);
	if (!error)
		*count = found;
	return error;
}
