// SPDX-License-Identifier: MIT
/*
 * locked.c - the back-end for host memory where there is no peerdma.ko: mlock(2).
 *
 * Memory that is locked stays resident, and that is all: it may move, so no device
 * is given its address, and what is registered is a range of addresses, whatever
 * memory is there.  So it never goes stale either, and its view is the memory itself.
 *
 * mlock() does not count, so we do: pins may overlap.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend.h"
#include "cache/cache.h"

#define SEGMENTS (1U << 21)

/* A range that `count` pins hold.  Neighbours differ in it, or a pin has begun or ended between them. */
struct segment {
	uint64_t from, to;
	uint32_t count;
	uint32_t next;		/* free ones: the next's number + 1 */
};

/*
 * The process's.  Zeros are a good beginning, also in a forked child, to which it
 * is handed as such: locks of memory are not inherited either.
 */
struct table {
	pthread_mutex_t lock;
	bool begun;
	struct index index;	/* of segments, by `from` */
	uint32_t used, free;	/* free: number + 1 */
	struct segment segments[SEGMENTS];
};

_Static_assert(SEGMENTS < INDEX_NONE, "numbers of segments");
static struct table *table;
static void *nodes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* By number: sanitizers put functions that do nothing in the place of the C library's. */
static void unlock_pages(uint64_t from, uint64_t to)
{
	syscall(SYS_munlock, from, to - from);
}

static int lock_pages(uint64_t from, uint64_t to)
{
	int error;

	if (!syscall(SYS_mlock, from, to - from))
		return 0;
	error = -errno;
	unlock_pages(from, to);		/* it may have come some way */
	return error;
}

static void table_make(void)
{
	nodes = memory_get(index_size(SEGMENTS), true);
	table = memory_get(sizeof(*table), true);
	if (!nodes) {
		memory_put(table, sizeof(*table));
		table = NULL;
	}
}

static bool table_lock(void)
{
	pthread_once(&once, table_make);
	if (!table)
		return false;
	pthread_mutex_lock(&table->lock);
	if (!table->begun) {
		index_init(&table->index, nodes, SEGMENTS);
		table->begun = true;
	}
	return true;
}

/* The segment that covers x, or NULL. */
static struct segment *covering(uint64_t x)
{
	uint32_t n = index_seek(&table->index, x);
	struct segment *s = n == INDEX_NONE ? NULL : &table->segments[n];

	return s && x < s->to ? s : NULL;
}

static bool segment_add(uint64_t from, uint64_t to, uint32_t count)
{
	uint32_t n = table->free;
	struct segment *s;

	if (n)
		table->free = table->segments[--n].next;
	else if (table->used < SEGMENTS)
		n = table->used++;
	else
		return false;
	s = &table->segments[n];
	*s = (struct segment){ .from = from, .to = to, .count = count };
	index_insert(&table->index, from, n);
	return true;
}

static void segment_drop(struct segment *s)
{
	index_remove(&table->index, s->from);
	s->next = table->free;
	table->free = (uint32_t)(s - table->segments) + 1;
}

/* Sees to it that no segment stands across x. */
static bool split(uint64_t x)
{
	struct segment *s = covering(x);
	uint64_t to;

	if (!s || s->from == x)
		return true;
	to = s->to;
	s->to = x;
	if (segment_add(x, to, s->count))
		return true;
	s->to = to;
	return false;
}

/* No pin ends here any more, perhaps. */
static void join(uint64_t x)
{
	struct segment *right = covering(x), *left = x ? covering(x - 1) : NULL;

	if (!left || !right || left == right || left->count != right->count)
		return;
	left->to = right->to;
	segment_drop(right);
}

/* What had been joined is split again.  If there is no segment for that it stays locked, and no harm is done. */
static void release(uint64_t from, uint64_t to)
{
	uint64_t at = from;

	if (!split(from) || !split(to))
		return;
	while (at < to) {
		struct segment *s = covering(at);

		at = s->to;
		if (--s->count)
			continue;
		unlock_pages(s->from, s->to);
		segment_drop(s);
	}
	join(from);
	join(to);
}


static bool take_first(void *first, uint32_t n)
{
	*(uint64_t *)first = table->segments[n].from;
	return false;
}

