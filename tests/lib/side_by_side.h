/* SPDX-License-Identifier: MIT */
/*
 * side_by_side.h - allocations side by side, as PyTorch's expandable segments have them, for
 * the tests of ranges over several.  The kernel, CUDA and libibverbs are stand-ins.
 */
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>

#include "../cases.h"
#include "fake_cuda.h"
#include "fake_sys.h"
#include "fake_verbs.h"
#include "peerdma.h"

#define PAGE	65536UL		/* the stand-in's */
#define N	52		/* allocations side by side, of a page each */

static char *memory;
static struct fake_cuda *cuda;
static struct fake_verbs *verbs;
static struct peerdma *ctx;
static struct ibv_pd *const pd = (struct ibv_pd *)0x1000;

/* n allocations of `size' bytes at memory, each of which the kernel pins by itself only. */
static void allocations(int n, size_t size)
{
	for (int i = 0; i < 64; i++)
		cuda->memory[i] = (struct fake_memory){
			.base = (uintptr_t)memory + i * size, .size = i < n ? size : 0, .type = 2, .context = cuda, .id = 100 + i,
		};
	fake.allocation = size;
	fake.origin = (uintptr_t)memory;
}

static int reset(void **state)
{
	fake_reset();
	memset(verbs, 0, sizeof(*verbs));
	memset(cuda, 0, sizeof(*cuda));
	fake.device_memory = 1;
	allocations(N, PAGE);
	return 0;
}

static void open_with(const char *provider)
{
	setenv("PEERDMA_PROVIDER", provider, 1);
	if (peerdma_open(&ctx, 0))
		fail_msg("%s", peerdma_last_error());
}

/* Before the tests; 0: there are no stand-ins. */
static int side_by_side(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *ibverbs = dlopen("libibverbs.so.1", RTLD_NOW);
	struct fake_cuda *(*get_cuda)(void) = library ? dlsym(library, "fake_cuda") : NULL;
	struct fake_verbs *(*get_verbs)(void) = ibverbs ? dlsym(ibverbs, "fake_verbs") : NULL;
	char *p = mmap(NULL, 65 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!get_cuda || !get_verbs || p == MAP_FAILED)
		return 0;
	memory = (char *)(((uintptr_t)p + PAGE - 1) & ~(PAGE - 1));
	cuda = get_cuda();
	verbs = get_verbs();
	return 1;
}
