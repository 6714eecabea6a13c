// SPDX-License-Identifier: MIT
/*
 * calls.c - a program that allocates and frees GPU memory three times in each way, and prints for each
 * way how many of the allocations and frees each library saw: libpeerdma-hooks, if it is there, and
 * each library made of other.c that is.
 *
 *	others_calls [late LIBRARY local|global] [fork|close]
 *
 * With LINKED it is linked with libcuda, and calls it by name.  Otherwise it opens libcuda for itself.
 * "late": opens another library made of other.c first, which is then asked by its handle as well;
 * "close" closes it in the end, and calls once more.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peerdma_hooks.h"

#define ROUNDS	3
#define MIB	(1UL << 20)

typedef int (*alloc_fn)(uint64_t *p, size_t size);
typedef int (*free_fn)(uint64_t p);

static __attribute__((noreturn)) void fail(const char *what)
{
	fprintf(stderr, "%s failed\n", what);
	exit(1);
}

/* ---- what each library saw ---- */

static const char *const counters[] = { "counted_next", "counted_handle", "counted_own", "counted_back" };
static void *late;

struct seen {
	unsigned int allocs, frees;
};

static struct seen other(const char *counter)
{
	void (*counted)(unsigned int *allocs, unsigned int *frees);
	struct seen s = { 0 };

	/* Found among all names, it could not be closed any more. */
	*(void **)&counted = late ? dlsym(late, counter) : NULL;
	if (!counted)
		*(void **)&counted = dlsym(RTLD_DEFAULT, counter);
	if (counted)
		counted(&s.allocs, &s.frees);
	return s;
}

/* By the hooks: each allocation once, however often it was reported. */
static uint64_t now;
static unsigned int reports;
static struct seen hooks;
static uint64_t allocated_at;

static void tell(void *arg, const struct peerdma_hook_event *event)
{
	(void)arg;
	if (event->kind == PEERDMA_HOOK_ALLOC)
		allocated_at = event->addr;
	else if (!event->after && event->addr == now)
		hooks.frees += !reports++;
}

static void subscribe(void)
{
	int (*call)(peerdma_hook_fn fn, void *arg);

	*(void **)&call = dlsym(RTLD_DEFAULT, "peerdma_hooks_subscribe");
	if (call && call(tell, NULL))
		fail("peerdma_hooks_subscribe");
}

/* A child has no context: its calls fail, behind all the libraries. */
static int in_child;

static void rounds(const char *way, alloc_fn alloc, free_fn release)
{
	struct seen before[4], was = hooks;

	for (unsigned int i = 0; i < 4; i++)
		before[i] = other(counters[i]);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		allocated_at = 0;
		if (alloc(&now, MIB) && !in_child)
			fail(way);
		hooks.allocs += allocated_at == now;
		reports = 0;
		if (release(now) && !in_child)
			fail(way);
	}
	printf("%s:", way);
	for (unsigned int i = 0; i < 4; i++) {
		struct seen s = other(counters[i]);

		if (s.allocs != before[i].allocs || s.frees != before[i].frees)
			printf(" %s=%u+%u", strchr(counters[i], '_') + 1, s.allocs - before[i].allocs, s.frees - before[i].frees);
	}
	printf(" hooks=%u+%u\n", hooks.allocs - was.allocs, hooks.frees - was.frees);
}

/* ---- the ways ---- */

#ifdef LINKED
int cuMemAlloc_v2(uint64_t *p, size_t size);
int cuMemFree_v2(uint64_t p);
int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, unsigned long long flags, int *status);
#endif

/* A success leaves no error behind. */
static void *look_up(void *handle, const char *name)
{
	void *p;

	dlerror();
	p = dlsym(handle, name);
	if (p && dlerror())
		fail("dlerror() after a success");
	return p;
}

static void by_name(void)
{
#ifdef LINKED
	rounds("name", cuMemAlloc_v2, cuMemFree_v2);
#else
	alloc_fn alloc = (alloc_fn)(uintptr_t)look_up(RTLD_DEFAULT, "cuMemAlloc_v2");
	free_fn release = (free_fn)(uintptr_t)look_up(RTLD_DEFAULT, "cuMemFree_v2");

	if (alloc && release)
		rounds("name", alloc, release);
#endif
}

static void by_handle(const char *way, void *handle)
{
	rounds(way, (alloc_fn)(uintptr_t)look_up(handle, "cuMemAlloc_v2"),
	       (free_fn)(uintptr_t)look_up(handle, "cuMemFree_v2"));
}

/* As a CUDA runtime that is linked statically does; and by the cuGetProcAddress that it gives. */
static void by_proc(const char *way, void *get_proc)
{
	int (*get)(const char *symbol, void **pfn, int version, unsigned long long flags, int *status);
	void *alloc = NULL, *release = NULL;
	int status;

	*(void **)&get = get_proc;
	if (!get || get("cuMemAlloc", &alloc, 12000, 0, &status) || get("cuMemFree", &release, 12000, 0, &status))
		fail("cuGetProcAddress");
	rounds(way, (alloc_fn)(uintptr_t)alloc, (free_fn)(uintptr_t)release);
	alloc = release = NULL;
	if (get("cuGetProcAddress", (void **)&get, 12000, 0, &status) || get("cuMemAlloc", &alloc, 12000, 0, &status) ||
	    get("cuMemFree", &release, 12000, 0, &status))
		fail("cuGetProcAddress of cuGetProcAddress");
	rounds("again", (alloc_fn)(uintptr_t)alloc, (free_fn)(uintptr_t)release);
}

static void *cuda;

static void all_ways(void)
{
	by_name();
	by_handle("dlsym", cuda);
	by_proc("runtime", look_up(cuda, "cuGetProcAddress_v2"));
#ifdef LINKED
	by_proc("linked-runtime", (void *)(uintptr_t)cuGetProcAddress_v2);
#endif
	if (late)
		by_handle("other's", late);
}

static void context(void)
{
	int (*init)(unsigned int flags), (*create)(void **ctx, unsigned int flags, int device);
	void *ctx;

	*(void **)&init = dlsym(cuda, "cuInit");
	*(void **)&create = dlsym(cuda, "cuCtxCreate_v2");
	if (!init || !create || init(0) || create(&ctx, 0, 0))
		fail("a context");
}

int main(int argc, char **argv)
{
	int status = 0, i = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(60);
	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda)
		fail("dlopen of libcuda");
	context();
	subscribe();
	if (argc > i + 2 && !strcmp(argv[i], "late")) {
		by_name();
		late = dlopen(argv[i + 1], RTLD_NOW | (strcmp(argv[i + 2], "global") ? RTLD_LOCAL : RTLD_GLOBAL));
		if (!late)
			fail(argv[i + 1]);
		i += 3;
	}
	all_ways();
	if (argc > i && !strcmp(argv[i], "fork")) {
		pid_t child = fork();

		if (!child) {
			in_child = 1;
			by_name();
			exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			fail("the child");
		by_name();
	}
	if (late && argc > i && !strcmp(argv[i], "close")) {
		dlclose(late);
		late = NULL;
		by_name();
	}
	return 0;
}
