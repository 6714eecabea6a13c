// SPDX-License-Identifier: MIT
/*
 * resident.c - see resident.h.
 *
 * By number, not by the C library's names: those of sanitizers do nothing, and its
 * msync() is a point at which threads are cancelled.
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

/* Calls fn for the part of each mapping that is in [from, to), in order, until it says false.  False: no /proc. */
static bool parts(uint64_t from, uint64_t to, bool (*fn)(void *arg, uint64_t from, uint64_t to), void *arg)
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

/* It stops at the first page that is not mapped. */
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
	resident_unlock(from, to);		/* it may have come some way */
	return error;
}

bool resident_writable(uint64_t from, uint64_t to)
{
	struct mappings m;
	bool writable = true;

	/* As the kernel does it for a pin: each page is there for writing. */
	if (!syscall(SYS_madvise, from, to - from, MADV_POPULATE_WRITE))
		return true;
	/* Refused, or not known. */
	if (!mappings_open(&m))
		return true;
	for (uint64_t at = from; writable && at < to && mappings_find(&m, at) && m.from < to; at = m.to)
		writable = m.writable;
	mappings_close(&m);
	return writable;
}

/* POSIX: "EBUSY: some or all of the addresses [...] are locked, and MS_INVALIDATE is set".  Linux does nothing else for that flag. */
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
	/* None before `from', and one before `to'. */
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
