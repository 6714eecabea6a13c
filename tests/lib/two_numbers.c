// SPDX-License-Identifier: MIT
/*
 * two_numbers.c - a process keeps one number (process.c), where one thread is refused the page that it is kept in
 * and another gets one a moment later.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "checks.h"

static _Thread_local bool fails, waits_here;
static atomic_bool waiting, go_on;

/* The library calls these: they are the first of their names that the loader finds. */
void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (fails) {
		fails = false;
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

int madvise(void *addr, size_t length, int advice)
{
	if (waits_here && advice == MADV_WIPEONFORK) {
		waits_here = false;
		atomic_store(&waiting, true);
		while (!atomic_load(&go_on))
			usleep(1000);
	}
	return (int)syscall(SYS_madvise, addr, length, advice);
}

static void *second(void *unused)
{
	struct peerdma *ctx = NULL;

	waits_here = true;
	if (!peerdma_open(&ctx, 0))
		peerdma_close(ctx);
	return NULL;
}

int main(void)
{
	struct peerdma *ctx = NULL;
	pthread_t thread;

	if (pthread_create(&thread, NULL, second, NULL))
		return 1;
	while (!atomic_load(&waiting))
		usleep(1000);
	fails = true;
	CHECK(!peerdma_open(&ctx, 0) && !fails, "a context, without a page");
	atomic_store(&go_on, true);
	pthread_join(thread, NULL);
	CHECK(ctx && peerdma_event_fd(ctx) >= 0, "it is this process's still: %d", ctx ? peerdma_event_fd(ctx) : 0);
	peerdma_close(ctx);
	return check_end(NULL);
}
