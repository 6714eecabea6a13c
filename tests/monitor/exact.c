// SPDX-License-Identifier: MIT
/*
 * exact.c - which bytes each call is told to take away: those, and no more; before it and after it, by its name; and which calls
 * take nothing away.
 */
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "../lib/checks.h"
#include "peerdma_monitor.h"

#define PAGE	((size_t)4096)
#define HUGE	(1UL << 21)
#define PAGES	64UL

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

static struct seen {
	const char *call;
	uintptr_t addr;
	uint64_t length;
	uint32_t after;
} seen[16];
static volatile unsigned int count;
static volatile bool watching;

static void note(void *arg, const struct peerdma_hook_event *event)
{
	if (watching && event->kind == PEERDMA_HOOK_FREE && count < 16)
		seen[count++] = (struct seen) { event->call, event->addr, event->length, event->after };
}

/* Nothing else of this thread's calls the system meanwhile: printf() and the like come later. */
#define WATCH(...) do {				\
	count = 0;				\
	watching = true;			\
	errno = 77;				\
	(void)!(__VA_ARGS__);			\
	error = errno;				\
	watching = false;			\
} while (0)

static int error;

/* The nth span of the last call, of n. */
static bool was(const char *call, unsigned int n, unsigned int spans, const void *addr, size_t length)
{
	return count == 2 * spans && seen[n].addr == (uintptr_t)addr && seen[n].length == length && !seen[n].after &&
	       !strcmp(seen[n].call, call) && seen[spans + n].addr == (uintptr_t)addr && seen[spans + n].length == length &&
	       seen[spans + n].after == 1 && !strcmp(seen[spans + n].call, call);
}

static bool one(const char *call, const void *addr, size_t length)
{
	return was(call, 0, 1, addr, length);
}

static char *map(size_t length)
{
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Begins a page behind a multiple of a huge page; the next multiple is none of a gigabyte's. */
static char *arena(void)
{
	char *p = map(4 * HUGE);

	p += -(uintptr_t)p & (HUGE - 1);
	return p + (((uintptr_t)p + HUGE) % (1UL << 30) ? 0 : HUGE) + PAGE;
}

static void munmaps(void)
{
	char *p = arena();

	WATCH(munmap(p, PAGE));
	CHECK(one("munmap", p, PAGE) && error == 77, "a page");
	WATCH(munmap(p + PAGE, 1));
	CHECK(one("munmap", p + PAGE, PAGE), "a byte: its page");
	WATCH(munmap(p + 2 * PAGE, PAGE + 1));
	CHECK(one("munmap", p + 2 * PAGE, 2 * PAGE), "a page and a byte");
	WATCH(munmap(p + 4 * PAGE, 3 * PAGE));
	CHECK(one("munmap", p + 4 * PAGE, 3 * PAGE), "three pages");
	WATCH(munmap(p + 1, PAGE));
	CHECK(error == EINVAL, "what the kernel refuses keeps its errno");
}

static void mmaps(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	int fd = memfd_create("exact", MFD_CLOEXEC);
	char *p = arena();
	void *q = NULL;

	if (ftruncate(fd, (off_t)(4 * PAGE)))
		CHECK(0, "ftruncate");
	WATCH(q = mmap(p, 2 * PAGE, PROT_READ, flags | MAP_FIXED, -1, 0), 1);
	CHECK(one("mmap", p, 2 * PAGE) && error == 77, "over two pages");
	WATCH(q = mmap(p + 3 * PAGE, 1, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0), 1);
	CHECK(one("mmap", p + 3 * PAGE, PAGE), "a file over one");
	WATCH(q = mmap(p + HUGE - PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0), 1);
	CHECK(one("mmap", p + HUGE - PAGE, HUGE), "a file where a huge page may be: all of that");
	WATCH(q = mmap(p + HUGE - PAGE, PAGE, PROT_READ, flags | MAP_FIXED, -1, 0), 1);
	CHECK(one("mmap", p + HUGE - PAGE, PAGE), "no file: no more than was asked for");
	WATCH(q = mmap(p, PAGE, PROT_READ, flags, -1, 0), 1);
	CHECK(!count, "elsewhere");
	munmap(q, PAGE);
	WATCH(q = mmap(p, PAGE, PROT_READ, flags | MAP_FIXED_NOREPLACE, -1, 0), 1);
	CHECK(!count && q == MAP_FAILED, "in the place of nothing");
	close(fd);
}

static void mremaps(void)
{
	char *p = arena(), *q = arena();
	void *r = NULL;

	WATCH(r = mremap(p, 4 * PAGE, 2 * PAGE, 0), 1);
	CHECK(r == p && one("mremap", p + 2 * PAGE, 2 * PAGE) && error == 77, "cut: its end");
	WATCH(r = mremap(p, 2 * PAGE, 2 * PAGE, 0), 1);
	CHECK(!count, "as it was");
	WATCH(r = mremap(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE), 1);
	CHECK(!count, "or might be moved, and need not");
	WATCH(r = mremap(p, 2 * PAGE, 3 * PAGE, 0), 1);
	CHECK(!count, "grown in its place");
	munmap(p + 2 * PAGE, 2 * PAGE);
	p = arena();
	WATCH(r = mremap(p, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE), 1);
	CHECK(r != MAP_FAILED && one("mremap", p, 2 * PAGE), "grown, and moved perhaps");
	p = arena();
	WATCH(r = mremap(p, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q), 1);
	CHECK(r == q && was("mremap", 0, 2, q, 3 * PAGE) && was("mremap", 1, 2, p, 2 * PAGE), "put over other memory: both");
	WATCH(r = mremap(q, 3 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + 8 * PAGE), 1);
	CHECK(r == q + 8 * PAGE && was("mremap", 0, 2, q + 8 * PAGE, 2 * PAGE) && was("mremap", 1, 2, q, 3 * PAGE), "and cut");
}

static void madvises(void)
{
	static const struct {
		int advice;
		bool discards;
	} advices[] = {
		{ MADV_DONTNEED, true }, { MADV_FREE, true }, { MADV_REMOVE, true }, { MADV_DONTNEED_LOCKED, true },
		{ 102, true },
		{ MADV_NORMAL, false }, { MADV_RANDOM, false }, { MADV_SEQUENTIAL, false }, { MADV_WILLNEED, false },
		{ MADV_DONTFORK, false },
		{ MADV_DOFORK, false }, { MADV_HUGEPAGE, false }, { MADV_NOHUGEPAGE, false }, { MADV_DONTDUMP, false },
		{ MADV_COLD, false },
		{ MADV_MERGEABLE, false }, { 103, false },
	};
	char *p = arena();

	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
		/* Whether or not the kernel knows it. */
		WATCH(madvise(p, PAGE + 1, advices[i].advice));
		CHECK(advices[i].discards ? one("madvise", p, 2 * PAGE) : !count, "advice %d", advices[i].advice);
	}
}

