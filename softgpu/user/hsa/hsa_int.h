/* SPDX-License-Identifier: MIT */
/*
 * hsa_int.h - what the files of softgpu's libhsa-runtime64 share.
 *
 * One lock, hsa_lock, for all that they keep; it is not held while a callback of the
 * program's runs, nor while the driver frees memory.  What is in the table of
 * allocations is mapped.
 */
#ifndef SGU_HSA_INT_H
#define SGU_HSA_INT_H

#include <pthread.h>

#include "hsa/hsa.h"
#include "hsa/hsa_ext_amd.h"
#include "transport.h"

#define SGU_EXPORT __attribute__((visibility("default")))

#define HSA_PAGE	((size_t)4096)

struct hsa_gpu {
	struct softgpu_info info;
	uint32_t ctx;			/* the driver's handle */
	bool has_pool;			/* fixed: all of its memory is in its BAR */
};

extern pthread_mutex_t hsa_lock;
extern struct hsa_gpu hsa_gpus[SOFTGPU_MAX_GPUS];
extern int hsa_gpu_count;

/* With hsa_lock held: whether hsa_init has been called and this is no forked child. */
bool hsa_ready(void);

/* The CPU's agent and pool are numbered -1, a GPU's as in hsa_gpus.  False: no such one. */
bool hsa_agent_number(hsa_agent_t agent, int *number);
bool hsa_pool_number(hsa_amd_memory_pool_t pool, int *number);
hsa_agent_t hsa_agent_of(int number);

/* In the driver's -errno, HSA's. */
hsa_status_t hsa_status_of(int err);

/* memory.c: with hsa_lock held.  Forgets all allocations, and unmaps them. */
void hsa_memory_end(void);

#endif
