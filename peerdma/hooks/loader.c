// SPDX-License-Identifier: MIT
/*
 * loader.c - the watched libraries, and their own functions behind this library's.
 */
#include <dlfcn.h>
#include <link.h>

#include "hooks.h"

struct library libraries[LIBRARIES] = {
	[CUDA] = { .soname = "libcuda.so.1", .prefix = "cu",
		   .absent = 3 /* CUDA_ERROR_NOT_INITIALIZED */ },
	[HSA] = { .soname = "libhsa-runtime64.so.1", .prefix = "hsa_",
		  .absent = 0x100b /* HSA_STATUS_ERROR_NOT_INITIALIZED */ },
};

#if defined(__x86_64__)
#define FIRST_DLSYM "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_DLSYM "GLIBC_2.17"
#else
#error "say which version of glibc's symbols this processor began with"
#endif

dlsym_fn loader_dlsym(void)
{
	static _Atomic(dlsym_fn) found;
	dlsym_fn f = atomic_load_explicit(&found, memory_order_relaxed);

	if (!f) {
		/* By version: without one we would find ourselves. */
		f = (dlsym_fn)(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
		if (!f)
			f = (dlsym_fn)(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", FIRST_DLSYM);
		atomic_store_explicit(&found, f, memory_order_relaxed);
	}
	return f;
}

void *real_dlsym(void *handle, const char *name)
{
	return loader_dlsym()(handle, name);
}

void *library(unsigned int which)
{
	struct library *lib = &libraries[which];
	void *handle = atomic_load_explicit(&lib->handle, memory_order_acquire);

	if (!handle) {
		handle = dlopen(lib->soname, RTLD_LAZY | RTLD_NOLOAD);
		atomic_store_explicit(&lib->handle, handle, memory_order_release);
	}
	return handle;
}

void *real_symbol(unsigned int which, const char *name)
{
	void *handle = library(which);

	return handle ? real_dlsym(handle, name) : NULL;
}

void *next_symbol(const char *name)
{
	return real_dlsym(RTLD_NEXT, name);
}

static int first_only(struct dl_phdr_info *info, size_t size, void *loads)
{
	(void)size;
	*(uint64_t *)loads = info->dlpi_adds;
	return 1;
}

uint64_t loader_loads(void)
{
	uint64_t loads = 0;

	dl_iterate_phdr(first_only, &loads);
	return loads;
}

void loader_keep(const void *function)
{
	struct link_map *map = NULL;
	Dl_info info;

	/* Never closed. The program itself has no name, and stays anyway. */
	if (dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP) && map && map->l_name[0])
		(void)dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}
