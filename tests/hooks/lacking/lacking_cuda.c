// SPDX-License-Identifier: MIT
/*
 * lacking_cuda.c - an old libcuda: two of the functions that the hooks know, and a
 * cuGetProcAddress_v2(), or with FIRST the cuGetProcAddress() of before, that answers in
 * every way in which CUDA's may.
 */
#include <stdint.h>
#include <string.h>

#define INVALID_VALUE	1	/* CUDA_ERROR_INVALID_VALUE */
#define NOT_FOUND	500	/* CUDA_ERROR_NOT_FOUND */
#define NEWEST		11000
#define VARIANTS	8

static int freed[VARIANTS];

int lacking_freed(unsigned int variant);
int lacking_freed(unsigned int variant)
{
	return freed[variant];
}

#define FREE(n)							\
	static int free_##n(uint64_t p)				\
	{							\
		(void)p;					\
		freed[n]++;					\
		return 0;					\
	}
FREE(0)
FREE(1)
FREE(2)
FREE(3)
FREE(4)
FREE(5)
FREE(6)
FREE(7)

/* Its own address: by its name it would find the hooks'. */
int cuMemFree_v2(uint64_t p) __attribute__((alias("free_0")));

/* The address 13 is of no allocation. */
int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t p);
int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t p)
{
	*base = p;
	*size = 4096;
	return p == 13 ? 1 : 0;
}

/*
 * "cuMemFree": the variant that flags names.  "cuGetProcAddress": itself.  "cuMemAllocAsync", and
 * what makes no sense: success, and there is none.  All else: not found.  Nothing of a later CUDA.
 */
#ifdef FIRST
int cuGetProcAddress(const char *symbol, void **pfn, int version, unsigned long long flags);
#define SELF cuGetProcAddress
#else
int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, unsigned long long flags, int *status);
#define SELF cuGetProcAddress_v2
#endif

static int self(const char *symbol, void **pfn, int version, unsigned long long flags
#ifndef FIRST
		, int *status
#endif
		)
{
	int (*const variants[VARIANTS])(uint64_t) = { free_0, free_1, free_2, free_3, free_4, free_5, free_6, free_7 };

#ifndef FIRST
	if (status)
		*status = 1;
#endif
	if (version > NEWEST)
		return INVALID_VALUE;
	if (!symbol || !pfn)
		return 0;
	if (!strcmp(symbol, "cuMemFree") && flags < VARIANTS) {
#ifndef FIRST
		*status = 0;
#endif
		*pfn = (void *)(uintptr_t)variants[flags];
		return 0;
	}
	if (!strcmp(symbol, "cuGetProcAddress")) {
		*pfn = (void *)(uintptr_t)self;
		return 0;
	}
	if (!strcmp(symbol, "cuMemAllocAsync")) {
		*pfn = NULL;
		return 0;
	}
	return NOT_FOUND;	/* *pfn is what it was */
}

__typeof__(self) SELF __attribute__((alias("self")));
