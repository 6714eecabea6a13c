// SPDX-License-Identifier: MIT
/*
 * monitor.c - what a monitor of host memory costs: nanoseconds per mmap(), one touched
 * page and munmap(), and per madvise(MADV_DONTNEED), the median of rounds; with
 * userfaultfd and UCX's ucm for comparison.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../tests/lib/counted.h"
#include "spread.h"

#define LENGTH	65536UL
#define LOOPS	2000
#define ROUNDS	21
#define CACHES	50

static struct peerdma_cache *caches[CACHES];
static int uffd = -1;

static char *map(void)
{
	char *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	p[0] = 1;
	return p;
}

static void registered(char *p)
{
	struct uffdio_register r = { .range = { (uintptr_t)p, LENGTH }, .mode = UFFDIO_REGISTER_MODE_WP };
	struct peerdma_cached *hold;

	if (uffd >= 0 && ioctl(uffd, UFFDIO_REGISTER, &r))
		exit(1);
	if (uffd >= 0 || !caches[0] || peerdma_cache_get(caches[0], p, LENGTH, &hold))
		return;
	peerdma_cache_put(caches[0], hold);
}

static void measure(const char *what, int registers)
{
	double unmap[ROUNDS], discard[ROUNDS], begun;
	char *p = map();

	for (int round = 0; round < ROUNDS; round++) {
		begun = now_ns();
		for (int i = 0; i < LOOPS; i++) {
			char *q = map();

			if (registers)
				registered(q);
			munmap(q, LENGTH);
		}
		unmap[round] = (now_ns() - begun) / LOOPS;
		if (registers)
			registered(p);
		begun = now_ns();
		for (int i = 0; i < LOOPS; i++)
			madvise(p, LENGTH, MADV_DONTNEED);
		discard[round] = (now_ns() - begun) / LOOPS;
	}
	munmap(p, LENGTH);
	printf("%-52s %8.0f %8.0f\n", what, spread_of(unmap, ROUNDS).median, spread_of(discard, ROUNDS).median);
}

static void make(int from, int to)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .monitors = PEERDMA_MONITOR_HOST, .add = counted_add, .remove = counted_remove };
	struct peerdma_cache_options o = { .size = sizeof(o), .capacity = 1024 };

	for (int i = from; i < to; i++) {
		if (peerdma_cache_create(&ops, NULL, &o, &caches[i])) {
			fprintf(stderr, "%s\n", peerdma_last_error());
			exit(1);
		}
	}
}

static void *reader(void *arg)
{
	struct pollfd p = { uffd, POLLIN, 0 };
	struct uffd_msg m;

	for (;;) {
		poll(&p, 1, -1);
		while (read(uffd, &m, sizeof(m)) == sizeof(m))
			;
	}
	return arg;
}

static void by_uffd(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE };
	pthread_t thread;

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || pthread_create(&thread, NULL, reader, NULL)) {
		printf("userfaultfd: not allowed here\n");
		return;
	}
	measure("userfaultfd, not registered", 0);
	measure("userfaultfd, registered each time", 1);
	uffd = -1;
}

static void ignore(int type, void *event, void *arg)
{
	(void)type;
	(void)event;
	(void)arg;
}

static void by_ucm(void)
{
	int (*set)(int, int, void (*)(int, void *, void *), void *);
	void *library = dlopen("libucs.so.0", RTLD_LAZY | RTLD_GLOBAL) ? dlopen("libucm.so.0", RTLD_LAZY | RTLD_GLOBAL) : NULL;

	set = library ? (int (*)(int, int, void (*)(int, void *, void *), void *))(uintptr_t)dlsym(library, "ucm_set_event_handler") :
		NULL;
	if (set && !set(1 << 17, 0, ignore, NULL))
		measure("UCX's ucm alone, a handler that does nothing", 0);
}

int main(int argc, char **argv)
{
	(void)argv;
	printf("%-52s %8s %8s\n", "ns, median", "munmap", "madvise");
	measure("no monitor", 0);
	if (argc > 1) {		/* it stays in the C library's code */
		by_ucm();
		return 0;
	}
	by_uffd();
	make(0, 1);
	measure("ours, 1 cache, not registered", 0);
	measure("ours, 1 cache, registered each time", 1);
	make(1, 5);
	measure("ours, 5 caches, not registered", 0);
	make(5, CACHES);
	measure("ours, 50 caches, not registered", 0);
	for (int i = 0; i < CACHES; i++)
		peerdma_cache_close(caches[i]);
	caches[0] = NULL;
	measure("ours, no cache left", 0);
	return 0;
}
