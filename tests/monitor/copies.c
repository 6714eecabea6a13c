// SPDX-License-Identifier: MIT
/*
 * copies.c - two copies of the library in one process, as where a plug-in brings its own: each is whole, and where only one
 * can have the monitor of host memory the other says so.
 *
 * usage: monitor_copies LIBPEERDMA
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "peerdma_monitor.h"
#include "../lib/checks.h"

#define LENGTH 65536UL

static volatile int events;
static char *memory;

static void note(void *arg, const struct peerdma_hook_event *event)
{
	events = events + (event->addr == (uintptr_t)memory && event->length == LENGTH);
}

/* Another file of the same bytes: to the loader another library. */
static void *copy_of(const char *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("libpeerdma-copy", MFD_CLOEXEC);
	char name[64];
	struct stat s;

	if (from < 0 || to < 0 || fstat(from, &s) || sendfile(to, from, NULL, (size_t)s.st_size) != s.st_size)
		return NULL;
	close(from);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", to);
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

int main(int argc, char **argv)
{
	int (*subscribe)(uint32_t memory, peerdma_hook_fn fn, void *arg);
	const char *(*last_error)(void);
	void *other = argc > 1 ? copy_of(argv[1]) : NULL;

	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!other) {
		printf("not ok - %s\n", dlerror());
		return 1;
	}
	subscribe = (int (*)(uint32_t, peerdma_hook_fn, void *))(uintptr_t)dlsym(other, "peerdma_monitor_subscribe");
	last_error = (const char *(*)(void))(uintptr_t)dlsym(other, "peerdma_last_error");
	CHECK(subscribe != peerdma_monitor_subscribe && last_error != peerdma_last_error, "two copies");
	CHECK(subscribe(7, note, NULL) == -EINVAL && strstr(last_error(), "memory 0x7") && !*peerdma_last_error(),
	      "each has its own text: %s", last_error());
	CHECK(!peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, note, NULL), "the first has the monitor of host memory");
	CHECK(subscribe(PEERDMA_MEMORY_HOST, note, NULL) == -EOPNOTSUPP, "the second has not");
	CHECK(strstr(last_error(), "peerdma_monitor_subscribe: host memory is not monitored: another copy of libpeerdma") &&
	      strstr(last_error(), "; load one copy only"), "and says why: %s", last_error());
	munmap(memory, LENGTH);
	CHECK(events == 2, "the first goes on: %d events", events);
	return check_end(NULL);
}
