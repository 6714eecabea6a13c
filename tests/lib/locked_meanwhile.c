// SPDX-License-Identifier: MIT
/*
 * locked_meanwhile.c - a pin of back-end 'host' that is made while another thread is making the process's first one.
 *
 * That thread is held up where the library calls getpid(), which is this program's: among these places is the one where
 * the back-end begins to listen to the monitor of host memory.  Each is tried in a process of its own.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "checks.h"
#include "peerdma_monitor.h"

#define PLACES_MOST	100
#define PATIENCE_MS	200
#define NO_PLACE	9

static _Thread_local int calls_left;	/* of getpid(), until one that waits */
static atomic_bool waiting, go_on, done;
static size_t page;

pid_t getpid(void)
{
	if (calls_left && !--calls_left) {
		atomic_store(&waiting, true);
		/* What others wait for may be done here. */
		for (int i = 0; i < PATIENCE_MS && !atomic_load(&go_on); i++)
			usleep(1000);
	}
	return (pid_t)syscall(SYS_getpid);
}

static void see(void *arg, const struct peerdma_hook_event *event)
{
}

static void *map_at(void *addr)
{
	return mmap(addr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (addr ? MAP_FIXED : 0), -1, 0);
}

static struct peerdma *ctx;
static int place;

static void *pin_first(void *unused)
{
	struct peerdma_region *region = NULL;
	void *memory = map_at(NULL);
	int ret;

	calls_left = place;
	ret = peerdma_pin(ctx, memory, page, PEERDMA_HOST, NULL, &region);
	calls_left = 0;
	atomic_store(&done, true);
	if (!ret)
		peerdma_unpin(region);
	return NULL;
}

/* 0, NO_PLACE, or what went wrong. */
static int run(void)
{
	struct peerdma_status status = { .size = sizeof(status) };
	struct peerdma_region *region = NULL;
	pthread_t thread;
	void *memory = map_at(NULL);
	int ret = 0;

	if (memory == MAP_FAILED || peerdma_open(&ctx, 0) || pthread_create(&thread, NULL, pin_first, NULL))
		return 1;
	while (!atomic_load(&waiting)) {
		if (atomic_load(&done))
			return NO_PLACE;
		usleep(100);
	}
	if (peerdma_pin(ctx, memory, page, PEERDMA_HOST, NULL, &region))
		return 2;
	/* Other memory in its place, which the program locks for itself: by number, since sanitizers' functions do nothing. */
	if (map_at(memory) != memory || syscall(SYS_mlock, memory, page))
		return 3;
	if (peerdma_status(region, &status) || status.state != PEERDMA_STATE_REVOKED)
		ret = 4;
	if (peerdma_unpin(region))
		ret = 5;
	if (!syscall(SYS_msync, memory, page, MS_ASYNC | MS_INVALIDATE))
		ret = 6;
	atomic_store(&go_on, true);
	pthread_join(thread, NULL);
	peerdma_close(ctx);
	return ret;
}

int main(void)
{
	int status, live = 0, unlocked = 0, others = 0;

	page = (size_t)sysconf(_SC_PAGESIZE);
	if (peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, see, NULL))
		check_skip("this machine has no monitor of host memory");
	for (place = 1; place < PLACES_MOST; place++) {
		pid_t pid = fork();

		if (!pid)
			_exit(run());
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
			return 2;
		if (WEXITSTATUS(status) == NO_PLACE)
			break;
		live += WEXITSTATUS(status) == 4;
		unlocked += WEXITSTATUS(status) == 6;
		others += WEXITSTATUS(status) && WEXITSTATUS(status) != 4 && WEXITSTATUS(status) != 6;
	}
	CHECK(place > 1 && !others, "the first pin is held up at each of %d places", place - 1);
	CHECK(!live && !unlocked, "what replaced another pin's memory is not taken for it, nor unlocked: %d and %d are", live, unlocked);
	return check_end(NULL);
}
