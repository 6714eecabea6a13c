// SPDX-License-Identifier: MIT
/*
 * test_making.c - with libpeerdma-hooks, in front of a stand-in for libcuda: each
 * function that makes addresses CUDA's is counted while it runs, each that ends memory is
 * told before it runs and after, and gets the arguments that it was called with.
 */
#include <dlfcn.h>

#include "../check.h"
#include "stand-in/fake_cuda.h"
#include "peerdma_hooks.h"

static int called;

static const struct fake_call *(*last)(void);

/* COUNT(of the parameters), 0 for (void). */
#define NTH(_0, _1, _2, _3, _4, _5, _6, _7, _8, n, ...)	n
#define COUNT(...)	NTH(, ##__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define UNPACK(...)	__VA_ARGS__

static unsigned int told;

static void tell(void *arg, const struct peerdma_hook_event *event)
{
	if (event->kind == PEERDMA_HOOK_FREE && event->after == told && !strcmp(event->call, arg))
		told++;
}

static void try(void *library, const char *name, int parameters, int making, int frees)
{
	int (*call)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
	const uint64_t *word = peerdma_hooks_making();
	uint64_t before = *word;
	int passed = 1;

	*(void **)&call = dlsym(library, name);
	CHECK(call != NULL, "%s: is there", name);
	if (!call)
		return;
	told = 0;
	CHECK(!peerdma_hooks_subscribe(tell, (void *)name), "%s: can be subscribed to", name);
	CHECK(call(1, 2, 3, 4, 5, 6, 7, 8) == 77, "%s: returns what CUDA's does", name);
	peerdma_hooks_unsubscribe(tell, (void *)name);
	CHECK(told == (frees ? 2 : 0), "%s: the subscriber is %s", name, frees ? "notified before and after" : "not notified");
	CHECK(!strcmp(last()->name, name), "%s: goes to CUDA's", name);
	for (int i = 0; i < parameters; i++)
		passed &= last()->arguments[i] == (uintptr_t)i + 1;
	CHECK(passed, "%s: gets its arguments", name);
	CHECK(last()->word == before + (making ? PEERDMA_HOOKS_MAKING_ONE + 1 : 0), "%s: is counted as under way meanwhile", name);
	CHECK(*word == before + (making ? PEERDMA_HOOKS_MAKING_ONE : 0), "%s: and as begun after it, though it failed", name);
	called++;
}

int main(int argc, char **argv)
{
	struct peerdma_hook_report r[PEERDMA_HOOKS_MAX];
	void (*watch)(const uint64_t *);
	unsigned int n, reported = 0;
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

	if (!library || !peerdma_hooks_active()) {
		printf("not ok - the stand-in, and the hooks in front of it\n");
		return 1;
	}
	*(void **)&last = dlsym(library, "fake_last");
	*(void **)&watch = dlsym(library, "fake_watch");
	watch(peerdma_hooks_making());
	CHECK(*peerdma_hooks_making() && !(*peerdma_hooks_making() & PEERDMA_HOOKS_MAKING_NOW), "the word is not 0, and nothing is under way");

#define CUDA(name, PARAMS, making, frees)	try(library, #name, COUNT PARAMS, making, frees)
#define HSA(...)
#define MAKE_BODY(library_, name, PARAMS)	library_(name, PARAMS, 1, 0);
#define FREE_BODY(library_, name, PARAMS)	library_(name, PARAMS, 0, 1);
#define ALLOC_BODY(...)
#define HOOK(library_, name, proc, BODY, PARAMS, ...)	BODY(library_, name, PARAMS)
#include "../../peerdma/hooks/calls.def"

	n = peerdma_hooks_report(r, PEERDMA_HOOKS_MAX);
	for (unsigned int i = 0; i < n; i++) {
		if (r[i].missed & PEERDMA_HOOK_ABSENT)
			continue;
		reported++;
		CHECK(r[i].events == 1, "%s: was called once", r[i].call);
	}
	CHECK(called >= 30 && reported == (unsigned int)called, "%d functions called, %u reported", called, reported);
	return check_end(NULL);
}