static void breaks(void)
{
	char *top = sbrk(0);
	void *is = NULL;

	WATCH(is = sbrk(4 * (intptr_t)PAGE), 1);
	CHECK(is == top && !count, "brk(): up");
	WATCH(is = sbrk(0), 1);
	CHECK(!count, "where is it");
	top += 4 * PAGE;
	WATCH(brk(top - 3 * PAGE));
	CHECK(count == 2 && seen[0].addr == ((uintptr_t)(top - 3 * PAGE) & -PAGE) && !strcmp(seen[0].call, "brk") &&
	      seen[0].addr + seen[0].length >= (uintptr_t)top && seen[0].addr + seen[0].length < (uintptr_t)top + PAGE,
	      "down: what is above");
	WATCH((void *)syscall(SYS_brk, NULL));
	CHECK(!count, "nor by its number");
}

static void segments(void)
{
	int id = shmget(IPC_PRIVATE, 3 * PAGE, IPC_CREAT | 0600);
	char *p = arena();
	void *q = NULL;

	if (id < 0) {
		printf("# no shared segments: %s\n", strerror(errno));
		return;
	}
	WATCH(q = shmat(id, NULL, 0), 1);
	CHECK(!count, "shmat() elsewhere");
	WATCH(shmdt(q));
	CHECK(one("shmdt", q, 3 * PAGE), "shmdt()");
	WATCH(q = shmat(id, p, SHM_REMAP), 1);
	CHECK(q == p && one("shmat", p, 3 * PAGE), "shmat() in the place of others");
	WATCH(q = shmat(-1, p + 8 * PAGE, SHM_REMAP), 1);
	CHECK(q == (void *)-1 && count == 2 && seen[0].addr == (uintptr_t)p + 8 * PAGE &&
	      seen[0].addr + seen[0].length == UINTPTR_MAX,
	      "of a segment that is not there: its length is not known");
	shmdt(p);
	shmctl(id, IPC_RMID, NULL);
}

static void others(void)
{
	char *p = arena();

	WATCH(mprotect(p, PAGE, PROT_READ));
	CHECK(!count, "mprotect()");
	WATCH(msync(p, PAGE, MS_ASYNC));
	CHECK(!count, "msync()");
	WATCH(syscall(SYS_munmap, p, PAGE));
	CHECK(one("munmap", p, PAGE), "a call by its number");
	WATCH(syscall(SYS_remap_file_pages, p + 2 * PAGE, PAGE, 0, 0UL, 0));
	CHECK(one("remap_file_pages", p + 2 * PAGE, PAGE), "remap_file_pages()");
}

int main(void)
{
	if (peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, note, NULL)) {
		printf("not ok - %s\n", peerdma_last_error());
		return 1;
	}
	munmaps();
	mmaps();
	mremaps();
	madvises();
	breaks();
	segments();
	others();
	return check_end(NULL);
}
