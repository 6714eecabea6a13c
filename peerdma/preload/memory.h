/* SPDX-License-Identifier: MIT */
/*
 * memory.h - MRs made by libpeerdma: of GPU memory that the RDMA device's kernel driver does
 * not know by its address, and of any memory where registrations are to be cached.
 */
#pragma once

#include "given.h"

/* PEERDMA_VERBS_CACHE in the environment asks for the cache. */
bool memory_cached(void);

/* A GPU's, by cudaMalloc() or hipMalloc() or their like. */
bool memory_is_gpu(const void *addr);

/*
 * Pins the memory for this MR alone; or, cached, finds or registers a region in the cache, if
 * memory_cached(). NULL and errno; peerdma_last_error() has the text.
 */
struct ibv_mr *memory_reg(struct ibv_pd *pd, void *addr, size_t length, int access, bool cached);

/* Ends what memory_reg() made. 0, or an errno: it is as before. */
int memory_dereg(struct given *given);

/* Deregisters what the cache keeps in a domain that is about to go. 0 or an errno. */
int memory_leave(struct ibv_pd *pd);
