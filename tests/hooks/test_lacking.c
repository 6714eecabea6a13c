// SPDX-License-Identifier: MIT
/*
 * test_lacking.c - with libpeerdma-hooks, in front of no libcuda, and then of one that
 * lacks most of what the hooks know: what is not there stays so, and says so.  And a
 * subscriber that forks.
 *
 *	test_hooks_lacking STAND-IN [first]
 */
#include <dlfcn.h>

#include "../check.h"
#include "peerdma_hooks.h"

#define NOT_INITIALIZED		3	/* CUDA_ERROR_NOT_INITIALIZED */
#define NOT_FOUND		500
#define VARIANTS		8	/* of a function, that the stand-in has */
#define COPIES			6	/* that the hooks have for it: SLOTS */
#define NEWEST			11000	/* what the stand-in has */
#define HSA_NOT_INITIALIZED	0x100b	/* HSA_STATUS_ERROR_NOT_INITIALIZED */

/* The hooks'. */
int cuMemAlloc_v2(uint64_t *p, size_t size);
int cuMemFree_v2(uint64_t p);
int cuMemHostAlloc(void **p, size_t size, unsigned int flags);
int cuGetProcAddress(const char *symbol, void **pfn, int version, unsigned long long flags);
int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, unsigned long long flags, int *status);
int hsa_memory_free(void *p);

static unsigned int told;
static struct peerdma_hook_event last;

static void tell(void *arg, const struct peerdma_hook_event *event)
{
	last = *event;
	told++;
}

/* Neither library is there, or the function is not in it. */
static void absent(const char *what)
{
	uint64_t was = *peerdma_hooks_making(), p = 5;
	void *host = &p;

	told = 0;
	printf("# %s\n", what);
	CHECK(cuMemAlloc_v2(&p, 4096) == NOT_INITIALIZED && p == 5, "an allocation that is not there fails, and writes nothing");
	CHECK(cuMemHostAlloc(&host, 4096, 0) == NOT_INITIALIZED && host == &p, "host memory, too");
	CHECK(hsa_memory_free(&p) == HSA_NOT_INITIALIZED, "HSA's free, too");
	CHECK(!told, "and no subscriber is notified");
	CHECK(*peerdma_hooks_making() == was, "nor is anything counted");
}

typedef int (*get_v2)(const char *symbol, void **pfn, int version, unsigned long long flags, int *status);
typedef int (*get_v1)(const char *symbol, void **pfn, int version, unsigned long long flags);

static bool first;	/* the stand-in has the first cuGetProcAddress, not the second */

/* The one that is there; the other must not be. */
static int get(const char *symbol, void **pfn, unsigned long long flags)
{
	void *other = &told;
	int status = 0;

	if (first) {
		CHECK(cuGetProcAddress_v2("cuMemFree", &other, NEWEST, 0, &status) == NOT_INITIALIZED && other == &told,
		      "the second cuGetProcAddress is not there");
		return cuGetProcAddress(symbol, pfn, NEWEST, flags);
	}
	CHECK(cuGetProcAddress("cuMemFree", &other, NEWEST, 0) == NOT_INITIALIZED && other == &told,
	      "the first cuGetProcAddress is not there");
	return cuGetProcAddress_v2(symbol, pfn, NEWEST, flags, &status);
}

static void by_proc(void *library)
{
	int (*freed)(unsigned int variant) = NULL;
	void *p = &told, *variant[VARIANTS] = { NULL };

	*(void **)&freed = dlsym(library, "lacking_freed");
	CHECK(!get("cuMemAllocAsync", &p, 0) && !p, "cuGetProcAddress answers success and has no such function: no pointer is given");
	p = &told;
	CHECK(get("cuMemAlloc", &p, 0) == NOT_FOUND && p == &told,
	      "it answers that there is none: what the program had is not replaced");
	CHECK(!get(NULL, &p, 0) && p == &told, "without a name nothing is replaced");
	CHECK(!get("cuMemFree", NULL, 0), "nor without a place for the pointer");
	CHECK(!get("cuGetProcAddress", &p, 0) && p == (first ? (void *)(uintptr_t)cuGetProcAddress : (void *)(uintptr_t)cuGetProcAddress_v2),
	      "by itself it is found as the hooks', not as CUDA's");
	for (unsigned int i = 0; i < VARIANTS; i++)
		CHECK(!get("cuMemFree", &variant[i], i) && variant[i], "a variant of a free");
	for (unsigned int i = 0; i < VARIANTS; i++) {
		int (*call)(uint64_t p);
		unsigned int before = told;

		*(void **)&call = variant[i];
		CHECK(!call(4096) && freed(i) == 1, "a variant goes where it would have gone");
		CHECK(told == before + (i < COPIES ? 2 : 0), "%s", i < COPIES ? "the subscriber is notified before and after" : "no hook is left for it: no notification");
	}
}

