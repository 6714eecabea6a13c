/* SPDX-License-Identifier: MIT */
/*
 * gpu.h - a GPU as a program under stress uses it: by the driver's own calls, or
 * by libcuda.  One of them per process.  Calls return 0 or an errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct user_gpu;

struct gpu_ops {
	const char *name;
	bool visible;		/* raw: the CPU sees its memory, which is AMD's */
	bool in_host;		/* Tegra's: memory of the machine, which the CPU has at the same address */
	int (*open)(struct user_gpu *g, int index);
	int (*ctx_create)(struct user_gpu *g);
	int (*ctx_destroy)(struct user_gpu *g);
	int (*alloc)(struct user_gpu *g, uint64_t length, uint64_t *va);
	int (*free)(struct user_gpu *g, uint64_t va);
	/* Queued, unless sync. */
	int (*copy)(struct user_gpu *g, uint64_t dst, uint64_t src, uint64_t length, bool sync);
	/* All that was queued is done. */
	int (*sync)(struct user_gpu *g);
	/* NULL: there are none, and no persistent pins either. */
	int (*tokens)(struct user_gpu *g, uint64_t va, uint64_t *p2p, uint32_t *va_space);
	/* A dma-buf of it.  NULL: there is none. */
	int (*export)(struct user_gpu *g, uint64_t va, uint64_t length, int *fd);
	/* NULL: there is no such thing. */
	void (*close)(struct user_gpu *g);
};

struct user_gpu {
	const struct gpu_ops *ops;
	int fd;			/* raw */
	uint32_t ctx;		/* raw */
	void *window;		/* raw */
	void *cu_ctx;		/* libcuda */
};

extern const struct gpu_ops gpu_raw, gpu_raw_amd, gpu_raw_tegra;

/* Loads libcuda, without starting it; NULL if there is none. */
const struct gpu_ops *gpu_cuda(bool tegra);
