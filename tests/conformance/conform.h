/* SPDX-License-Identifier: MIT */
/*
 * conform.h - what the rules share: a CUDA driver found at run time, the client module
 * nvp2p_test.ko, and rows of the table.
 *
 * Each group of rules runs in a process of its own, with a context on the GPU, so
 * that one that crashes or hangs fails alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "board.h"
#include "child.h"
#include "nvp2p_test.h"

#define KIB64	((uint64_t)65536)
/* What real drivers give allocations of their own for, at such addresses. */
#define BLOCK	((uint64_t)2 << 20)

/* The kernel's own: not supported. */
#define ENOTSUPP	524

struct options {
	unsigned int gpu;
	uint32_t peer;		/* 0: none */
	unsigned int bar1_mib;	/* how much to pin in search of the aperture's end */
	unsigned int seconds;	/* for each group */
	const char *only;	/* NULL: all */
	bool json;
};
extern struct options options;
extern uint64_t features;	/* F_* of the header that the module was built with */

/* ---- the client module ---- */

/* Does an operation; ends the process when it makes no sense. */
struct nvp2p_test_call t_do(struct nvp2p_test_call c);
#define T(...)	t_do((struct nvp2p_test_call){ __VA_ARGS__ })

static inline struct nvp2p_test_call t_get(int slot, uint64_t va, uint64_t length)
{
	return T(.op = T_GET, .slot = slot, .va = va, .length = length);
}

static inline int t_put(int slot)
{
	return T(.op = T_PUT, .slot = slot).ret;
}

static inline struct nvp2p_test_call t_state(int slot)
{
	return T(.op = T_STATE, .slot = slot);
}

void t_pages(int slot, uint64_t *pages, int n);
/* Pins or ends the process. */
void pin(int slot, uint64_t va, uint64_t length);
/* Pins a block and maps it for the peer: that mapping's first address.  False: it cannot be mapped, and a row says so. */
bool pin_mapped(const char *rule, const char *what, uint64_t va, uint64_t *dma);
/* A row: such an address must lead nowhere any more. */
void leads_nowhere(const char *rule, const char *what, uint64_t dma);

/* ---- CUDA (cuda.c) ---- */

typedef unsigned long long gpu_ptr;

#define CUDA_CALLS(X) \
	X(cuInit, (unsigned int)) \
	X(cuGetErrorName, (int, const char **)) \
	X(cuDeviceGet, (int *, int)) \
	X(cuDeviceGetName, (char *, int, int)) \
	X(cuDeviceGetUuid, (void *, int)) \
	X(cuDevicePrimaryCtxRetain, (void **, int)) \
	X(cuCtxSetCurrent, (void *)) \
	X(cuCtxCreate_v2, (void **, unsigned int, int)) \
	X(cuCtxDestroy_v2, (void *)) \
	X(cuCtxSynchronize, (void)) \
	X(cuMemAlloc_v2, (gpu_ptr *, size_t)) \
	X(cuMemFree_v2, (gpu_ptr)) \
	X(cuMemAllocManaged, (gpu_ptr *, size_t, unsigned int)) \
	X(cuMemAllocHost_v2, (void **, size_t)) \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned int)) \
	X(cuMemcpyHtoD_v2, (gpu_ptr, const void *, size_t)) \
	X(cuMemcpyDtoH_v2, (void *, gpu_ptr, size_t)) \
	X(cuPointerGetAttribute, (void *, int, gpu_ptr)) \
	X(cuPointerSetAttribute, (const void *, int, gpu_ptr))

struct cuda {
#define X(name, args) int (*name) args;
	CUDA_CALLS(X)
#undef X
};
extern struct cuda cuda;

/* Finds the library, does not start it.  NULL, or what is missing. */
const char *cuda_load(void);
/* cuInit and a context on the GPU in this process; ends it when that fails. */
void cuda_up(void);
/* Each ends the process when CUDA cannot. */
gpu_ptr cuda_alloc(size_t size);
void cuda_free(gpu_ptr p);
void cuda_write(gpu_ptr p, uint32_t word);
uint32_t cuda_read(gpu_ptr p);
/* False: this driver has no tokens. */
bool cuda_tokens(gpu_ptr p, uint64_t *p2p_token, uint32_t *va_space);
/* "driver version, name of the GPU"; a process of its own asks. */
void cuda_describe(char *to, size_t size);

/* ---- the rules ---- */

struct group {
	const char *rule;	/* of the reference, such as "1.5" */
	const char *name;
	void (*run)(void);
	uint64_t needs;		/* F_* */
	bool needs_peer;
	bool no_cuda;		/* no GPU is to be open */
};
extern const struct group get_groups[], persistent_groups[], put_groups[], callback_groups[], dma_groups[],
	other_groups[];