static void spans(void)
{
	told = 0;
	CHECK(!cuMemFree_v2(8192) && told == 2 && last.addr == 8192 && last.length == 4096, "the notification names the allocation, as CUDA does");
	CHECK(!cuMemFree_v2(13) && told == 4 && !last.addr && last.length == UINT64_MAX, "one that CUDA does not know may be any memory");
	CHECK(!cuMemFree_v2(0) && told == 4, "freeing nothing notifies no subscriber");
}

static void report(void)
{
	struct peerdma_hook_report r[PEERDMA_HOOKS_MAX];
	unsigned int n = peerdma_hooks_report(r, PEERDMA_HOOKS_MAX), absent = 0, there = 0;

	CHECK(n && n <= PEERDMA_HOOKS_MAX && peerdma_hooks_report(r, 1) == n && peerdma_hooks_report(NULL, n) == n,
	      "the report's length does not depend on the room");
	peerdma_hooks_unsubscribe(NULL, NULL);
	for (unsigned int i = 0; i < n; i++) {
		if (!strcmp(r[i].call, "cuMemFree_v2")) {
			there += !r[i].missed && r[i].events == COPIES + 3;
			/* A program that asks as today's do has no cuGetProcAddress of the first kind. */
			CHECK(r[i].ways == (PEERDMA_HOOK_BY_NAME | PEERDMA_HOOK_BY_DLSYM | (first ? 0 : PEERDMA_HOOK_BY_PROC)),
			      "the free is seen in each way");
		} else {
			absent += r[i].missed == PEERDMA_HOOK_ABSENT && !r[i].ways;
		}
	}
	CHECK(there == 1 && absent == n - 1, "the free was called, and all else is absent");
}

static pid_t child;

static void forks(void *arg, const struct peerdma_hook_event *event)
{
	*(unsigned int *)arg += 1;
	if (!event->after && child < 0)
		child = fork();
}

/* The child is in the middle of the call: it ends there, and the library works on. */
static void fork_inside(void)
{
	unsigned int calls = 0, others = 0;
	int status = -1;

	child = -1;
	CHECK(!peerdma_hooks_subscribe(forks, &calls), "a subscriber that forks");
	CHECK(!cuMemFree_v2(4096) && calls == 2);
	if (!child) {
		int bad = 0;

		/* Its own second event is told, and from now on it has a list of its own. */
		bad |= cuMemFree_v2(4096) || calls != 4;
		peerdma_hooks_unsubscribe(forks, &calls);
		bad |= cuMemFree_v2(4096) || calls != 4;
		bad |= peerdma_hooks_subscribe(forks, &others);
		bad |= cuMemFree_v2(4096) || others != 2 || calls != 4;
		_exit(bad);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && !status, "the child leaves the call, is told, and ends its subscription");
	CHECK(!cuMemFree_v2(4096) && calls == 4, "the parent's goes on");
	peerdma_hooks_unsubscribe(forks, &calls);
	CHECK(!cuMemFree_v2(4096) && calls == 4, "and ends");
}

int main(int argc, char **argv)
{
	void *library;

	alarm(60);
	CHECK(!peerdma_hooks_subscribe(tell, NULL), "a subscriber");
	absent("no libcuda, no HSA");
	CHECK(!peerdma_hooks_report(NULL, 0), "there is nothing to report");
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	/* The report comes at exit: no abort(). */
	if (!CHECK(library, "the stand-in: %s", argc > 1 ? dlerror() : "which?"))
		return check_end(NULL);
	first = !strcmp(argv[argc - 1], "first");
	absent("a libcuda that lacks them");
	by_proc(library);
	spans();
	report();
	peerdma_hooks_unsubscribe(tell, NULL);
	fork_inside();
	return check_end(NULL);
}
