// SPDX-License-Identifier: MIT
/* cuda.c - the CUDA driver API, of NVIDIA's libcuda or softgpu's. */
#include "conform.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define ATTRIBUTE_P2P_TOKENS	5
#define ATTRIBUTE_SYNC_MEMOPS	6

struct cuda cuda;

const char *cuda_load(void)
{
	static char why[128];
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		snprintf(why, sizeof(why), "%.120s", dlerror());
		return why;
	}
#define X(name, args)									\
	cuda.name = (int (*) args)dlsym(lib, #name);					\
	if (!cuda.name)									\
		return "libcuda.so.1 has no " #name;
	CUDA_CALLS(X)
#undef X
	return NULL;
}

static void must(int result, const char *call)
{
	const char *name = NULL;

	if (!result)
		return;
	cuda.cuGetErrorName(result, &name);
	fprintf(stderr, "%s: %s\n", call, name ? name : "?");
	exit(2);
}
#define MUST(call, ...) must(cuda.call(__VA_ARGS__), #call)

static int device(void)
{
	int dev;

	MUST(cuInit, 0);
	MUST(cuDeviceGet, &dev, options.gpu);
	return dev;
}

void cuda_up(void)
{
	int dev = device();
	void *ctx;

	MUST(cuDevicePrimaryCtxRetain, &ctx, dev);
	MUST(cuCtxSetCurrent, ctx);
}

gpu_ptr cuda_alloc(size_t size)
{
	unsigned int on = 1;
	gpu_ptr p;

	MUST(cuMemAlloc_v2, &p, size);
	MUST(cuPointerSetAttribute, &on, ATTRIBUTE_SYNC_MEMOPS, p);
	return p;
}

void cuda_free(gpu_ptr p)
{
	MUST(cuMemFree_v2, p);
}

void cuda_write(gpu_ptr p, uint32_t word)
{
	MUST(cuMemcpyHtoD_v2, p, &word, sizeof(word));
	MUST(cuCtxSynchronize);
}

uint32_t cuda_read(gpu_ptr p)
{
	uint32_t word;

	MUST(cuMemcpyDtoH_v2, &word, p, sizeof(word));
	return word;
}

bool cuda_tokens(gpu_ptr p, uint64_t *p2p_token, uint32_t *va_space)
{
	struct {
		unsigned long long p2p_token;
		unsigned int va_space;
	} tokens = { 0 };

	if (cuda.cuPointerGetAttribute(&tokens, ATTRIBUTE_P2P_TOKENS, p))
		return false;
	*p2p_token = tokens.p2p_token;
	*va_space = tokens.va_space;
	return tokens.p2p_token && tokens.va_space;
}

struct text {
	char *to;
	size_t size;
};

static void describe(void *arg)
{
	struct text *text = arg;

	MUST(cuDeviceGetName, text->to, (int)text->size, device());
}

void cuda_describe(char *to, size_t size)
{
	struct text text = { to, size };

	if (!in_child(describe, &text))
		to[0] = 0;
}
