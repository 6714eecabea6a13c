// SPDX-License-Identifier: MIT
/*
 * tokens.c - the guide's example: an address is no name.  Freed on one GPU or in one
 * context, it may come back in another, and then its tokens are others.
 */
#include "test.h"

#define TRIES	64

typedef CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;

static bool same(tokens a, tokens b)
{
	return a.p2pToken == b.p2pToken && a.vaSpaceToken == b.vaSpaceToken;
}

static tokens tokens_of(CUdeviceptr p)
{
	tokens t = { 0 };

	OK(cuPointerGetAttribute(&t, CU_POINTER_ATTRIBUTE_P2P_TOKENS, p));
	assert_true(t.p2pToken && t.vaSpaceToken);
	return t;
}

static unsigned long long id_of(CUdeviceptr p)
{
	unsigned long long id = 0;

	OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
	return id;
}

static CUdeviceptr alloc_in(CUcontext ctx, size_t size)
{
	CUdeviceptr p;

	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc(&p, size));
	return p;
}

/*
 * What stood at *va in one context is freed and allocated in the other, until the
 * address is the same: softgpu does so at once, a real driver when it likes.
 */
static bool address_comes_back(CUcontext from, CUcontext to, CUdeviceptr *va, tokens *before, unsigned long long *id)
{
	for (int i = 0; i < TRIES; i++) {
		CUdeviceptr old = alloc_in(from, 2 * MIB);

		*before = tokens_of(old);
		*id = id_of(old);
		OK(cuMemFree(old));
		*va = alloc_in(to, 2 * MIB);
		if (*va == old)
			return true;
		OK(cuMemFree(*va));
	}
	return false;
}

static void reused_by(CUcontext first, CUcontext second, int ordinal)
{
	unsigned long long id;
	CUdeviceptr va, other;
	tokens before, now;
	CUcontext ctx;
	int where;

	if (!address_comes_back(first, second, &va, &before, &id)) {
		assert_false(on_softgpu());
		print_message("the driver did not give the address again in %d tries\n", TRIES);
		return;
	}
	now = tokens_of(va);
	assert_false(same(before, now));
	assert_true(id_of(va) != id);
	OK(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, va));
	assert_ptr_equal(ctx, second);
	OK(cuPointerGetAttribute(&where, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, va));
	assert_int_equal(where, ordinal);
	/* All memory of a context has the same. */
	other = alloc_in(second, MIB);
	assert_true(same(tokens_of(other), now));
	OK(cuMemFree(other));
	OK(cuMemFree(va));
}

CASE(another_gpu)
{
	CUcontext ctx;
	int count;

	OK(cuDeviceGetCount(&count));
	if (count < 2) {
		print_message("one GPU only\n");
		skip();
	}
	OK(cuDevicePrimaryCtxRetain(&ctx, 1));
	reused_by(test_context(), ctx, 1);
	reused_by(ctx, test_context(), 0);
	OK(cuCtxSetCurrent(test_context()));
	OK(cuDevicePrimaryCtxRelease(1));
}

CASE(another_context)
{
	CUcontext ctx;

	OK(cuCtxCreate(&ctx, 0, 0));
	reused_by(test_context(), ctx, 0);
	reused_by(ctx, test_context(), 0);
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(test_context()));
}

/* A context made in the place of one that has gone opens with new tokens. */
CASE(next_context)
{
	tokens t[8];
	CUcontext ctx;

	for (int i = 0; i < 8; i++) {
		OK(cuCtxCreate(&ctx, 0, 0));
		t[i] = tokens_of(alloc_in(ctx, MIB));
		OK(cuCtxDestroy(ctx));
		for (int j = 0; j < i; j++)
			assert_true(t[i].p2pToken != t[j].p2pToken);
	}
	OK(cuCtxSetCurrent(test_context()));
}

MAIN(gpu_setup, gpu_teardown)
