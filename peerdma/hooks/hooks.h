/* SPDX-License-Identifier: MIT */
/* hooks.h - between the files of libpeerdma-hooks. */
#pragma once

#include <stdatomic.h>
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
 * One function of CUDA may have several addresses: from dlsym(), from
 * cuGetProcAddress(), and variants for per-thread streams.  Each has its own copy of
 * our function, so that a call reaches the address for which it was meant.
 */
#define SLOTS 4

struct hook {
	unsigned int library;
	const char *name;		/* as the library exports it */
	const char *proc;		/* as cuGetProcAddress() knows it */
	void *ours[SLOTS];		/* [0]: the exported one, for dlsym()'s */
	_Atomic(void *) real[SLOTS];	/* [0]: found when first needed */
	_Atomic uint64_t events;
};

/* calls.c: ends with a NULL name. */
extern struct hook hooks[];

/* The original of copy `slot'; NULL: the library, or its function, is not there. */
void *hook_real(struct hook *h, unsigned int slot);
/* Our copy for this original, or `real' itself if all copies are taken. */
void *hook_for(struct hook *h, void *real);

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
