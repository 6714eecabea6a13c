// SPDX-License-Identifier: MIT
/*
 * resident.c - see resident.h.
 *
 * Uses syscall(), because sanitizers replace mlock() and munlock() by functions that do nothing,
 * and the C library's msync() is a cancellation point.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mappings.h"
#include "resident.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/*
 * Calls fn for the part of each mapping in [from, to), in order, until fn returns false. False:
 * /proc is not mounted.
 */
static bool parts(uint64_t from, uint64_t to, bool (*fn)(void *arg, uint64_t from, uint64_t to),
		  void *arg)
{
	struct mappings m;
	uint64_t at = from;

	if (!mappings_open(&m))
		return false;
	while (at < to && mappings_find(&m, at) && m.from < to) {
		at = m.to;
		if (!fn(arg, m.from > from ? m.from : from, m.to < to ? m.to : to))
			break;
	}
	mappings_close(&m);
	return true;
}

static bool unlock_part(void *unused, uint64_t from, uint64_t to)
{
	(void)unused;
	syscall(SYS_munlock, from, to - from);
	return true;
}

/* munlock() stops at the first page that is not mapped. */
void resident_unlock(uint64_t from, uint64_t to)
{
	if (syscall(SYS_munlock, from, to - from))
		parts(from, to, unlock_part, NULL);
}

int resident_lock(uint64_t from, uint64_t to)
{
	int error;

	if (!syscall(SYS_mlock, from, to - from))
		return 0;
	error = -errno;
	resident_unlock(from, to); /* mlock() may have locked a part before it failed */
	return error;
}

bool resident_writable(uint64_t from, uint64_t to)
{
	struct mappings m;
	bool writable = true;

	/* Faults in each page for writing, as the kernel does for a pin. */
	if (!syscall(SYS_madvise, from, to - from, MADV_POPULATE_WRITE))
		return true;
	/* The range is not writable, or the kernel does not know MADV_POPULATE_WRITE. */
	if (!mappings_open(&m))
		return true;
	for (uint64_t at = from; writable && at < to && mappings_find(&m, at) && m.from < to;
	     at = m.to)
		writable = m.writable;
	mappings_close(&m);
	return writable;
}

/*
 * POSIX: "EBUSY: some or all of the addresses [...] are locked, and MS_INVALIDATE is set". On Linux
 * the flag has no other effect.
 */
bool resident_any(uint64_t from, uint64_t to)
{
	return syscall(SYS_msync, from, to - from, MS_ASYNC | MS_INVALIDATE) && errno == EBUSY;
}

uint64_t resident_none_to(uint64_t from, uint64_t to)
{
	uint64_t page = (uint64_t)getpagesize(), middle;

	if (!resident_any(from, to))
		return to;
	if (resident_any(from, from + page))
		return from;
	/* Binary search: no page before `from` is locked, and a page before `to` is. */
	while (to - from > page) {
		middle = from + (to - from) / page / 2 * page;
		if (resident_any(from, middle))
			to = middle;
		else
			from = middle;
	}
	return from;
}

static bool part_locked(void *arg, uint64_t from, uint64_t to)
{
	uint64_t *at = arg;

	if (from != *at || !resident_any(from, to))
		return false;
	*at = to;
	return true;
}

bool resident_all(uint64_t from, uint64_t to)
{
	uint64_t at = from;

	if (!resident_any(from, to))
		return false;
	return !parts(from, to, part_locked, &at) || at == to;
}

static bool first_end(void *end, uint64_t from, uint64_t to)
{
	(void)from;
	*(uint64_t *)end = to;
	return false;
}

uint64_t resident_end(uint64_t from, uint64_t to)
{
	uint64_t end = to;

	parts(from, to, first_end, &end);
	return end;
}
