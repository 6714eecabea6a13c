/* SPDX-License-Identifier: MIT */
/* hooks.h - between the files of libpeerdma-hooks. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peerdma_hooks.h"

#define EXPORT __attribute__((visibility("default")))

/* loader.c: whose functions are watched. */
enum { CUDA, HSA, LIBRARIES };

struct library {
	const char *soname;
	const char *prefix;		/* of all its functions */
	/* The result of a call if the library or its function is not there */
	int absent;
	_Atomic(void *) handle;
};

extern struct library libraries[LIBRARIES];

/*
 * One function of CUDA may have several addresses: the one that its name would be bound to
 * without this library, those from dlsym() and cuGetProcAddress(), variants for per-thread
 * streams, and those of other libraries that intercept it.  Each has its own copy of our
 * function, which calls that address.  So a call reaches what it would have reached without
 * this library, and other interposers see what they would have seen.
 */
#define SLOTS 6

enum hook_id {
#define HOOK(library, name, ...) ID_##name,
#include "calls.def"
#undef HOOK
	ID_cuGetProcAddress, ID_cuGetProcAddress_v2,
	HOOK_IDS
};

struct hook {
	unsigned int library;
	unsigned int id;		/* enum hook_id */
	const char *name;		/* as the library exports it */
	const char *proc;		/* as cuGetProcAddress() knows it */
	void *ours[SLOTS];		/* [0]: the exported one, which calls the next by name */
	_Atomic(void *) real[SLOTS];	/* [0]: the next one by name, if there is one */
	_Atomic(void *) own;		/* the library's own, found when first needed */
	_Atomic uint64_t alone;		/* loader_loads() when there was no next one */
	_Atomic uint64_t events;
};

/* calls.c: ends with a NULL name. */
extern struct hook hooks[];

/* next.c */

/* The library's own function; NULL: it is not there. */
void *hook_own(struct hook *h);
/* What copy `slot' calls; NULL: the library, or its function, is not there. */
void *hook_real(struct hook *h, unsigned int slot);
/* Our copy for this original, or `real' itself if all copies are taken, or if it is ours. */
void *hook_for(struct hook *h, void *real);
bool hook_is_ours(const struct hook *h, const void *p);

/*
 * What a call of copy `slot' goes to in this thread: hook_real(), or, if the thread is in a call of
 * this copy already, the library's own.  The call is between hook_enter() and hook_leave().
 */
void *hook_target(struct hook *h, unsigned int slot);
bool hook_enter(const struct hook *h, unsigned int slot);
void hook_leave(const struct hook *h, unsigned int slot, bool was);

/* events.c */
void hook_count(struct hook *h);
/* Around a call that may make addresses CUDA's or HSA's: peerdma_hooks_making(). */
void making_begins(void);
void making_ends(void);
void hook_tell(struct hook *h, uint32_t kind, uint32_t after, uint64_t addr, uint64_t length);

/* loader.c: the C library's own dlsym(), not the one of symbols.c. */
typedef void *(*dlsym_fn)(void *handle, const char *name);
dlsym_fn loader_dlsym(void);
void *real_dlsym(void *handle, const char *name);
/* The library if the process has loaded it; it stays loaded. */
void *library(unsigned int which);
/* The library's own function; NULL: there is no such function or library. */
void *real_symbol(unsigned int which, const char *name);
/* What `name' would be bound to without this library, in the order of global names; NULL: nothing. */
void *next_symbol(const char *name);
/* How many libraries were ever loaded; another number when one more was. */
uint64_t loader_loads(void);
/* The library of this function stays loaded. */
void loader_keep(const void *function);
