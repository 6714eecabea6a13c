// SPDX-License-Identifier: MIT
/*
 * backtrace.c - a backtrace from a subscriber goes through the redirected system call to the function that freed: the C
 * library's own, and its caller's.  By GCC's unwinder, as debuggers, profilers and C++ exceptions do it.
 */
#include <execinfo.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "peerdma_monitor.h"
#include "../lib/checks.h"

#define FRAMES	64
#define LENGTH	(1UL << 16)

/* Callers, in a section of their own: its beginning and end are known. */
#define CALLER	__attribute__((noinline, section("callers")))

extern const char __start_callers[], __stop_callers[];

static void *frames[FRAMES];
static volatile int count, events;
static volatile uintptr_t where;

static void note(void *arg, const struct peerdma_hook_event *event)
{
	if (where - event->addr >= event->length)
		return;
	events = events + 1;
	if (!count)
		count = backtrace(frames, FRAMES);
}

static bool in_caller(const void *p)
{
	return (const char *)p > __start_callers && (const char *)p <= __stop_callers;
}

/* How many frames are the C library's before a caller's comes, or -1: none does. */
static int library_frames(void)
{
	int n = 0;

	for (int i = 0; i < count; i++) {
		Dl_info info;

		if (in_caller(frames[i]))
			return n;
		n += dladdr(frames[i], &info) && info.dli_fname && strstr(info.dli_fname, "libc.so.6");
	}
	return -1;
}

static char *map(void)
{
	char *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	where = (uintptr_t)p + 4096;
	count = events = 0;
	return p;
}

CALLER static long by_munmap(char *p)
{
	long ret = munmap(p, LENGTH);

	return ret + events;
}

CALLER static long by_mmap(char *p)
{
	long ret = mmap(p, LENGTH, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p;

	return ret + events;
}

CALLER static long by_mremap(char *p)
{
	long ret = mremap(p, LENGTH, 2 * LENGTH, MREMAP_MAYMOVE) == MAP_FAILED;

	return ret + events;
}

CALLER static long by_madvise(char *p)
{
	long ret = madvise(p, LENGTH, MADV_DONTNEED);

	return ret + events;
}

CALLER static long by_number(char *p)
{
	long ret = syscall(SYS_munmap, p, LENGTH);

	return ret + events;
}

CALLER static long by_shmdt(char *p)
{
	long ret = shmdt(p);

	return ret + events;
}

static void check_one(const char *name, long (*free_it)(char *p), char *p)
{
	int through;

	CHECK(free_it(p) == 2, "%s: seen twice", name);
	through = library_frames();
	CHECK(through >= 1, "%s: the backtrace of %d frames goes through the C library to its caller", name, count);
	for (int i = 0; through < 1 && i < count; i++)
		printf("# %p\n", frames[i]);
}

static void by_segment(void)
{
	int id = shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600);
	char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);

	shmctl(id, IPC_RMID, NULL);
	if (p == (char *)-1)
		return;
	where = (uintptr_t)p + 4096;
	count = events = 0;
	check_one("shmdt", by_shmdt, p);
}

#ifndef KEEPING_MALLOC
CALLER static long by_free(char *p)
{
	free(p);
	return events;
}

static void by_allocator(void)
{
	char *p = malloc(64 * LENGTH);

	where = (uintptr_t)p + 8192;
	count = events = 0;
	check_one("free", by_free, p);
}
#else
/* A sanitizer's allocator keeps what is freed. */
static void by_allocator(void)
{
}
#endif

int main(void)
{
	count = backtrace(frames, FRAMES);	/* loads the unwinder, outside malloc() */
	if (peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, note, NULL))
		check_skip("%s", peerdma_last_error());
	check_one("munmap", by_munmap, map());
	check_one("mmap", by_mmap, map());
	check_one("mremap", by_mremap, map());
	check_one("madvise", by_madvise, map());
	check_one("syscall", by_number, map());
	by_segment();
	by_allocator();
	return check_end(NULL);
}
