// SPDX-License-Identifier: MIT
/*
 * calls.c - handles the system calls of the C library that take host memory away (sites.h): finds
 * the ranges, and notifies the subscribers.
 *
 * Subscribers are called before and after the system call, in its thread, inside malloc() and
 * free(). The code in this file does not allocate, wait or change errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "monitor.h"
#include "sites.h"

/* Missing in some headers. */
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

struct span {
	uintptr_t from, to;
};

#define EVERYTHING_FROM(p) ((struct span){ (p), UINTPTR_MAX })

/* ---- the ranges of a call ---- */

/* Rounds up to a multiple of a power of two. */
static uintptr_t round_up(uintptr_t p, uintptr_t to)
{
	return (p + to - 1) & ~(to - 1);
}

/* Rounds to whole pages, because the kernel takes away whole pages. */
static struct span pages_of(long from, long length)
{
	uintptr_t page = (uintptr_t)getpagesize(), start = (uintptr_t)from;
	uintptr_t end = start + (uintptr_t)length, rounded = round_up(end, page);

	return (struct span){ start & ~(page - 1),
			      end < start || rounded < end ? UINTPTR_MAX : rounded };
}

/*
 * The same for pages that may be huge; then the address is a multiple of their size. For ordinary
 * memory at such an address, the range is too long, which costs its neighbours a registration.
 */
static struct span huge_span(long from, long length)
{
	static const uintptr_t sizes[] = { 1UL << 21, 1UL << 30 };
	struct span s = pages_of(from, length);

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uintptr_t to = round_up(s.to, sizes[i]);

		if (!(s.from & (sizes[i] - 1)) && to > s.to)
			s.to = to;
	}
	return s;
}

/*
 * shmdt() detaches each part of the segment that is where shmat() put it: at the same distance from
 * the address as in the segment. There may be holes and other memory between the parts, and nothing
 * at the address itself. This reader parses /proc/thread-self/maps without allocating memory.
 * (/proc/self/maps is empty after the first thread has ended.)
 */
struct maps {
	int fd;
	size_t at, n;
	char text[1024];
};

static int maps_char(struct maps *m)
{
	long args[6] = { m->fd, (long)m->text, sizeof(m->text) };

	if (m->at == m->n) {
		long n = system_call(SYS_read, args);

		if (n <= 0)
			return -1;
		m->at = 0;
		m->n = (size_t)n;
	}
	return (unsigned char)m->text[m->at++];
}

