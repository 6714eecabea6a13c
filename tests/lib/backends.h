/* SPDX-License-Identifier: MIT */
/* backends.h - the tests of test_backends.c, and what they share. */
#ifndef BACKENDS_H
#define BACKENDS_H

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

/* backends_host.c */
void overlapping(void **state);
void holes(void **state);
void read_only(void **state);
void host_views(void **state);

/* backends_cuda.c */
void dmabuf(void **state);
void dmabuf_fails(void **state);
void no_views(void **state);
void by_id(void **state);
void captured(void **state);
void staging(void **state);
void staging_mapped(void **state);

#endif
