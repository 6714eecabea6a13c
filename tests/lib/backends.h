/* SPDX-License-Identifier: MIT */
/* backends.h - what the files of test_backends share. */
#pragma once

#include "peerdma.h"

#define PAGE 4096UL

struct fake_cuda;

extern char *memory;		/* 64 pages */
extern struct fake_cuda *cuda;	/* of reset_cuda() */

/* provider: PEERDMA_PROVIDER, or NULL: it is not set. */
struct peerdma *open_with(const char *provider, unsigned int flags);
void is_of(struct peerdma_region *region, const char *backend, int direct);
/* The last error's text contains this one. */
void says(const char *text);
/* Bytes of this process that are locked. */
unsigned long locked(void);

/* Before and after tests: the kernel's stand-in as it begins; the first 16 pages are a GPU's; there is no CUDA. */
int reset(void **state);
int reset_cuda(void **state);
int no_cuda(void **state);
