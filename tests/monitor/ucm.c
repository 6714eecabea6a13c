// SPDX-License-Identifier: MIT
/*
 * ucm.c - peerdma_monitor_start_ucm() on a stand-in for UCX (stand-in/fake_ucm.h): what it says where ucm reports too little, and
 * that a call that fails leaves no handler there.  With UCX itself: outside.c.
 *
 * usage: monitor_ucm ucm|other
 *   ucm	ucm becomes the monitor, at last
 *   other	another monitor was started before
 */
#include <pthread.h>
#include <sys/mman.h>

#include "fake_ucm.h"
#include "peerdma_monitor.h"
#include "../lib/checks.h"

#define ALL	(FAKE_MUNMAP | FAKE_MREMAP | FAKE_MADVISE)
#define LENGTH	65536UL

static char *memory;
static char heard[8];

/* "b" or "a", before it goes or after that; "?" where it should not be there any more, or should. */
static void note(void *arg, const struct peerdma_hook_event *event)
{
	unsigned char pages[LENGTH / 4096];
	bool there = !mincore(memory, LENGTH, pages);

	if (event->addr == (uintptr_t)memory && event->length == LENGTH && strlen(heard) < sizeof(heard) - 1)
		heard[strlen(heard)] = event->kind != PEERDMA_HOOK_FREE || there == !!event->after ? '?' : event->after ? 'a' : 'b';
}

static void map(void)
{
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(heard, 0, sizeof(heard));
}

static void refused(int error, const char *text, const char *what)
{
	int ret;

	fake_ucm.calls = 0;
	ret = peerdma_monitor_start_ucm();
	CHECK(ret == error && strstr(peerdma_last_error(), text) && !strncmp(peerdma_last_error(), "peerdma_monitor_start_ucm: ", 27),
	      "%s: %s", what, peerdma_last_error());
	CHECK(!fake_ucm.handlers, "no handler of it is left: %d", fake_ucm.handlers);
}

static void *second(void *arg)
{
	CHECK(peerdma_monitor_start_ucm() == -EBUSY && strstr(peerdma_last_error(), "another thread is starting it"),
	      "two threads start it: %s", peerdma_last_error());
	return NULL;
}

static void meanwhile(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, second, NULL) && !pthread_join(thread, NULL), "a thread");
}

static void ucm(void)
{
	fake_ucm.reports = ALL;
	fake_ucm.error = -5;
	for (fake_ucm.refuse = 1; fake_ucm.refuse <= 2; fake_ucm.refuse++)
		refused(-EOPNOTSUPP, "ucm_set_event_handler() failed: -5; see that UCX_MEM_EVENTS", "a handler is refused");
	fake_ucm.refuse = 0;
	for (fake_ucm.reports = 0; fake_ucm.reports < ALL; fake_ucm.reports++)
		refused(-EOPNOTSUPP, "munmap(), mremap() or madvise() is not seen", "not all is reported");
	CHECK(!peerdma_monitor_name(PEERDMA_MEMORY_HOST), "there is no monitor yet");
	fake_ucm.meanwhile = meanwhile;
	CHECK(!peerdma_monitor_start_ucm() && fake_ucm.handlers == 2, "ucm becomes the monitor: %s", peerdma_last_error());
	CHECK(!strcmp(peerdma_monitor_name(PEERDMA_MEMORY_HOST), "ucm"), "and is at work");
	for (int i = 0; i < 2; i++) {
		map();
		CHECK(!peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, note, NULL), "a subscriber");
		munmap(memory, LENGTH);
		CHECK(!strcmp(heard, "ba"), "it is called before munmap() and after it, once: %s", heard);
		peerdma_monitor_unsubscribe(PEERDMA_MEMORY_HOST, note, NULL);
		/* Nothing is reported twice then. */
		CHECK(peerdma_monitor_start_ucm() == -EBUSY && strstr(peerdma_last_error(), "'ucm' already monitors host memory"),
		      "started again");
		CHECK(fake_ucm.handlers == 2, "it has the handlers that it had: %d", fake_ucm.handlers);
	}
}

static void other(void)
{
	fake_ucm.reports = ALL;
	CHECK(!peerdma_monitor_start(PEERDMA_MEMORY_HOST, "mine"), "another monitor");
	refused(-EBUSY, "'mine' already monitors host memory", "ucm beside it");
	CHECK(!strcmp(peerdma_monitor_name(PEERDMA_MEMORY_HOST), "mine"), "that one stays");
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "other"))
		other();
	else
		ucm();
	return check_end(NULL);
}
