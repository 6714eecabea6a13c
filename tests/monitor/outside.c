// SPDX-License-Identifier: MIT
/*
 * outside.c - monitors from outside, and subscribers: what peerdma_monitor.h says.  Written from
 * the header alone.
 *
 * usage: monitor_outside calls|own|ucm-first|ucm-later|ucm-source
 *   calls       a library that notifies, and one that subscribes
 *   own         started before any cache: ours is not used
 *   ucm-first   UCX has its hooks in place before our monitor begins: both see everything
 *   ucm-later   UCX comes afterwards, and changes the same code
 *   ucm-source  peerdma_monitor_start_ucm()
 */
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>

#include "peerdma_cache.h"
#include "peerdma_monitor.h"
#include "../lib/checks.h"

#define LENGTH (1UL << 20)

static volatile int added, removed, told, by_ucm;
static struct peerdma_cache *cache;

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	out->handle = malloc(100);
	added++;
	return 0;
}

/* Frees, as a library that deregisters may. */
static void drop(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	free(handle);
	removed++;
}

static int use(void *p)
{
	struct peerdma_cached *hold;
	int before = added;

	if (peerdma_cache_get(cache, p, LENGTH / 2, &hold))
		exit(2);
	peerdma_cache_put(cache, hold);
	return added - before;
}

static char *map(void)
{
	char *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(p, 1, LENGTH);
	return p;
}

static void make(uint32_t monitors)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .monitors = monitors, .add = add, .remove = drop };

	if (peerdma_cache_create(&ops, NULL, NULL, &cache)) {
		printf("not ok - a cache: %s\n", peerdma_last_error());
		exit(1);
	}
}

static void note(void *arg, const struct peerdma_hook_event *event)
{
	if (event->addr <= *(uintptr_t *)arg && *(uintptr_t *)arg - event->addr < event->length)
		told += event->after ? 100 : 1;
}

static void calls(void)
{
	uintptr_t where;
	char *p = map();

	make(0);
	use(p);
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p + 4096, 1, 0);
	CHECK(use(p) == 1, "a notification ends the registration in a cache that asked for no monitor");
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, LENGTH, 1);
	CHECK(use(p) == 1, "so does the second one");
	peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, p, LENGTH, 0);
	CHECK(use(p) == 1, "and one of device memory");
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, 0, 0);
	CHECK(!use(p), "one of nothing ends nothing");
	munmap(p, LENGTH);

	CHECK(!peerdma_monitor_name(PEERDMA_MEMORY_HOST), "no monitor of host memory was needed yet");
	where = (uintptr_t)(p = map());
	CHECK(!peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, note, &where), "a subscriber");
	CHECK(!strcmp(peerdma_monitor_name(PEERDMA_MEMORY_HOST), "system calls of the C library"), "needs one");
	munmap(p, LENGTH);
	CHECK(told == 101, "it is called before munmap and after it");
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST | PEERDMA_MEMORY_DEVICE, p, LENGTH, 0);
	CHECK(told == 102, "and when another library notifies");
	peerdma_monitor_unsubscribe(PEERDMA_MEMORY_HOST, note, &where);
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, LENGTH, 0);
	CHECK(told == 102, "and not when it has unsubscribed");
	CHECK(peerdma_monitor_subscribe(3, note, NULL) == -EINVAL && peerdma_monitor_subscribe(1, NULL, NULL) == -EINVAL &&
	      peerdma_monitor_start(0, "x") == -EINVAL && peerdma_monitor_start(1, NULL) == -EINVAL, "bad arguments");
	CHECK(peerdma_monitor_start_ucm() == -ENODEV, "there is no ucm here");
	CHECK(!strncmp(peerdma_last_error(), "peerdma_monitor_start_ucm: libucm.so.0: ", 40), "and the text says so");
	for (uint32_t memory = 0; memory < 5; memory++) {
		bool one = memory == PEERDMA_MEMORY_HOST || memory == PEERDMA_MEMORY_DEVICE;

		CHECK(one || (peerdma_monitor_subscribe(memory, note, NULL) == -EINVAL &&
			      !strncmp(peerdma_last_error(), "peerdma_monitor_subscribe: memory 0x", 36)),
			      	"subscribe: memory %u", memory);
		CHECK(peerdma_monitor_subscribe(memory, NULL, NULL) == -EINVAL &&
		      !strncmp(peerdma_last_error(), "peerdma_monitor_subscribe: memory 0x", 36) && strstr(peerdma_last_error(),
													   "fn NULL"),
													   	"no function");
		CHECK(one || (peerdma_monitor_start(memory, "x") == -EINVAL &&
			      !strncmp(peerdma_last_error(), "peerdma_monitor_start: memory 0x", 32)), "start: memory %u",
			      	memory);
		CHECK(peerdma_monitor_start(memory, NULL) == -EINVAL && strstr(peerdma_last_error(), "name NULL"), "no name");
		CHECK(memory == PEERDMA_MEMORY_HOST || !peerdma_monitor_name(memory), "nothing monitors memory %u", memory);
		peerdma_monitor_unsubscribe(memory, NULL, NULL);
	}
	/* GPU memory: its frees are not seen, until another library says that it sees them. */
	CHECK(peerdma_monitor_subscribe(PEERDMA_MEMORY_DEVICE, note, &where) == -EOPNOTSUPP &&
	      !strncmp(peerdma_last_error(), "peerdma_monitor_subscribe: GPU memory is not monitored", 54),
	      	"no monitor of GPU memory");
	CHECK(!peerdma_monitor_start(PEERDMA_MEMORY_DEVICE, "theirs") && !strcmp(peerdma_monitor_name(PEERDMA_MEMORY_DEVICE),
										 "theirs"), "started");
	CHECK(peerdma_monitor_start(PEERDMA_MEMORY_DEVICE, "mine") == -EBUSY &&
	      !strncmp(peerdma_last_error(), "peerdma_monitor_start: mine: 'theirs' already", 45), "not two");
	told = 0;
	CHECK(!peerdma_monitor_subscribe(PEERDMA_MEMORY_DEVICE, note, &where), "a subscriber of GPU memory");
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, LENGTH, 0);
	CHECK(!told, "hears nothing of host memory");
	peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, p, LENGTH, 5);
	CHECK(told == 100, "and of the GPU's after it went");
	peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, p, 0, 0);
	CHECK(told == 100, "but of none");
	peerdma_monitor_unsubscribe(PEERDMA_MEMORY_HOST, note, &where);
	peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, p, LENGTH, 0);
	CHECK(told == 101, "another kind's end is not its own");
	peerdma_monitor_unsubscribe(PEERDMA_MEMORY_DEVICE, note, &where);
	peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, p, LENGTH, 0);
	CHECK(told == 101, "unsubscribed");
}

