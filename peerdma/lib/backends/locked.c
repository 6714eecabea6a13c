// SPDX-License-Identifier: MIT
/*
 * locked.c - the back-end for host memory without peerdma.ko: mlock(2).
 *
 * Locked memory stays resident, but the kernel may move it in RAM. So there are no device
 * addresses, and a view is the memory itself. A pin belongs to a range of addresses.
 *
 * mlock() does not count, so the segments below do, and pins may overlap. Pages that the program
 * had locked before the pin (`ours` is false) stay locked after the unpin. If the program locks or
 * unlocks pages while they are pinned, this is not noticed.
 *
 * If pinned memory was replaced by other memory and nothing reported it, it is detected later,
 * because new memory is not locked. A pin checks this before it shares a segment, and locks the new
 * memory under a later `turn`. Pins of earlier turns are then revoked. locked_status() checks, too.
 * With a monitor of host memory, each event leads to a check. Pages that are found locked after
 * that were locked by the program (drop_replaced()). Events arrive inside malloc() and in signal
 * handlers, so a thread blocks signals while it holds the lock.
 *
 * A segment counts only the pins of the memory that is there now: a pin is counted in a segment if
 * and only if the segment's turn is not later than the pin's. Where memory was replaced, the count
 * starts again. So the end of an older pin changes nothing there.
 *
 * No thread holds the lock across a system call. While a thread locks or unlocks the pages of a
 * segment, the segment is `busy`. It then belongs to this thread, and other threads wait for it. A
 * thread waits only while it has no busy segment itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "backend.h"
#include "base/component.h"
#include "base/index.h"
#include "base/memory.h"
#include "base/order.h"
#include "monitor/monitor.h"
#include "resident.h"

/* above the maximum of mappings (vm.max_map_count), unless that was raised */
#define SEGMENTS (1U << 18)

/*
 * A range held by `count` pins. Neighbouring segments differ in a field, or a pin begins or ends
 * between them.
 */
struct segment {
	uint64_t from, to;
	uint64_t turn;		/* the turn in which the pages were locked and the count started */
	union {
		uint32_t count;
		uint32_t next;	/* in a free segment: number of the next + 1 */
	};
	bool ours;		/* the library locked it, not the program */
	bool busy;
};

/*
 * The table of this process. All zeros is a valid initial state. A forked child gets zeros, too,
 * and does not inherit memory locks either.
 */
struct table {
	pthread_mutex_t lock;
	pthread_cond_t idle;	/* signalled when a segment stops being busy or is removed */
	bool begun;
	uint64_t turn;		/* the last turn */
	struct index index;	/* segments by `from` */
	uint32_t used, free;	/* free: number + 1 */
	struct segment segments[SEGMENTS];
};

_Static_assert(SEGMENTS < INDEX_NONE, "numbers of segments");
static struct table *table;
static void *nodes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void table_make(void)
{
	nodes = memory_get(index_size(SEGMENTS), true);
	table = memory_get(sizeof(*table), true);
	if (!nodes || !table) {
		memory_put(table, sizeof(*table));
		table = NULL;
	}
}

/* Disables cancellation and signals while a thread holds the lock or a busy segment. */
struct undisturbed {
	sigset_t signals;
	int cancel;
};

static void undisturbed_begin(struct undisturbed *was)
{
	sigset_t all;

	sigfillset(&all);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was->cancel);
	pthread_sigmask(SIG_SETMASK, &all, &was->signals);
}

