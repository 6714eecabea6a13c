// SPDX-License-Identifier: MIT
/*
 * calls.c - intercepts the functions of CUDA's driver API and of HSA's runtime that
 * allocate and free GPU memory.
 *
 * A free is reported before it, while the memory can still be unpinned, and after it,
 * because what was registered in between is stale too.  Calls that may create addresses
 * of CUDA or HSA are counted while they run (peerdma_hooks_making()).
 */
#include "hooks.h"

#define ALL UINT64_MAX

struct span {
	uint64_t addr, length;
};

/* ---- CUDA's types ---- */

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

/* CU_IPC_HANDLE_SIZE */
struct cuda_ipc_handle {
	char reserved[64];
};

/* The allocation around p: none for NULL.  If CUDA will not say, it may be any. */
static struct span cuda_around(CUdeviceptr p)
{
	CUresult (*range)(CUdeviceptr *base, size_t *size, CUdeviceptr p) = NULL;
	struct span s = { 0, p ? ALL : 0 };
	CUdeviceptr base = 0;
	size_t size = 0;

	if (p)
		range = real_symbol(CUDA, "cuMemGetAddressRange_v2");
	if (range && !range(&base, &size, p) && size)
		s = (struct span){ base, size };
	return s;
}

/* ---- HSA's types ---- */

/* Of a region, a pool, an agent, memory of hsa_amd_vmem_handle_create(). */
struct hsa_handle {
	uint64_t handle;
};

#define HSA_POINTER_LOCKED 2	/* HSA_EXT_POINTER_TYPE_LOCKED: the host's, made known to a GPU */

/* As hsa_amd_pointer_info_t begins: it says how much of it the caller knows. */
struct hsa_pointer_info {
	uint32_t size, type;
	void *agent_base, *host_base;
	size_t length;
};

static struct span hsa_around(void *p)
{
	int (*ask)(const void *p, struct hsa_pointer_info *info, void *(*alloc)(size_t),
		   uint32_t *agents, void **list) = NULL;
	struct hsa_pointer_info info = { .size = sizeof(info) };
	struct span s = { 0, p ? ALL : 0 };

	if (p)
		ask = real_symbol(HSA, "hsa_amd_pointer_info");
	if (ask && !ask(p, &info, NULL, NULL, NULL) && info.length)
		s = (struct span){ (uintptr_t)(info.type == HSA_POINTER_LOCKED ? info.host_base :
					       info.agent_base), info.length };
	return s;
}

/* ---- ours ---- */

#define UNPACK(...) __VA_ARGS__

#define CALL(id, ARGS)									\
	was = hook_enter(&hooks[id], slot);						\
	r = real(UNPACK ARGS);								\
	hook_leave(&hooks[id], slot, was);

/* What is freed is known before the call. */
#define FREE_BODY(id, PARAMS, ARGS, SPAN)						\
	int (*real)(UNPACK PARAMS) = hook_target(&hooks[id], slot);			\
	bool was;									\
	struct span s;									\
	int r;										\
											\
	if (!real)									\
		return libraries[hooks[id].library].absent;				\
	s = SPAN;									\
	hook_tell(&hooks[id], PEERDMA_HOOK_FREE, 0, s.addr, s.length);			\
	CALL(id, ARGS)									\
	hook_tell(&hooks[id], PEERDMA_HOOK_FREE, 1, s.addr, s.length);			\
	return r;

/* What is made is known when the call succeeded. */
#define ALLOC_BODY(id, PARAMS, ARGS, SPAN)						\
	int (*real)(UNPACK PARAMS) = hook_target(&hooks[id], slot);			\
	bool was;									\
	struct span s;									\
	int r;										\
											\
	if (!real)									\
		return libraries[hooks[id].library].absent;				\
	making_begins();								\
	CALL(id, ARGS)									\
	making_ends();									\
	if (!r) {									\
		s = SPAN;								\
		hook_tell(&hooks[id], PEERDMA_HOOK_ALLOC, 0, s.addr, s.length);		\
	}										\
	return r;

/* Where is not said, and that it failed is not to be relied on. */
#define MAKE_BODY(id, PARAMS, ARGS, SPAN)						\
	int (*real)(UNPACK PARAMS) = hook_target(&hooks[id], slot);			\
	bool was;									\
	int r;										\
											\
	if (!real)									\
		return libraries[hooks[id].library].absent;				\
	hook_count(&hooks[id]);								\
	making_begins();								\
	CALL(id, ARGS)									\
	making_ends();									\
	return r;

/* Both libraries' results are an int, of which 0 is success. */
#define COPY(storage, function, n, id, BODY, PARAMS, ARGS, SPAN)			\
storage int function(UNPACK PARAMS)							\
{											\
	const unsigned int slot = n;							\
	BODY(id, PARAMS, ARGS, SPAN)							\
}

#define HOOK(library, name, proc, BODY, PARAMS, ARGS, SPAN)				\
EXPORT int name(UNPACK PARAMS);								\
COPY(EXPORT, name, 0, ID_##name, BODY, PARAMS, ARGS, SPAN)				\
COPY(static, name##_1, 1, ID_##name, BODY, PARAMS, ARGS, SPAN)				\
COPY(static, name##_2, 2, ID_##name, BODY, PARAMS, ARGS, SPAN)				\
COPY(static, name##_3, 3, ID_##name, BODY, PARAMS, ARGS, SPAN)			\
COPY(static, name##_4, 4, ID_##name, BODY, PARAMS, ARGS, SPAN)			\
COPY(static, name##_5, 5, ID_##name, BODY, PARAMS, ARGS, SPAN)
#include "calls.def"
#undef HOOK

struct hook hooks[] = {
#define HOOK(library_, name_, proc_, ...)						\
	{ .library = library_, .id = ID_##name_, .name = #name_, .proc = proc_,		\
	  .ours = { name_, name_##_1, name_##_2, name_##_3, name_##_4, name_##_5 } },
#include "calls.def"
#undef HOOK
	{ 0 },
};
