// SPDX-License-Identifier: MIT
/*
 * perftest-gpu.c - preloaded into a perftest that was built without CUDA, as distributions build it: what it registers
 * is GPU memory, under the addresses of its own buffer, so its work requests stay as they are.
 *
 *	PERFTEST_GPU=peer|dmabuf PERFTEST_FILL=BYTE LD_PRELOAD=perftest-gpu.so PROGRAM
 *
 * The GPU memory is full of BYTE, which is another one in client and server; when it is deregistered, a line says how
 * many bytes are others since.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/cuda_calls.h"

#undef ibv_reg_mr

#define DMA_BUF_FD	1	/* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
#define GPU_PAGE	65536UL
#define REGIONS		16

static struct cuda_calls cu;
static struct region {
	struct ibv_mr *mr;
	gpu_ptr gpu;
	size_t length;
} regions[REGIONS];

static void fail(const char *what)
{
	fprintf(stderr, "perftest-gpu: %s: %s\n", what, strerror(errno));
	exit(3);
}

static void cuda(int result, const char *call)
{
	if (result) {
		fprintf(stderr, "perftest-gpu: %s: CUDA error %d\n", call, result);
		exit(3);
	}
}

static void *symbol(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		fail(name);
	return found;
}

static unsigned char fill(void)
{
	const char *byte = getenv("PERFTEST_FILL");

	return byte ? (unsigned char)strtoul(byte, NULL, 0) : 0;
}

static void start_cuda(void)
{
	static void *context;

	if (context)
		return;
	if (!cuda_calls_load(&cu))
		fail("no libcuda.so.1");
	cuda(cu.cuInit(0), "cuInit");
	cuda(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	cuda(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static struct ibv_mr *as_peer(struct ibv_pd *pd, const struct region *r, uint64_t iova, unsigned int access)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int) = symbol("ibv_reg_mr_iova2");

	return reg(pd, (void *)(uintptr_t)r->gpu, r->length, iova, access);
}

static struct ibv_mr *as_dmabuf(struct ibv_pd *pd, const struct region *r, uint64_t iova, unsigned int access)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int) = symbol("ibv_reg_dmabuf_mr");
	int (*get_handle)(void *, gpu_ptr, size_t, int, unsigned long long) =
		dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemGetHandleForAddressRange");
	struct ibv_mr *mr;
	int fd;

	if (!get_handle)
		fail("cuMemGetHandleForAddressRange");
	cuda(get_handle(&fd, r->gpu, (r->length + GPU_PAGE - 1) & ~(GPU_PAGE - 1), DMA_BUF_FD, 0), "cuMemGetHandleForAddressRange");
	mr = reg(pd, 0, r->length, iova, fd, (int)access);
	close(fd);
	return mr;
}

static struct ibv_mr *reg_gpu(struct ibv_pd *pd, void *addr, size_t length, unsigned int access)
{
	const char *way = getenv("PERFTEST_GPU");
	int dmabuf = way && !strcmp(way, "dmabuf"), i = 0;
	struct region *r;

	while (i < REGIONS && regions[i].mr)
		i++;
	if (i == REGIONS)
		fail("too many regions");
	r = &regions[i];
	start_cuda();
	r->length = length;
	cuda(cu.cuMemAlloc_v2(&r->gpu, (length + GPU_PAGE - 1) & ~(GPU_PAGE - 1)), "cuMemAlloc");
	cuda(cu.cuMemsetD8_v2(r->gpu, fill(), length), "cuMemsetD8");
	cuda(cu.cuStreamSynchronize(NULL), "cuStreamSynchronize");
	r->mr = dmabuf ? as_dmabuf(pd, r, (uintptr_t)addr, access) : as_peer(pd, r, (uintptr_t)addr, access);
	return r->mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_gpu(pd, addr, length, (unsigned int)access);
}

/* What ibv_reg_mr() of the header calls where the access is not known when a program is built. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	if (iova != (uintptr_t)addr) {
		errno = EINVAL;
		return NULL;
	}
	return reg_gpu(pd, addr, length, access);
}

static void tell(const struct region *r)
{
	unsigned char *bytes = malloc(r->length);
	size_t i, others = 0;

	if (!bytes)
		fail("malloc");
	cuda(cu.cuMemcpyDtoH_v2(bytes, r->gpu, r->length), "cuMemcpyDtoH");
	for (i = 0; i < r->length; i++)
		others += bytes[i] != fill();
	printf("perftest-gpu: %zu of %zu bytes are others\n", others, r->length);
	free(bytes);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int (*dereg)(struct ibv_mr *) = symbol("ibv_dereg_mr");
	int i, err = dereg(mr);

	for (i = 0; i < REGIONS && !err; i++)
		if (regions[i].mr == mr) {
			tell(&regions[i]);
			cuda(cu.cuMemFree_v2(regions[i].gpu), "cuMemFree");
			regions[i].mr = NULL;
		}
	return err;
}