/* One more step of holding [at, to): through a segment, or the gap before the next.  *next: how far it came. */
static int hold_step(uint64_t at, uint64_t to, uint64_t *next)
{
	struct segment *s = covering(at);
	int ret;

	if (s) {
		s->count++;
		*next = s->to;
		return 0;
	}
	*next = to;
	index_visit(&table->index, at, to, take_first, next);
	ret = lock_pages(at, *next);
	if (!ret && !segment_add(at, *next, 1)) {
		unlock_pages(at, *next);
		ret = -ENOSPC;
	}
	return ret;
}

static int hold(uint64_t from, uint64_t to)
{
	int ret = split(from) && split(to) ? 0 : -ENOSPC;
	uint64_t at = from, next;

	while (!ret && at < to) {
		ret = hold_step(at, to, &next);
		if (!ret)
			at = next;
	}
	if (ret) {
		release(from, at);
		join(to);
	}
	return ret;
}

/* ---- the back-end ---- */

static int failed(int error, const struct peerdma_region *region, uint64_t from)
{
	struct rlimit limit = { 0 };

	switch (error) {
	case -ENOSPC:
		return fail(-EMFILE, "this process has %u pieces of memory locked; unpin some", SEGMENTS);
	case -ENOMEM:
		/* mlock() says so of memory that is not there, too. */
		if (msync((void *)(uintptr_t)from, region->pinned_length, MS_ASYNC) ||
		    !host_readable((void *)(uintptr_t)region->addr) ||
		    !host_readable((void *)(uintptr_t)(region->addr + region->length - 1)))
			return fail(-EFAULT, "part of the range has no memory behind it");
		/* fall through */
	case -EPERM:
		getrlimit(RLIMIT_MEMLOCK, &limit);
		return fail(-ENOMEM, "the locked-memory limit ('ulimit -l', RLIMIT_MEMLOCK: %llu bytes) is used up",
			    (unsigned long long)limit.rlim_cur);
	default:
		return fail(-ENOMEM, "mlock: %s", strerror(-error));
	}
}

static int locked_pin(struct peerdma_region *region)
{
	struct peerdma_memory m = { .kind = PEERDMA_KIND_HOST };
	uint64_t from = region->addr & ~(page_size() - 1), to = (region->addr + region->length + page_size() - 1) & ~(page_size() - 1);
	int ret, error;

	if (region->flags & PEERDMA_DEVICE)
		return fail(-ENXIO, "has no GPU memory");
	if (region->flags & PEERDMA_PERSISTENT)
		return fail(-EOPNOTSUPP, "has no persistent pins");
	if (to <= from)
		return fail(-EFAULT, "part of the range has no memory behind it");
	if (!(region->flags & PEERDMA_HOST) && cuda_query((void *)(uintptr_t)region->addr, &m, &error) == CUDA_KNOWN &&
	    m.kind != PEERDMA_KIND_HOST)
		return fail(-ENXIO, "is for host memory, this is a GPU's");
	if (!table_lock())
		return fail(-ENOMEM, "out of memory");
	ret = hold(from, to);
	pthread_mutex_unlock(&table->lock);
	region->pinned_length = to - from;
	if (ret)
		return failed(ret, region, from);
	region->offset = region->addr - from;
	region->page_size = (uint32_t)page_size();
	region->validity.slot = &region->word;
	region->provider = "host";
	return 0;
}

static int locked_unpin(struct peerdma_region *region)
{
	uint64_t from = region->addr - region->offset;

	table_lock();
	release(from, from + region->pinned_length);
	pthread_mutex_unlock(&table->lock);
	return 0;
}

static int locked_status(struct peerdma_region *region, struct peerdma_status *status)
{
	(void)region;
	status->flags |= PEERDMA_HOST;
	return 0;
}

static int locked_view(struct peerdma_region *region, bool writable, void **base)
{
	(void)writable;
	*base = (void *)(uintptr_t)(region->addr - region->offset);
	return 0;
}

static void locked_view_end(struct peerdma_region *region, void *base)
{
	(void)region;
	(void)base;
}

const struct backend backend_locked = {
	.name = "host",
	.pin = locked_pin,
	.unpin = locked_unpin,
	.status = locked_status,
	.view = locked_view,
	.view_end = locked_view_end,
};
