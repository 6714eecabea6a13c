// SPDX-License-Identifier: MIT
/*
 * symbols.c - dlsym() and cuGetProcAddress(): a program that looks up a function gets
 * this library's, if the result would have been the watched library's.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "hooks.h"

static struct hook *by_name(const char *name)
{
	for (struct hook *h = hooks; h->name; h++)
		if (!strcmp(h->name, name))
			return h;
	return NULL;
}

/* ---- cuGetProcAddress ---- */

typedef int (*proc_address)(const char *symbol, void **pfn, int version, unsigned long long flags);
typedef int (*proc_address_v2)(const char *symbol, void **pfn, int version,
			       unsigned long long flags, int *status);

EXPORT int cuGetProcAddress(const char *symbol, void **pfn, int version, unsigned long long flags);
EXPORT int cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
			       unsigned long long flags, int *status);

static void replace(const char *symbol, void **pfn)
{
	if (!symbol || !pfn || !*pfn)
		return;
	if (!strcmp(symbol, "cuGetProcAddress")) {
		if (*pfn == real_symbol(CUDA, "cuGetProcAddress_v2"))
			*pfn = (void *)(uintptr_t)cuGetProcAddress_v2;
		else if (*pfn == real_symbol(CUDA, "cuGetProcAddress"))
			*pfn = (void *)(uintptr_t)cuGetProcAddress;
		return;
	}
	for (struct hook *h = hooks; h->name; h++) {
		if (h->proc && !strcmp(h->proc, symbol)) {
			*pfn = hook_for(h, *pfn);
			return;
		}
	}
}

EXPORT int cuGetProcAddress(const char *symbol, void **pfn, int version, unsigned long long flags)
{
	proc_address real = (proc_address)(uintptr_t)real_symbol(CUDA, "cuGetProcAddress");
	int r = real ? real(symbol, pfn, version, flags) : libraries[CUDA].absent;

	if (!r)
		replace(symbol, pfn);
	return r;
}

EXPORT int cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
			       unsigned long long flags, int *status)
{
	proc_address_v2 real = (proc_address_v2)(uintptr_t)real_symbol(CUDA, "cuGetProcAddress_v2");
	int r = real ? real(symbol, pfn, version, flags, status) : libraries[CUDA].absent;

	if (!r)
		replace(symbol, pfn);
	return r;
}

/* ---- dlsym ---- */

static bool may_be_watched(const char *name)
{
	for (unsigned int i = 0; i < LIBRARIES; i++)
		if (!strncmp(name, libraries[i].prefix, strlen(libraries[i].prefix)))
			return true;
	return false;
}

/* Ours, if what would be found is a watched library's and we have one for it. */
static void *looked_up(void *found, const char *name)
{
	struct hook *h;

	if (!found || !may_be_watched(name))
		return found;
	if (!strcmp(name, "cuGetProcAddress"))
		return found == real_symbol(CUDA, name) ? (void *)(uintptr_t)cuGetProcAddress :
		       found;
	if (!strcmp(name, "cuGetProcAddress_v2"))
		return found == real_symbol(CUDA, name) ? (void *)(uintptr_t)cuGetProcAddress_v2 :
		       found;
	h = by_name(name);
	return h && found == hook_real(h, 0) ? h->ours[0] : found;
}

EXPORT void *dlsym(void *restrict handle, const char *restrict name);

/*
 * With RTLD_NEXT (and RTLD_DEFAULT, where namespaces differ) the real dlsym() looks at
 * its return address, which must be in our caller.  So it is reached by a jump (a tail
 * call), which sanitizers would turn into a call.
 */
#ifdef __clang__
__attribute__((no_sanitize("address", "thread", "undefined")))
#else
__attribute__((no_sanitize("address", "thread", "undefined"), optimize("O2")))
#endif
EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
	dlsym_fn f = loader_dlsym();

	if (handle == RTLD_NEXT || handle == RTLD_DEFAULT)
		return f(handle, name);
	return looked_up(f(handle, name), name);
}
