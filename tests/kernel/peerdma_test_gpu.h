/* SPDX-License-Identifier: MIT */
/*
 * peerdma_test_gpu.h - memory of the provider that PEERDMA_TEST_PROVIDER names:
 * "nvidia" (libcuda's, opened at run time), "amd" (HIP's), "tegra", "dmabuf" or "host".
 * The tests are the same.
 */
#pragma once

#include "peerdma_test.h"

/* The part of the CUDA driver API that the tests use; functions return 0 or an error. */
struct cuda {
	int (*Init)(unsigned int flags);
	int (*DeviceGet)(int *device, int ordinal);
	int (*CtxCreate)(void **ctx, unsigned int flags, int device);
	int (*CtxDestroy)(void *ctx);
	int (*CtxSynchronize)(void);
	int (*MemAlloc)(unsigned long long *ptr, size_t size);
	int (*MemFree)(unsigned long long ptr);
	int (*MemcpyHtoD)(unsigned long long dst, const void *src, size_t size);
	int (*MemcpyDtoH)(void *dst, unsigned long long src, size_t size);
	int (*PointerGetAttribute)(void *data, int attribute, unsigned long long ptr);
};
extern struct cuda cu;

/* What becomes of pins when their memory's owner takes it away. */
enum pin_end { STAY, ENDED_IF_MAPPED, ENDED_BY_FREE };

/* In what providers differ. */
struct gpu_facts {
	const char *provider;
	const char *(*open)(void);	/* fills `cu': what is missing, or NULL */
	uint32_t kind;			/* QUERY's flags of a pin: HOST, DEVICE, DMABUF */
	enum pin_end pins;
	unsigned int page_shift;	/* 0: the system's */
	bool has_address;		/* it is pinned by address, by drivers too; else by a descriptor */
	bool has_view;			/* of the CPU's, and dma-bufs */
	bool in_host;			/* pages of the machine's memory, each where it happens to be */
	bool any_memory;		/* it pins any memory of the process, not only the GPU's */
	/* waits for what a thread of the provider does after memory has gone; NULL: nothing */
	void (*settle)(void);
	bool no_turns;			/* a pin does not wait for other pins' ends */
	bool can_persist;
	bool has_contexts;
	int too_long;			/* errno of a range past the allocation's end */
	int gone;			/* and of memory that was taken away; 0: MAP says it */
	const char *put_delay;	/* softgpu's personality, a module: its put can be made to take long */
};
extern const struct gpu_facts *gpu_facts;

static inline void gpu_settle(void)
{
	if (gpu_facts->settle)
		gpu_facts->settle();
}

#define CU_P2P_TOKENS 5
struct cu_tokens {
	unsigned long long p2p;
	unsigned int va_space;
};

/* Memory can be had; false and why: not so. */
bool memory_open(const char **why);
/* Of the provider's memory; flags: PERSISTENT, READONLY. */
int gpu_pin(int fd, uint64_t va, size_t length, uint32_t flags, struct peerdma_pin_args *args);
uint64_t gpu_alloc(size_t length);
const char *nvidia_open(void);
const char *hip_open(void);

void test_gpu_processes(void);

/* peerdma_test_readers.c; of memory whose pins are ended by its free */
void two_readers(void);

/* What the process does that the test starts with these arguments. */
int gpu_child(const char *what, int fd, int answer);
