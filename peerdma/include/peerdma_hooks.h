/* SPDX-License-Identifier: MIT */
/*
 * peerdma_hooks.h - libpeerdma-hooks: be told when this process allocates and
 * frees GPU memory through CUDA's driver API, or through HSA's runtime (AMD's).
 *
 * For who keeps registrations of GPU memory and has no kernel module that tells
 * when they go stale.  The library has functions of CUDA's and HSA's names in front
 * of theirs; it must come first where names are looked up:
 *
 *	LD_PRELOAD=libpeerdma-hooks.so.0 program	or
 *	cc program.c -lpeerdma-hooks -lcuda ...		linked before libcuda
 *
 * Seen are calls by name, by what dlsym() and cuGetProcAddress() return, and with
 * them those of the CUDA runtime, dynamic or linked statically, which gets the
 * driver's functions that way.  Not seen are calls by a pointer that was fetched
 * before this library was there, from namespaces of dlmopen(), by tables of
 * CUDA that are not documented, and frees that a graph makes as it runs.  The same holds for HSA, and for HIP on top of it.
 * peerdma_hooks_report() says what is seen in the process at hand; whoever must not
 * miss a free of CUDA's checks buffer ids as well.  HSA has none.
 */
#ifndef PEERDMA_HOOKS_H
#define PEERDMA_HOOKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum peerdma_hook_kind {
	PEERDMA_HOOK_FREE = 1,	/* before the free, and after it */
	PEERDMA_HOOK_ALLOC = 2,	/* after it: whatever was known of these addresses is over */
};

struct peerdma_hook_event {
	uint32_t kind;		/* enum peerdma_hook_kind */
	uint32_t after;		/* FREE: 0 before, 1 after */
	uint64_t addr;		/* of the memory; 0 and */
	uint64_t length;	/* UINT64_MAX: all, a context, a pool or a module went */
	const char *call;	/* "cuMemFree_v2" */
};

/*
 * Called in the thread that frees, without locks of this library.  It may call
 * CUDA or HSA, but for frees and allocations, and must not wait for another thread that
 * may be in CUDA.
 */
typedef void (*peerdma_hook_fn)(void *arg, const struct peerdma_hook_event *event);

/*
 * Whether the library is in front: 1, or 0 when this copy is loaded but names are
 * found elsewhere first, and subscribing is of no use.
 */
int peerdma_hooks_active(void);

/*
 * Calls fn(arg) for every event from now on; up to 16 at a time.
 *
 *   -ENOSPC  there are 16
 *   -EINVAL  fn is NULL
 */
int peerdma_hooks_subscribe(peerdma_hook_fn fn, void *arg);

/* The same pair again.  When it returns, fn is not running and will not be called; not from fn itself. */
void peerdma_hooks_unsubscribe(peerdma_hook_fn fn, void *arg);

/*
 * For who remembers that CUDA and HSA did not know an address: the word at this
 * place says whether they may by now.  Its bits of PEERDMA_HOOKS_MAKING_NOW count the
 * calls that are under way, in any thread, and may make addresses theirs: what
 * allocates, maps or reserves GPU memory, what allocates or registers host memory,
 * mapping of external memory and graphics' resources, loading of modules, hsa_init().
 * The rest counts those that ever began.
 *
 *	was = __atomic_load_n(word, __ATOMIC_ACQUIRE);
 *	... CUDA is asked, and does not know the address ...
 *	if (!(was & PEERDMA_HOOKS_MAKING_NOW)) remember it with `was'
 *
 * and as long as the word is `was' it is still so.  One that is remembered after the
 * call began is not valid when it has ended; while it is under way none is remembered.
 * Not counted are a kernel's launch, which may load variables of a module that
 * nobody asked for by name, and what CUDA takes for itself and hands to nobody.  Never 0.
 */
#define PEERDMA_HOOKS_MAKING_ONE (1ULL << 20)
#define PEERDMA_HOOKS_MAKING_NOW (PEERDMA_HOOKS_MAKING_ONE - 1)
const uint64_t *peerdma_hooks_making(void);

/* By which ways calls of a function come here. */
#define PEERDMA_HOOK_BY_NAME	(1U << 0)	/* calls that the dynamic loader binds */
#define PEERDMA_HOOK_BY_DLSYM	(1U << 1)	/* what dlsym() of libcuda gives */
#define PEERDMA_HOOK_BY_PROC	(1U << 2)	/* what cuGetProcAddress() gives */
#define PEERDMA_HOOK_ABSENT	(1U << 3)	/* there is no such library in the process, or no such function in it */

struct peerdma_hook_report {
	const char *call;
	uint32_t ways;		/* PEERDMA_HOOK_BY_* that were tried just now and lead here */
	uint32_t missed;	/* those that were tried and do not */
	uint64_t events;	/* calls seen so far */
};

/*
 * Tries, for each function that is watched, each way there is, without calling
 * the function.  Fills up to n reports and returns how many functions there are;
 * 0 when the process has neither libcuda.so.1 nor libhsa-runtime64.so.1.  PEERDMA_HOOKS=report in the environment
 * prints the same to stderr when the process ends.
 */
#define PEERDMA_HOOKS_MAX 256	/* no release watches more */
unsigned int peerdma_hooks_report(struct peerdma_hook_report *reports, unsigned int n);

#ifdef __cplusplus
}
#endif

#endif
