// SPDX-License-Identifier: MIT
/*
 * perftest-gpu.c - preloaded into perftest, to look at the GPU memory that it registers.  Where it was built without CUDA, as
 * distributions build it, what it registers is GPU memory all the same (peer, dmabuf), under the addresses of its own buffer,
 * so its work requests stay as they are; built with CUDA it has its own.
 *
 *	PERFTEST_GPU=peer|dmabuf|own PERFTEST_FILL=BYTE LD_PRELOAD=perftest-gpu.so PROGRAM
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

/* Does the program have GPU memory, and a context, of its own? */
static int has_its_own(void)
{
	const char *way = getenv("PERFTEST_GPU");

	return way && !strcmp(way, "own");
}

static void start_cuda(void)
{
	static void *context;

	if (context)
		return;
	if (!cu.cuInit && !cuda_calls_load(&cu))
		fail("no libcuda.so.1");
	if (has_its_own())
		return;
	cuda(cu.cuInit(0), "cuInit");
	cuda(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	cuda(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

typedef struct ibv_mr *reg_iova2(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
typedef struct ibv_mr *reg_dmabuf(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);

static struct ibv_mr *by_address(struct ibv_pd *pd, uint64_t addr, size_t length, uint64_t iova, unsigned int access)
{
	reg_iova2 *reg = symbol("ibv_reg_mr_iova2");

	return reg(pd, (void *)(uintptr_t)addr, length, iova, access);
}

static struct ibv_mr *by_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	reg_dmabuf *reg = symbol("ibv_reg_dmabuf_mr");

	return reg(pd, offset, length, iova, fd, access);
}

static struct ibv_mr *as_dmabuf(struct ibv_pd *pd, const struct region *r, uint64_t iova, unsigned int access)
{
	int (*get_handle)(void *, gpu_ptr, size_t, int, unsigned long long) =
		dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemGetHandleForAddressRange");
	struct ibv_mr *mr;
	int fd;

	if (!get_handle)
		fail("cuMemGetHandleForAddressRange");
	cuda(get_handle(&fd, r->gpu, (r->length + GPU_PAGE - 1) & ~(GPU_PAGE - 1), DMA_BUF_FD, 0), "cuMemGetHandleForAddressRange");
	mr = by_dmabuf(pd, 0, r->length, iova, fd, (int)access);
	close(fd);
	return mr;
}

static struct region *new_region(size_t length)
{
	int i = 0;

	while (i < REGIONS && regions[i].mr)
		i++;
	if (i == REGIONS)
		fail("too many regions");
	regions[i].length = length;
	start_cuda();
	return &regions[i];
}

/* GPU memory in the place of the program's buffer. */
static struct ibv_mr *reg_instead(struct ibv_pd *pd, void *addr, size_t length, unsigned int access)
{
	const char *way = getenv("PERFTEST_GPU");
	struct region *r = new_region(length);

	cuda(cu.cuMemAlloc_v2(&r->gpu, (length + GPU_PAGE - 1) & ~(GPU_PAGE - 1)), "cuMemAlloc");
	cuda(cu.cuMemsetD8_v2(r->gpu, fill(), length), "cuMemsetD8");
	cuda(cu.cuStreamSynchronize(NULL), "cuStreamSynchronize");
	if (way && !strcmp(way, "dmabuf"))
		r->mr = as_dmabuf(pd, r, (uintptr_t)addr, access);
	else
		r->mr = by_address(pd, r->gpu, length, (uintptr_t)addr, access);
	return r->mr;
}

/* Memory of the program's own that is the GPU's is filled, and looked at in the end. */
static struct ibv_mr *noted(struct ibv_mr *mr, uint64_t addr, size_t length)
{
	struct region *r = new_region(length);

	if (!mr || cu.cuMemsetD8_v2(addr, fill(), length))
		return mr;
	cuda(cu.cuStreamSynchronize(NULL), "cuStreamSynchronize");
	r->gpu = addr;
	r->mr = mr;
	return mr;
}

static struct ibv_mr *reg_gpu(struct ibv_pd *pd, void *addr, size_t length, unsigned int access)
{
	uint64_t at = (uintptr_t)addr;

	return has_its_own() ? noted(by_address(pd, at, length, at, access), at, length) : reg_instead(pd, addr, length, access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_gpu(pd, addr, length, (unsigned int)access);
}

/* Only a program with GPU memory of its own calls this; remote addresses are the memory's. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	return noted(by_dmabuf(pd, offset, length, iova, fd, access), iova, length);
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
			if (!has_its_own())
				cuda(cu.cuMemFree_v2(regions[i].gpu), "cuMemFree");
			regions[i].mr = NULL;
		}
	return err;
}
