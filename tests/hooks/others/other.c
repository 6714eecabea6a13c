// SPDX-License-Identifier: MIT
/*
 * other.c - another library that intercepts CUDA's allocations and frees, and counts them.  Built
 * for each way in which such libraries find the function that they call:
 *
 *	NEXT	dlsym(RTLD_NEXT), as most do; if there is none, as HANDLE
 *	HANDLE	dlsym() on a handle of libcuda
 *	OWN	overrides dlsym() and cuGetProcAddress() too, and finds the C library's dlsym() by version
 *	BACK	the first function of the name in the process, which may be one that called this one
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define CONCAT_(a, b)	a##b
#define CONCAT(a, b)	CONCAT_(a, b)
#define COUNTED		CONCAT(counted_, HOW)
#define NEXT		1
#define HANDLE		2
#define OWN		3
#define BACK		4

typedef void *(*dlsym_fn)(void *handle, const char *name);

static unsigned int allocated, freed;

void COUNTED(unsigned int *allocs, unsigned int *frees);
void COUNTED(unsigned int *allocs, unsigned int *frees)
{
	*allocs = allocated;
	*frees = freed;
}

#if HOW_IT_FINDS == OWN
static void *find(void *handle, const char *name)
{
	dlsym_fn f = (dlsym_fn)(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", FIRST_DLSYM);

	return f(handle, name);
}
#else
#define find dlsym
#endif

static void *original(const char *name)
{
#if HOW_IT_FINDS == NEXT
	void *next = find(RTLD_NEXT, name);

	return next ? next : find(dlopen("libcuda.so.1", RTLD_LAZY), name);
#elif HOW_IT_FINDS == BACK
	return find(RTLD_DEFAULT, name);
#else
	return find(dlopen("libcuda.so.1", RTLD_LAZY), name);
#endif
}

int cuMemAlloc_v2(uint64_t *p, size_t size);
int cuMemAlloc_v2(uint64_t *p, size_t size)
{
	int (*call)(uint64_t *p, size_t size);

	*(void **)&call = original("cuMemAlloc_v2");
	allocated++;
	return call(p, size);
}

int cuMemFree_v2(uint64_t p);
int cuMemFree_v2(uint64_t p)
{
	int (*call)(uint64_t p);

	*(void **)&call = original("cuMemFree_v2");
	freed++;
	return call(p);
}

#if HOW_IT_FINDS == OWN
int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, unsigned long long flags, int *status);
int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, unsigned long long flags, int *status)
{
	int (*call)(const char *, void **, int, unsigned long long, int *);
	int r;

	*(void **)&call = original("cuGetProcAddress_v2");
	r = call(symbol, pfn, version, flags, status);
	if (!r && !strcmp(symbol, "cuMemAlloc"))
		*pfn = (void *)(uintptr_t)cuMemAlloc_v2;
	else if (!r && !strcmp(symbol, "cuMemFree"))
		*pfn = (void *)(uintptr_t)cuMemFree_v2;
	else if (!r && !strcmp(symbol, "cuGetProcAddress") && version >= 12000)
		*pfn = (void *)(uintptr_t)cuGetProcAddress_v2;
	return r;
}

void *dlsym(void *restrict handle, const char *restrict name);
void *dlsym(void *restrict handle, const char *restrict name)
{
	if (handle != RTLD_NEXT && !strcmp(name, "cuMemAlloc_v2"))
		return (void *)(uintptr_t)cuMemAlloc_v2;
	if (handle != RTLD_NEXT && !strcmp(name, "cuMemFree_v2"))
		return (void *)(uintptr_t)cuMemFree_v2;
	if (handle != RTLD_NEXT && !strcmp(name, "cuGetProcAddress_v2"))
		return (void *)(uintptr_t)cuGetProcAddress_v2;
	return find(handle, name);
}
#endif
