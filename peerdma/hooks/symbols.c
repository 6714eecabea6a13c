// SPDX-License-Identifier: MIT
/*
 * symbols.c - dlsym() and cuGetProcAddress(): a program that looks up a function gets a copy
 * of this library's, which calls what the program would have got without this library.
 */
#include <dlfcn.h>
#include <string.h>

#include "hooks.h"

/* ---- cuGetProcAddress ---- */

/* The CUDA version from which its own name means the second one, with a status. */
#define SECOND_CUDA 12000

enum { FIRST, SECOND, FINDERS };
static struct hook finders[FINDERS];

static void replace(const char *symbol, void **pfn, int version)
{
	if (!symbol || !pfn || !*pfn)
		return;
	if (!strcmp(symbol, "cuGetProcAddress")) {
		bool second = *pfn == hook_own(&finders[SECOND]) ||
			      (*pfn != hook_own(&finders[FIRST]) && version >= SECOND_CUDA);

		*pfn = hook_for(&finders[second], *pfn);
		return;
	}
	for (struct hook *h = hooks; h->name; h++) {
		if (h->proc && !strcmp(h->proc, symbol)) {
			*pfn = hook_for(h, *pfn);
			return;
		}
	}
}

#define FINDER(storage, function, n, which, PARAMS, ARGS)				\
storage int function PARAMS								\
{											\
	int (*real) PARAMS = hook_target(&finders[which], n);				\
	bool was;									\
	int r;										\
											\
	if (!real)									\
		return libraries[CUDA].absent;						\
	was = hook_enter(&finders[which], n);						\
	r = real ARGS;									\
	hook_leave(&finders[which], n, was);						\
	if (!r)										\
		replace(symbol, pfn, version);						\
	return r;									\
}

#define FINDER_COPIES(name, which, PARAMS, ARGS)					\
EXPORT int name PARAMS;									\
FINDER(EXPORT, name, 0, which, PARAMS, ARGS)						\
FINDER(static, name##_1, 1, which, PARAMS, ARGS)					\
FINDER(static, name##_2, 2, which, PARAMS, ARGS)					\
FINDER(static, name##_3, 3, which, PARAMS, ARGS)					\
FINDER(static, name##_4, 4, which, PARAMS, ARGS)					\
FINDER(static, name##_5, 5, which, PARAMS, ARGS)

FINDER_COPIES(cuGetProcAddress, FIRST,
	      (const char *symbol, void **pfn, int version, unsigned long long flags),
	      (symbol, pfn, version, flags))
FINDER_COPIES(cuGetProcAddress_v2, SECOND,
	      (const char *symbol, void **pfn, int version, unsigned long long flags, int *status),
	      (symbol, pfn, version, flags, status))

#define FINDER_HOOK(which, name_)							\
	[which] = { .library = CUDA, .id = ID_##name_, .name = #name_,				\
		    .ours = { name_, name_##_1, name_##_2, name_##_3, name_##_4, name_##_5 } }

static struct hook finders[FINDERS] = {
	FINDER_HOOK(FIRST, cuGetProcAddress),
	FINDER_HOOK(SECOND, cuGetProcAddress_v2),
};

/* ---- dlsym ---- */

static struct hook *by_name(const char *name)
{
	for (unsigned int i = 0; i < FINDERS; i++)
		if (!strcmp(finders[i].name, name))
			return &finders[i];
	for (struct hook *h = hooks; h->name; h++)
		if (!strcmp(h->name, name))
			return h;
	return NULL;
}

static bool may_be_watched(const char *name)
{
	for (unsigned int i = 0; i < LIBRARIES; i++)
		if (!strncmp(name, libraries[i].prefix, strlen(libraries[i].prefix)))
			return true;
	return false;
}

/*
 * A copy of ours for what was found, if the process has the watched library's function.  What was
 * found may be another interposer's, by its own handle or because its dlsym() gave it.
 */
static void *looked_up(const char *name, void *found)
{
	struct hook *h = found && may_be_watched(name) ? by_name(name) : NULL;

	if (!h)
		return found;
	if (hook_own(h))
		found = hook_for(h, found);
	/* The lookup was a success: no error of ours remains. */
	dlerror();
	return found;
}

/* The next interposer's dlsym(), or the C library's. */
static dlsym_fn next_dlsym(void)
{
	static _Atomic(dlsym_fn) found;
	dlsym_fn f = atomic_load_explicit(&found, memory_order_relaxed);

	if (!f) {
		f = (dlsym_fn)(uintptr_t)next_symbol("dlsym");
		if (!f)
			f = loader_dlsym();
		atomic_store_explicit(&found, f, memory_order_relaxed);
	}
	return f;
}

/* The thread is in the next interposer's dlsym(), whose own lookups are the C library's. */
static _Thread_local __attribute__((tls_model("initial-exec"))) bool looking;

static void *look_up(void *handle, const char *name)
{
	dlsym_fn f = next_dlsym();
	void *found;

	if (looking)
		return real_dlsym(handle, name);
	looking = true;
	found = f(handle, name);
	looking = false;
	return looked_up(name, found);
}

EXPORT void *dlsym(void *restrict handle, const char *restrict name);

/* Whether another interposer may answer with its own function, where the C library finds ours. */
static bool is_others(dlsym_fn f, const char *name)
{
	return f != loader_dlsym() && may_be_watched(name);
}

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
	dlsym_fn f = looking ? loader_dlsym() : next_dlsym();

	if (handle == RTLD_NEXT || (handle == RTLD_DEFAULT && !is_others(f, name)))
		return f(handle, name);
	return look_up(handle, name);
}
