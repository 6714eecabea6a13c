// SPDX-License-Identifier: MIT
/*
 * intercepted.c - functions of other libraries that a preloaded one has taken the place of: the program's calls by name
 * go there. Not found: functions whose code was changed in place, as UCX and libfabric do when they are initialized.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>

#include "info/info.h"

/* The calls that make, map, free and register memory, or that look up such calls. */
static const struct {
	const char *library, *name;
} calls[INFO_CALLS] = {
	{ "libc.so.6", "malloc" },
	{ "libc.so.6", "free" },
	{ "libc.so.6", "mmap" },
	{ "libc.so.6", "munmap" },
	{ "libc.so.6", "mremap" },
	{ "libc.so.6", "madvise" },
	{ "libc.so.6", "brk" },
	{ "libc.so.6", "sbrk" },
	{ "libc.so.6", "shmat" },
	{ "libc.so.6", "shmdt" },
	{ "libdl.so.2", "dlsym" },	/* since glibc 2.34 in the C library */
	{ "libcuda.so.1", "cuMemAlloc_v2" },
	{ "libcuda.so.1", "cuMemFree_v2" },
	{ "libcuda.so.1", "cuMemAllocManaged" },
	{ "libcuda.so.1", "cuMemAllocAsync" },
	{ "libcuda.so.1", "cuMemFreeAsync" },
	{ "libcuda.so.1", "cuMemMap" },
	{ "libcuda.so.1", "cuMemUnmap" },
	{ "libcuda.so.1", "cuGetProcAddress_v2" },
	{ "libhsa-runtime64.so.1", "hsa_amd_memory_pool_allocate" },
	{ "libhsa-runtime64.so.1", "hsa_amd_memory_pool_free" },
	{ "libhsa-runtime64.so.1", "hsa_memory_free" },
	{ "libibverbs.so.1", "ibv_reg_mr" },
	{ "libibverbs.so.1", "ibv_reg_mr_iova2" },
	{ "libibverbs.so.1", "ibv_reg_mr_ex" },
	{ "libibverbs.so.1", "ibv_reg_dmabuf_mr" },
	{ "libibverbs.so.1", "ibv_dereg_mr" },
};

/* No second lookup: a preloaded dlsym() may have other answers than the loader's. */
static bool is_in(const struct link_map *object, const char *library)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	struct link_map *map = NULL;
	bool is = handle && !dlinfo(handle, RTLD_DI_LINKMAP, &map) && map == object;

	if (handle)
		dlclose(handle);
	return is;
}

/* Of what the program reaches by this name: the object, or NULL: there is none, or it is the library's own. */
static const struct link_map *stranger(const char *library, const char *name)
{
	const void *first = dlsym(RTLD_DEFAULT, name);
	struct link_map *object;
	Dl_info where;

	if (!first || !dladdr1(first, &where, (void **)&object, RTLD_DL_LINKMAP) ||
	    is_in(object, library) || is_in(object, "libc.so.6"))
		return NULL;
	return object;
}

/* The libraries themselves are loaded RTLD_LOCAL, but for the C library: only preloaded ones are found by name. */
const char *info_interceptor(size_t i, const char **call)
{
	const struct link_map *object = stranger(calls[i].library, calls[i].name);

	*call = calls[i].name;
	if (!object)
		return NULL;
	return *object->l_name ? object->l_name : "this program";
}