static int digit(int c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads a number, and the character after it. */
static uintptr_t maps_number(struct maps *m, int base, int *behind)
{
	uintptr_t n = 0;
	int c = maps_char(m);

	while (digit(c) >= 0) {
		n = n * (uintptr_t)base + (uintptr_t)digit(c);
		c = maps_char(m);
	}
	*behind = c;
	return n;
}

static void maps_skip_word(struct maps *m, int *behind)
{
	int c = maps_char(m);

	while (c >= 0 && c != '\n' && c != ' ')
		c = maps_char(m);
	*behind = c;
}

struct mapping {
	struct span span;
	uintptr_t offset, device;	/* sum of major and minor number; 0: no file */
};

/* A line: "from-to rights offset device:device inode ..." */
static bool maps_line(struct maps *m, struct mapping *out)
{
	int c;

	out->span.from = maps_number(m, 16, &c);
	out->span.to = maps_number(m, 16, &c);
	maps_skip_word(m, &c);
	out->offset = maps_number(m, 16, &c);
	out->device = maps_number(m, 16, &c);
	out->device += maps_number(m, 16, &c);
	while (c >= 0 && c != '\n')
		c = maps_char(m);
	return c >= 0;
}

static struct span segment_at(uintptr_t p)
{
	static const char name[] = "/proc/thread-self/maps";
	long args[6] = { AT_FDCWD, (long)name, 0 };
	struct mapping next;
	struct span s = { p, p };
	struct maps m = { .at = 0 };

	m.fd = (int)system_call(SYS_openat, args);
	if (m.fd < 0)
		return EVERYTHING_FROM(p);
	/* Compares the device, because the inode is the id of the segment, which may be 0. */
	while (maps_line(&m, &next)) {
		if (next.device && next.span.from >= p && next.span.from - p == next.offset)
			s.to = next.span.to;
	}
	args[0] = m.fd;
	system_call(SYS_close, args);
	return s;
}

static struct span by_shmat(const long *a)
{
	struct shmid_ds segment;
	long args[6] = { a[0], IPC_STAT, (long)&segment };

	return system_call(SYS_shmctl, args) ? EVERYTHING_FROM((uintptr_t)a[1]) :
					       huge_span(a[1], (long)segment.shm_segsz);
}

static struct span by_brk(long to)
{
	static const long none[6];
	uintptr_t now = (uintptr_t)system_call(SYS_brk, none);

	return (uintptr_t)to < now ? pages_of(to, (long)(now - (uintptr_t)to)) :
				     (struct span){ 0, 0 };
}

static bool advice_discards(long advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
	       advice == MADV_DONTNEED_LOCKED || advice == MADV_GUARD_INSTALL;
}

/*
 * mremap() takes memory away at the old address, and at a fixed new address. Without a move, the
 * memory may stay.
 */
static unsigned int by_mremap(const long *a, struct span *s)
{
	struct span from = huge_span(a[0], a[1]);
	uintptr_t old = pages_of(a[0], a[1]).to, new = pages_of(a[0], a[2]).to;
	unsigned int n = 0;

	if (a[3] & MREMAP_FIXED)
		s[n++] = huge_span(a[4], a[2]);
	if (new < old && !(a[3] & MREMAP_FIXED))
		s[n++] = (struct span){ new, from.to };
	else if (new > old ? a[3] & MREMAP_MAYMOVE : a[3] & ~MREMAP_MAYMOVE)
		s[n++] = from;
	return n;
}

/* Returns the ranges that the call takes away, as addresses of bytes; at most two. */
static unsigned int taken_away(long number, const long *a, struct span *s, const char **name)
{
	switch (number) {
	case SYS_munmap:
		*name = "munmap";
		*s = pages_of(a[0], a[1]);
		return 1;
	case SYS_mmap:
		*name = "mmap";
		*s = a[3] & MAP_HUGETLB || !(a[3] & MAP_ANONYMOUS) ? huge_span(a[0], a[1]) : pages_of(a[0], a[1]);
		return !!(a[3] & MAP_FIXED);
	case SYS_remap_file_pages:
		*name = "remap_file_pages";
		*s = pages_of(a[0], a[1]);
		return 1;
	case SYS_mremap:
		*name = "mremap";
		return by_mremap(a, s);
	case SYS_madvise:
		*name = "madvise";
		*s = pages_of(a[0], a[1]);
		return advice_discards(a[2]);
	case SYS_brk:
		*name = "brk";
		*s = by_brk(a[0]);
		return s->from < s->to && a[0];
	case SYS_shmdt:
		*name = "shmdt";
		*s = segment_at((uintptr_t)a[0]);
		return 1;
	case SYS_shmat:
		*name = "shmat";
		if (!(a[2] & SHM_REMAP))
			return 0;
		*s = by_shmat(a);
		return 1;
	}
	return 0;
}

static void notify(const char *name, uint32_t after, const struct span *spans, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		const struct peerdma_hook_event event = {
			.kind = PEERDMA_HOOK_FREE, .after = after, .call = name,
			.addr = spans[i].from, .length = spans[i].to - spans[i].from,
		};

		monitor_call(MONITOR_HOST, &event);
	}
}

/*
 * The last action of a thread is to discard its stack. Under ThreadSanitizer, which is present if
 * its symbol is, a thread must not lock a mutex at that point.
 */
extern void __tsan_init(void) __attribute__((weak));

__attribute__((no_sanitize("address", "thread", "undefined")))
static bool stack_of_ended(long number, const long *args)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return __tsan_init && number == SYS_madvise &&
	       here - (uintptr_t)(args[0] + args[1]) < 65536;
}

/* Called below the sanitizers' own functions, so it must not be instrumented. */
__attribute__((no_sanitize("address", "thread", "undefined")))
long monitor_system_call(long number, const long *args)
{
	struct span spans[2];
	const char *name = "";
	int error, state, type;
	unsigned int n;
	long ret;

	if (!monitor_any(MONITOR_HOST) || stack_of_ended(number, args))
		return system_call(number, args);
	error = errno;
	/*
	 * The C library's functions may be cancelled asynchronously, while subscribers take locks
	 * and are counted. Both state and type must be changed: glibc 2.36 ends a thread by a
	 * signal that was already sent when the state changed, and checks only the type.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	n = taken_away(number, args, spans, &name);
	notify(name, 0, spans, n);
	ret = system_call(number, args);
	notify(name, 1, spans, n);
	errno = error;
	pthread_setcanceltype(type, NULL);
	pthread_setcancelstate(state, NULL);
	return ret;
}
