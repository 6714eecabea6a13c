/* SPDX-License-Identifier: MIT */
/* hooks.h - between the files of libpeerdma-hooks. */
#ifndef PEERDMA_HOOKS_INTERNAL_H
#define PEERDMA_HOOKS_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "peerdma_hooks.h"

#define EXPORT __attribute__((visibility("default")))

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

enum { CUDA_SUCCESS = 0, CUDA_ERROR_NOT_INITIALIZED = 3, CUDA_ERROR_NOT_FOUND = 500 };

/*
 * One function of CUDA may stand behind several addresses: what dlsym() gives,
 * what cuGetProcAddress() gives, and variants for per-thread streams.  Each gets
 * a copy of our function, so that a call goes on where it would have gone.
 */
#define SLOTS 4

struct hook {
	const char *name;		/* as libcuda exports it */
	const char *proc;		/* as cuGetProcAddress() knows it */
	void *ours[SLOTS];		/* [0]: the exported one, for dlsym()'s */
	_Atomic(void *) real[SLOTS];	/* [0]: found when first needed */
	_Atomic uint64_t events;
};

/* calls.c: ends with a NULL name. */
extern struct hook hooks[];

/* Where a call of copy `slot' goes on; NULL: there is no libcuda. */
void *hook_real(struct hook *h, unsigned int slot);
/* Our function for CUDA's, or `real' itself when there is none to spare. */
void *hook_for(struct hook *h, void *real);

/* events.c */
void hook_tell(struct hook *h, uint32_t kind, uint32_t after, uint64_t addr, uint64_t length);

/* symbols.c: the dynamic loader's own, past the one that is in front of it. */
void *real_dlsym(void *handle, const char *name);
/* libcuda.so.1 if the process has it; it stays. */
void *libcuda(void);

#endif
