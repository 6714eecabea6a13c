/* SPDX-License-Identifier: MIT */
/*
 * peerdma_hooks.h - libpeerdma-hooks: notifies when this process allocates or frees GPU
 * memory through CUDA's driver API, or through HSA's runtime (AMD), on which HIP stands.
 *
 * A registration cache of GPU memory needs it where no kernel module reports that a
 * registration became invalid. libpeerdma's caches and contexts use it by themselves.
 *
 * The library defines functions with CUDA's and HSA's names. Each calls the original and
 * notifies the subscribers. The library must come first where the dynamic loader looks up names:
 *
 *	LD_PRELOAD=libpeerdma-hooks.so.0 program	or
 *	cc program.c -lpeerdma-hooks -lcuda ...		linked before libcuda
 *
 * The library intercepts calls:
 *   - by name
 *   - by a pointer from dlsym() or cuGetProcAddress(). The CUDA runtime gets the driver's
 *     functions that way, linked dynamically or statically.
 *
 * Other libraries may intercept the same functions: limits of GPU memory, profilers. Each call goes
 * where it would go without this library:
 *   - a call by name: to the next library in the loader's order that has the function, or to CUDA's
 *   - a call by a pointer: to what dlsym() or cuGetProcAddress() would have returned; another
 *     library's versions of these two are asked first
 * Put this library in front of the others: one that comes first and calls CUDA by itself hides its calls.
 *
 * It does not intercept:
 *   - calls by a pointer that was fetched before this library was loaded
 *   - calls in another namespace of dlmopen()
 *   - calls through undocumented tables of CUDA
 *   - frees that a CUDA graph makes as it runs
 *
 * peerdma_hooks_report() shows what the library intercepts in the running process. A cache that must not
 * miss any free of CUDA compares CUDA's buffer ids as well; HSA has no such ids.
 *
 * Any thread may call any function. A forked child inherits the subscriptions.
 */
#ifndef PEERDMA_HOOKS_H
#define PEERDMA_HOOKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum peerdma_hook_kind {
	PEERDMA_HOOK_FREE = 1,	/* one event before the free, one after it */
	PEERDMA_HOOK_ALLOC = 2,	/* after an allocation: nothing known of these addresses holds any more */
};

/* The library's, valid during the call. Later releases may add to its end. */
struct peerdma_hook_event {
	uint32_t kind;		/* enum peerdma_hook_kind */
	uint32_t after;		/* of FREE: 0 before the free, 1 after it */
	uint64_t addr;		/* first byte of the memory */
	uint64_t length;	/* bytes. UINT64_MAX with addr 0: any memory may be freed, with a context, pool or module */
	const char *call;	/* the function that was called, such as "cuMemFree_v2" */
};

/*
 * A subscriber. It runs in the thread that frees or allocates. No lock of this library is held.
 * It may call CUDA or HSA, except functions that allocate or free. It must not wait for a
 * thread that may be inside CUDA, and must not unsubscribe itself.
 */
typedef void (*peerdma_hook_fn)(void *arg, const struct peerdma_hook_event *event);

/*
 * 1: the library comes first in the lookup of names. 0: it is loaded, but names are found
 * in CUDA first, and subscribers are not called.
 */
int peerdma_hooks_active(void);

/*
 * Calls fn(arg, event) for every event from now on. There is no limit on subscribers.
 *
 *   -ENOMEM  out of memory: fn is not subscribed
 *   -EINVAL  fn is NULL
 */
int peerdma_hooks_subscribe(peerdma_hook_fn fn, void *arg);

/*
 * Ends the subscription of the same pair. Waits while another thread runs fn with arg; when it
 * returns, fn is not running with arg and is not called again. Do not call it from fn.
 */
void peerdma_hooks_unsubscribe(peerdma_hook_fn fn, void *arg);

/*
 * For a program that remembers which addresses CUDA and HSA do not know: a word that changes when
 * such an answer may have changed. The word is valid for the life of the process and is never 0.
 *
 * Its low bits, PEERDMA_HOOKS_MAKING_NOW, count the calls in progress, in all threads, that can
 * make an address known: calls that allocate, map or reserve GPU memory, that allocate or register
 * host memory, that map external memory or graphics resources, that load modules, and hsa_init().
 * The other bits count all such calls that ever began.
 *
 *	was = __atomic_load_n(word, __ATOMIC_ACQUIRE);
 *	... ask CUDA: it does not know the address ...
 *	if (!(was & PEERDMA_HOOKS_MAKING_NOW))
 *		remember the answer, with `was`
 *
 * A remembered answer holds for as long as the word equals `was`.
 *
 * Not counted: kernel launches, which may load the variables of a module that was never asked for
 * by name, and memory that CUDA allocates for its own use.
 */
#define PEERDMA_HOOKS_MAKING_ONE (1ULL << 20)
#define PEERDMA_HOOKS_MAKING_NOW (PEERDMA_HOOKS_MAKING_ONE - 1)
const uint64_t *peerdma_hooks_making(void);

/* The ways in which a program can call a function. */
#define PEERDMA_HOOK_BY_NAME	(1U << 0)	/* by a name that the dynamic loader binds */
#define PEERDMA_HOOK_BY_DLSYM	(1U << 1)	/* by a pointer from dlsym() */
#define PEERDMA_HOOK_BY_PROC	(1U << 2)	/* by a pointer from cuGetProcAddress() */
#define PEERDMA_HOOK_ABSENT	(1U << 3)	/* the process has no such library, or the library no such function */

struct peerdma_hook_report {
	const char *call;	/* the function */
	uint32_t ways;		/* PEERDMA_HOOK_BY_*: tried now, and seen */
	uint32_t missed;	/* PEERDMA_HOOK_BY_*: tried now, and not seen; or PEERDMA_HOOK_ABSENT */
	uint64_t events;	/* calls seen since the process began */
};

/*
 * Tries each way for each function, without calling the function. Writes up to n reports (none, if reports is NULL) and
 * returns the number of functions; 0 if the process has neither libcuda.so.1 nor
 * libhsa-runtime64.so.1. With PEERDMA_HOOKS=report in the environment, the same report is
 * printed to stderr when the process ends; it also names other libraries that intercept.
 * PEERDMA_HOOKS=json prints it as one JSON object, schema peerdma-hooks/1.
 */
#define PEERDMA_HOOKS_MAX 256	/* no release has more functions */
unsigned int peerdma_hooks_report(struct peerdma_hook_report *reports, unsigned int n);

/*
 * The file of another library that intercepts `call` too, a function of the report. NULL: there is none. The
 * text is valid as long as that library is loaded.
 */
#define PEERDMA_HOOK_BEHIND	1	/* what this library's function calls, by name */
#define PEERDMA_HOOK_IN_FRONT	2	/* what is found before this library's function, by name */
const char *peerdma_hooks_other(const char *call, int place);

#ifdef __cplusplus
}
#endif

#endif