static void own(void)
{
	char *p = map();

	CHECK(!peerdma_monitor_start(PEERDMA_MEMORY_HOST, "mine"), "a monitor of host memory");
	CHECK(peerdma_monitor_start(PEERDMA_MEMORY_HOST, "another") == -EBUSY, "not two");
	make(PEERDMA_MONITOR_HOST);
	CHECK(!strcmp(peerdma_monitor_name(PEERDMA_MEMORY_HOST), "mine"), "it is at work");
	use(p);
	munmap(p, LENGTH);
	p = mmap(p, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(!use(p), "the library's own is not, so what is not notified of is not known");
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, LENGTH, 0);
	CHECK(use(p) == 1, "and what is, is");
}

/* ---- UCX ---- */

static void unmapped(int type, void *event, void *arg)
{
	by_ucm++;
}

static void ucm(void)
{
	int (*set)(int, int, void (*)(int, void *, void *), void *);
	/* libucs brings libucm, which alone lacks symbols. */
	void *library = dlopen("libucs.so.0", RTLD_LAZY | RTLD_GLOBAL) ? dlopen("libucm.so.0", RTLD_LAZY | RTLD_GLOBAL) : NULL;

	set = library ? (int (*)(int, int, void (*)(int, void *, void *), void *))(uintptr_t)dlsym(library, "ucm_set_event_handler") :
		NULL;
	if (!set) {
		printf("skipped: no libucm.so.0 here\n");
		exit(77);
	}
	if (set(1 << 17, 0, unmapped, NULL))
		CHECK(0, "ucm_set_event_handler");
}

/* Blocks of the heap that malloc_trim() gives back, with the allocator's lock held. */
static int trimmed(void)
{
	char *block[64], *p;
	int ret;

	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	for (int i = 0; i < 64; i++)
		block[i] = memset(malloc(LENGTH), 1, LENGTH);
	p = block[20] + 4096;
	use(p);
	for (int i = 0; i < 63; i++)
		free(block[i]);
	malloc_trim(0);
	for (int i = 0; i < 63; i++)
		block[i] = malloc(LENGTH);
	ret = use(p);
	for (int i = 0; i < 64; i++)
		free(block[i]);
	return ret;
}

/* Whatever reports it, subscribers hear of memory before it goes, and when it has gone. */
static void both_times(void)
{
	char *p = map();
	uintptr_t where = (uintptr_t)p;

	told = 0;
	CHECK(!peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, note, &where), "a subscriber");
	munmap(p, LENGTH);
	CHECK(told % 100 && told / 100, "it is called before munmap and after it: %d", told);
	peerdma_monitor_unsubscribe(PEERDMA_MEMORY_HOST, note, &where);
}

static void everything(void)
{
	char *p = map(), *q;
	int before = by_ucm;

	use(p);
	munmap(p, LENGTH);
	p = mmap(p, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(use(p) == 1, "munmap ends a registration");
	madvise(p, LENGTH, MADV_DONTNEED);
	CHECK(use(p) == 1, "madvise");
	mmap(p, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(use(p) == 1, "mmap over it");
	q = p + LENGTH / 2;	/* (ucm 1.13 loses the fifth argument, the place to move to) */
	use(q);
	mremap(p, LENGTH, LENGTH / 2, 0);
	mmap(q, LENGTH / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(use(q) == 1, "mremap");
	p = malloc(64 * LENGTH);
	use(p);
	free(p);
	p = malloc(64 * LENGTH);
	CHECK(use(p) == 1, "free of a large block");
	CHECK(trimmed() == 1, "malloc_trim");
	CHECK(by_ucm > before, "and UCX is notified, too");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "calls";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "calls")) {
		calls();
	} else if (!strcmp(what, "own")) {
		own();
	} else if (!strcmp(what, "ucm-later")) {
		make(PEERDMA_MONITOR_HOST);
		ucm();
		everything();
		both_times();
		CHECK(!strcmp(peerdma_monitor_name(PEERDMA_MEMORY_HOST), "system calls of the C library"), "ours is at work");
	} else {
		ucm();
		if (!strcmp(what, "ucm-source"))
			CHECK(!peerdma_monitor_start_ucm(), "ucm becomes the monitor");
		make(PEERDMA_MONITOR_HOST);
		everything();
		both_times();
		CHECK(!strcmp(peerdma_monitor_name(PEERDMA_MEMORY_HOST), "ucm"), "ucm is at work");
	}
	peerdma_cache_close(cache);
	return check_end(NULL);
}