static void undisturbed_end(const struct undisturbed *was)
{
	pthread_sigmask(SIG_SETMASK, &was->signals, NULL);
	pthread_setcancelstate(was->cancel, NULL);
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

/* Returns the segment that contains x, or NULL. */
static struct segment *covering(uint64_t x)
{
	uint32_t n = index_seek(&table->index, x);
	struct segment *s = n == INDEX_NONE ? NULL : &table->segments[n];

	return s && x < s->to ? s : NULL;
}

static struct segment *segment_add(const struct segment *like)
{
	uint32_t n = table->free;
	struct segment *s;

	if (n)
		table->free = table->segments[--n].next;
	else if (table->used < SEGMENTS)
		n = table->used++;
	else
		return NULL;
	s = &table->segments[n];
	*s = *like;
	index_insert(&table->index, s->from, n);
	return s;
}

static void segment_drop(struct segment *s)
{
	index_remove(&table->index, s->from);
	s->next = table->free;
	table->free = (uint32_t)(s - table->segments) + 1;
}

/* Splits s at x. s must not be busy. */
static bool split(struct segment *s, uint64_t x)
{
	struct segment right = *s;

	if (x <= s->from || x >= s->to)
		return true;
	right.from = x;
	if (!segment_add(&right))
		return false;
	s->to = x;
	return true;
}

static bool alike(const struct segment *a, const struct segment *b)
{
	return a->count == b->count && a->turn == b->turn && a->ours == b->ours && !a->busy &&
	       !b->busy;
}

/*
 * Joins the segments before and after x, if they are equal. Called when a pin's boundary at x may
 * be gone.
 */
static void join(uint64_t x)
{
	struct segment *right = covering(x), *left = x ? covering(x - 1) : NULL;

	if (!left || !right || left == right || !alike(left, right))
		return;
	left->to = right->to;
	segment_drop(right);
}

/*
 * Returns the segment that contains `at`, cut to [at, to). Waits while it is busy. NULL: none, or
 * no free entry to cut it (*full).
 */
static struct segment *cut_segment(uint64_t at, uint64_t to, bool *full)
{
	struct segment *s;

	while ((s = covering(at)) && s->busy)
		pthread_cond_wait(&table->idle, &table->lock);
	*full = s && (!split(s, to) || !split(s, at));
	return s && !*full ? covering(at) : NULL;
}

/*
 * Between busy_begin() and busy_end() the segment belongs to this thread, and the lock is released.
 */
static void busy_begin(struct segment *s)
{
	s->busy = true;
	pthread_mutex_unlock(&table->lock);
}

static void busy_end(struct segment *s)
{
	pthread_mutex_lock(&table->lock);
	s->busy = false;
	pthread_cond_broadcast(&table->idle);
}

static bool take_first(void *first, uint32_t n)
{
	*(uint64_t *)first = table->segments[n].from;
	return false;
}

/* The start of the first segment at or after `at`; `to` if there is none. */
static uint64_t next_from(uint64_t at, uint64_t to)
{
	uint64_t from = to;

	if (covering(at))
		return at;
	index_visit(&table->index, at, to, take_first, &from);
	return from;
}

/*
 * Ends a pin of that turn, or a part of it. If there is no free entry to cut a segment, the range
 * stays locked, which does no harm.
 */
static void release(uint64_t from, uint64_t to, uint64_t turn)
{
	struct segment *s;
	uint64_t at = from;
	bool full = false;

	while ((at = next_from(at, to)) < to && !full) {
		s = cut_segment(at, to, &full);
		if (!s)
			continue;
		at = s->to;
		if (s->turn > turn || --s->count)
			continue;
		if (s->ours) {
			busy_begin(s);
			resident_unlock(s->from, s->to);
			busy_end(s);
		}
		segment_drop(s);
	}
	join(from);
	join(to);
}

/*
 * Makes a segment from `at` to `to`, or up to the next segment, or to where pages locked by the
 * program begin or end.
 */
static int pin_gap(uint64_t at, uint64_t to, uint64_t *next)
{
	struct segment fresh = { .from = at, .to = to, .count = 1, .ours = true,
				 .turn = table->turn + 1 }, *s;
	uint64_t end;
	int ret = 0;

	index_visit(&table->index, at, to, take_first, &fresh.to);
	s = segment_add(&fresh);
	if (!s)
		return -ENOSPC;
	table->turn++;
	busy_begin(s);
	end = s->to;
	if (resident_any(at, end)) {
		end = resident_end(at, end);
		fresh.ours = !resident_any(at, end);
	}
	if (fresh.ours)
		ret = resident_lock(at, end);
	busy_end(s);
	s->to = end;
	s->ours = fresh.ours;
	*next = end;
	if (ret)
		segment_drop(s);
	return ret;
}

/*
 * Adds a pin to a segment. If its pages are not locked any more, the memory was replaced. The
 * earlier pins are then of the old memory, and the count starts again.
 */
static int pin_existing(struct segment *s)
{
	bool lost;
	int ret = 0;

	busy_begin(s);
	lost = !resident_any(s->from, s->to);
	if (lost)
		ret = resident_lock(s->from, s->to);
	busy_end(s);
	if (ret) {
		segment_drop(s);
		return ret;
	}
	s->count++;
	if (lost) {
		s->count = 1;
		s->ours = true;
		s->turn = ++table->turn;
	}
	return 0;
}

/* The state of a pin of the given turn, by the segments of its range. */
static uint32_t state_of(uint64_t from, uint64_t to, uint64_t turn)
{
	uint32_t state = PEERDMA_STATE_LIVE;

	while (from < to) {
		const struct segment *s = covering(from);

		if (!s || s->turn > turn)
			return PEERDMA_STATE_REVOKED;
		if (!s->ours)
			state = PEERDMA_STATE_UNKNOWN;
		from = s->to;
	}
	return state;
}

/*
 * Whether another thread replaced memory of [from, at) while this thread, with the lock released,
 * pinned the segment at `at`. If no other thread has started a turn since, there is nothing to
 * check.
 */
static bool replaced_meanwhile(uint64_t from, uint64_t at, uint64_t turn)
{
	uint64_t own = covering(at)->turn > turn;

	return table->turn != turn + own && state_of(from, at, turn) == PEERDMA_STATE_REVOKED;
}

/*
 * Pins [from, to) and returns the pin's turn. The lock is released meanwhile. If another thread
 * replaces memory that is already pinned here, the pin is undone and *turn is 0: the region is
 * revoked from the start.
 */
static int pin_range(uint64_t from, uint64_t to, uint64_t *turn)
{
	uint64_t at = from, next, now = table->turn;
	struct segment *s;
	bool full;
	int ret = 0;

	while (at < to) {
		s = cut_segment(at, to, &full);
		next = s ? s->to : to;
		ret = full ? -ENOSPC : s ? pin_existing(s) : pin_gap(at, to, &next);
		if (ret || replaced_meanwhile(from, at, now))
			break;
		now = table->turn;
		at = next;
	}
	*turn = now;
	if (at < to) {
		release(from, at, now);
		if (!ret)
			release(at, next, table->turn);
		*turn = 0;
	}
	join(from);
	join(to);
	return ret;
}

/* ---- events of a monitor ---- */

/*
 * Called after memory may have been unmapped. A page that the library had locked and that is not
 * locked now is new memory, which the program may lock itself. Drops the segments of such pages:
 * their pins are revoked, and unlock nothing. Skips segments that another thread is locking or
 * unlocking. With huge pages, a range may be wider than the unmapped memory, which is then at its
 * beginning.
 */
static void drop_replaced(uint64_t at, uint64_t to)
{
	struct segment *s;
	uint64_t end;

	while ((at = next_from(at, to)) < to) {
		s = covering(at);
		if (s->busy || !s->ours || !split(s, to) || !split(s, at)) {
			at = s->to;
			continue;
		}
		s = covering(at);
		at = s->to;
		busy_begin(s);
		end = resident_none_to(s->from, s->to);
		busy_end(s);
		if (end > s->from && split(s, end))
			segment_drop(s);
	}
}

static void on_event(void *unused, const struct peerdma_hook_event *event)
{
	uint64_t mask = page_size() - 1, from = event->addr & ~mask,
		 to = (event->addr + event->length + mask) & ~mask;
	struct undisturbed was;
	int before = errno;

	(void)unused;
	if (!event->after || event->kind != PEERDMA_HOOK_FREE ||
	    !__atomic_load_n(&table->used, __ATOMIC_RELAXED))
		return;
	if (to <= from && event->length)
		to = ~mask;
	undisturbed_begin(&was);
	if (table_lock()) {
		drop_replaced(from, to);
		pthread_mutex_unlock(&table->lock);
	}
	undisturbed_end(&was);
	errno = before;
}

/* Subscribes to the monitor. If this fails, pins work as without a monitor. */
static void events_begin(void)
{
	static bool begun;

	pthread_once(&once, table_make);
	if (!table || __atomic_load_n(&begun, __ATOMIC_ACQUIRE) ||
	    monitor_subscribe(MONITOR_HOST, on_event, NULL))
		return;
	/*
	 * Pins are made only after a subscription. If another thread subscribed first, events
	 * arrived twice until here, which does no harm.
	 */
	if (__atomic_exchange_n(&begun, true, __ATOMIC_ACQ_REL))
		monitor_unsubscribe(MONITOR_HOST, on_event, NULL);
}

/* ---- the back-end ---- */

static int failed(int error, const struct peerdma_region *region, uint64_t from)
{
	struct rlimit limit = { 0 };

	switch (error) {
	case -EACCES:
		return fail(-EFAULT, "part of the range is read-only (then pass PEERDMA_READONLY)");
	case -ENOSPC:
		return fail(-EMFILE, "this process has %u pieces of memory locked; unpin some",
			    SEGMENTS);
	case -ENOMEM:
		/* mlock() also returns this errno if the range is not mapped. */
		if (msync((void *)(uintptr_t)from, region->pinned_length, MS_ASYNC) ||
		    !host_readable((void *)(uintptr_t)region->addr) ||
		    !host_readable((void *)(uintptr_t)(region->addr + region->length - 1)))
			return fail(-EFAULT, "part of the range has no memory behind it");
		/* fall through */
	case -EPERM:
		getrlimit(RLIMIT_MEMLOCK, &limit);
		return fail(-ENOMEM, "the locked-memory limit ('ulimit -l', RLIMIT_MEMLOCK: %llu bytes) is used up; raise it, or unpin some memory",
			    (unsigned long long)limit.rlim_cur);
	default:
		return fail(-ENOMEM, "mlock: %s", error_words(error));
	}
}

static int locked_pin(struct peerdma_region *region)
{
	struct peerdma_memory m = { .kind = PEERDMA_KIND_HOST };
	uint64_t from = region->addr & ~(page_size() - 1),
		 to = (region->addr + region->length + page_size() - 1) & ~(page_size() - 1);
	struct undisturbed was;
	int ret = -ENOMEM, error;

	if (region->flags & PEERDMA_DEVICE)
		return fail(-ENXIO, "has no GPU memory");
	if (region->flags & PEERDMA_PERSISTENT)
		return fail(-EOPNOTSUPP, "has no persistent pins");
	if (to <= from)
		return fail(-EFAULT, "part of the range has no memory behind it");
	if (!(region->flags & PEERDMA_HOST) &&
	    cuda_query((void *)(uintptr_t)region->addr, &m, &error) == CUDA_KNOWN &&
	    m.kind != PEERDMA_KIND_HOST)
		return fail(-ENXIO, "pins host memory only, and this is GPU memory");
	events_begin();
	undisturbed_begin(&was);
	if (table_lock()) {
		ret = pin_range(from, to, &region->host.turn);
		pthread_mutex_unlock(&table->lock);
	}
	if (!ret && !(region->flags & PEERDMA_READONLY) && !resident_writable(from, to)) {
		table_lock();
		release(from, to, region->host.turn);
		pthread_mutex_unlock(&table->lock);
		ret = -EACCES;
	}
	undisturbed_end(&was);
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
	struct undisturbed was;

	undisturbed_begin(&was);
	table_lock();
	release(from, from + region->pinned_length, region->host.turn);
	pthread_mutex_unlock(&table->lock);
	undisturbed_end(&was);
	return 0;
}

static int locked_status(struct peerdma_region *region, struct peerdma_status *status)
{
	uint64_t from = region->addr - region->offset, to = from + region->pinned_length;
	struct undisturbed was;

	status->flags |= PEERDMA_HOST;
	if (!peerdma_valid(region)) {
		status->state = PEERDMA_STATE_REVOKED;
		return 0;
	}
	undisturbed_begin(&was);
	table_lock();
	status->state = state_of(from, to, region->host.turn);
	pthread_mutex_unlock(&table->lock);
	if (status->state != PEERDMA_STATE_REVOKED && !resident_all(from, to))
		status->state = PEERDMA_STATE_REVOKED;
	undisturbed_end(&was);
	if (status->state == PEERDMA_STATE_REVOKED)
		__atomic_store_n(&region->word, region->validity.generation + 1, __ATOMIC_RELEASE);
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

static void locked_describe(struct peerdma *ctx, struct peerdma_component *c)
{
	uint64_t limit = sys_memlock_limit();

	(void)ctx;
	if (limit == UINT64_MAX)
		component_why(c, "locks host memory, without a limit on the process");
	else
		component_why(c, "locks host memory, at most %" PRIu64 " bytes (RLIMIT_MEMLOCK, 'ulimit -l')", limit);
}

const struct backend backend_locked = {
	.name = "host",
	.host = true,
	.describe = locked_describe,
	.pin = locked_pin,
	.unpin = locked_unpin,
	.status = locked_status,
	.view = locked_view,
	.view_end = locked_view_end,
};
