// SPDX-License-Identifier: MIT
/*
 * spans.c - the kernel takes away whole pages, huge ones too, and all pieces of a segment, whatever the call's
 * length says. Subscribers must be notified of every byte.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "../lib/main_ended.h"
#include "peerdma.h"
#include "peerdma_monitor.h"

#define LENGTH	(1UL << 20)
#define PAGE	4096UL
#define HUGE	(1UL << 21)

static int failures;
/* The C library declares its functions to call nothing of ours: they do. */
static const char *volatile expected;	/* a byte that goes */
static volatile int before, after;	/* events that have it */

static void count(void *arg, const struct peerdma_hook_event *event)
{
	if ((uintptr_t)expected - event->addr >= event->length)
		return;
	before += !event->after;
	after += !!event->after;
}

/* The call, which is the rest of the line, takes byte p away. */
#define TAKES(what, p, ...) do {				\
	expected = (p);						\
	before = after = 0;					\
	__VA_ARGS__;						\
	printf("%s - %s\n", before && after ? "ok" : "not ok", what);	\
	failures += !before || !after;				\
} while (0)

static char *map(size_t length, int flags)
{
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void part_of_a_page(void)
{
	char *p = map(LENGTH, 0);
	const int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

	TAKES("the rest of a page that madvise() discards", p + PAGE - 1, madvise(p, 1, MADV_DONTNEED));
	TAKES("the rest of a page that is mapped over", p + PAGE - 1, mmap(p, 1, PROT_READ, fixed, -1, 0));
	TAKES("the rest of a page that is unmapped", p + PAGE - 1, munmap(p, 1));
	p += PAGE;
	TAKES("the rest of the last page that mremap() cuts off", p + LENGTH - PAGE - 1, mremap(p, LENGTH - 2 * PAGE + 1, PAGE, 0));
	TAKES("the rest of a page that mremap() moves", p + PAGE - 1,
	      mremap(p, 1, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 2 * PAGE));
}

/* No huge page is used: none need be there. */
static void huge_pages(void)
{
	char *room = map(8 * HUGE, 0), *p = (char *)(((uintptr_t)room + HUGE - 1) & ~(HUGE - 1)), *q = NULL;
	const int huge = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB | MAP_NORESERVE;
	int fd = memfd_create("huge", MFD_HUGETLB);

	TAKES("the rest of a huge page that is mapped over", p + HUGE - 1, q = mmap(p, PAGE, PROT_READ, huge, -1, 0));
	if (q != p || fd < 0 || ftruncate(fd, HUGE)) {
		printf("# no huge pages: %s\n", strerror(errno));
		return;
	}
	TAKES("the rest of a huge page that mremap() moves", p + HUGE - 1,
	      mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + HUGE));
	TAKES("the rest of a huge page that mremap() replaces", p + 3 * HUGE - 1,
	      mremap(p + HUGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 2 * HUGE));
	TAKES("the rest of a huge page of a file", p + HUGE - 1,
	      mmap(p, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0));
}

static void pieces_of_a_segment(void)
{
	int id = shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600), small = shmget(IPC_PRIVATE, PAGE + 1, IPC_CREAT | 0600);
	char *p = shmat(id, NULL, 0);

	if (id < 0 || small < 0 || p == (char *)-1) {
		printf("# no shared segments: %s\n", strerror(errno));
		return;
	}
	munmap(p, PAGE);
	TAKES("a segment whose first page is gone", p + LENGTH - 1, shmdt(p));
	p = shmat(id, NULL, 0);
	munmap(p + PAGE, PAGE);
	TAKES("the piece of a segment behind a hole", p + LENGTH - 1, shmdt(p));
	p = shmat(id, NULL, 0);
	mmap(p + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	TAKES("the piece of a segment behind other memory", p + LENGTH - 1, shmdt(p));
	p = map(LENGTH, 0);
	TAKES("the rest of a page that a segment replaces", p + 2 * PAGE - 1, shmat(small, p, SHM_REMAP));
	TAKES("the bytes before an address that shmat() rounds down", p, shmat(small, p + 1, SHM_REMAP | SHM_RND));
	shmctl(id, IPC_RMID, NULL);
	shmctl(small, IPC_RMID, NULL);
}

static void *without_main(void *unused)
{
	await_end_of_main();
	printf("# without the first thread\n");
	pieces_of_a_segment();
	fflush(stdout);
	_exit(failures != 0);
	return unused;
}

int main(void)
{
	pthread_t last;


	if (peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, count, NULL)) {
		printf("not ok - %s\n", peerdma_last_error());
		return 1;
	}
	part_of_a_page();
	huge_pages();
	pieces_of_a_segment();
	if (pthread_create(&last, NULL, without_main, NULL))
		return 1;
	pthread_exit(NULL);
}
