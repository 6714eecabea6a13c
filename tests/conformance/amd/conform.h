/* SPDX-License-Identifier: MIT */
/*
 * conform.h - what the rules of AMD's interface share: HIP found at run time, the
 * client module, and rows of the table.  Each group of rules runs in a process of its
 * own, so that one that crashes or hangs fails alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "board.h"
#include "child.h"
#include "amd_rdma_test.h"

#define PAGE	((uint64_t)getpagesize())	/* the system's */
#define BLOCK	((uint64_t)2 << 20)

/* The group that runs. */
extern const char *group_name;

/* Does an operation; ends the process when it makes no sense. */
struct amd_rdma_test_call t_do(struct amd_rdma_test_call c);
#define T(...)	t_do((struct amd_rdma_test_call){ __VA_ARGS__ })

/* hipMalloc and its kin; they end the process when they fail. */
char *gpu_alloc(size_t size);
void gpu_free(void *p);
/* Memory of the CPU's pool; NULL: this HIP has none. */
char *host_alloc(size_t size);
void host_free(void *p);
void gpu_copy(void *dst, const void *src, size_t size);
bool hip_up(void);

extern int api;			/* 1 or 2 */
extern bool callbacks;		/* memory that goes away is taken from its pins */
extern uint32_t peer;		/* 0: none */

struct group {
	const char *name;
	void (*run)(void);
};
extern const struct group groups[];
