// SPDX-License-Identifier: MIT
/*
 * calls.c - the functions of CUDA's driver API that make and end GPU memory, each
 * with a function of ours in front.
 *
 * A free is told before, while the memory is still there to be unpinned, and
 * after: what was registered in between is stale as well.
 */
#include <stdbool.h>

#include "hooks.h"

enum {
#define HOOK(name, ...) ID_##name,
#include "calls.def"
#undef HOOK
};

#define ALL UINT64_MAX

struct span {
	uint64_t addr, length;
};

/* The allocation around p: none for NULL.  If CUDA will not say, it may be any. */
static struct span around(CUdeviceptr p)
{
	CUresult (*range)(CUdeviceptr *base, size_t *size, CUdeviceptr p) = NULL;
	struct span s = { 0, p ? ALL : 0 };
	CUdeviceptr base = 0;
	size_t size = 0;
	void *cuda = libcuda();

	if (cuda && p)
		range = real_dlsym(cuda, "cuMemGetAddressRange_v2");
	if (range && range(&base, &size, p) == CUDA_SUCCESS && size)
		s = (struct span){ base, size };
	return s;
}

#define UNPACK(...) __VA_ARGS__

/* What is freed is known before the call. */
#define FREE_BODY(id, PARAMS, ARGS, SPAN)						\
{											\
	CUresult (*real)(UNPACK PARAMS) = hook_real(&hooks[id], slot);			\
	struct span s;									\
	CUresult r;									\
											\
	if (!real)									\
		return CUDA_ERROR_NOT_INITIALIZED;					\
	s = SPAN;									\
	hook_tell(&hooks[id], PEERDMA_HOOK_FREE, 0, s.addr, s.length);			\
	r = real(UNPACK ARGS);								\
	hook_tell(&hooks[id], PEERDMA_HOOK_FREE, 1, s.addr, s.length);			\
	return r;									\
}

/* What is made is known when the call succeeded. */
#define ALLOC_BODY(id, PARAMS, ARGS, SPAN)						\
{											\
	CUresult (*real)(UNPACK PARAMS) = hook_real(&hooks[id], slot);			\
	struct span s;									\
	CUresult r;									\
											\
	if (!real)									\
		return CUDA_ERROR_NOT_INITIALIZED;					\
	r = real(UNPACK ARGS);								\
	if (r == CUDA_SUCCESS) {							\
		s = SPAN;								\
		hook_tell(&hooks[id], PEERDMA_HOOK_ALLOC, 0, s.addr, s.length);		\
	}										\
	return r;									\
}

/* CU_IPC_HANDLE_SIZE */
struct ipc_handle {
	char reserved[64];
};

#define HOOK(name, proc, BODY, PARAMS, ARGS, SPAN)					\
static inline CUresult via_##name(unsigned int slot, UNPACK PARAMS)			\
BODY(ID_##name, PARAMS, ARGS, SPAN)							\
EXPORT CUresult name(UNPACK PARAMS);							\
EXPORT CUresult name(UNPACK PARAMS) { return via_##name(0, UNPACK ARGS); }		\
static CUresult name##_1(UNPACK PARAMS) { return via_##name(1, UNPACK ARGS); }		\
static CUresult name##_2(UNPACK PARAMS) { return via_##name(2, UNPACK ARGS); }		\
static CUresult name##_3(UNPACK PARAMS) { return via_##name(3, UNPACK ARGS); }
#include "calls.def"
#undef HOOK

struct hook hooks[] = {
#define HOOK(name_, proc_, ...)								\
	{ .name = #name_, .proc = proc_, .ours = { name_, name_##_1, name_##_2, name_##_3 } },
#include "calls.def"
#undef HOOK
	{ 0 },
};

void *hook_real(struct hook *h, unsigned int slot)
{
	void *real = atomic_load_explicit(&h->real[slot], memory_order_acquire), *cuda;

	if (real || slot)
		return real;
	cuda = libcuda();
	if (cuda)
		real = real_dlsym(cuda, h->name);
	atomic_store_explicit(&h->real[0], real, memory_order_release);
	return real;
}

void *hook_for(struct hook *h, void *real)
{
	if (real == hook_real(h, 0))
		return h->ours[0];
	for (unsigned int i = 1; i < SLOTS; i++) {
		void *is = NULL;

		if (atomic_compare_exchange_strong(&h->real[i], &is, real) || is == real)
			return h->ours[i];
	}
	return real;
}
