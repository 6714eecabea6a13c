// SPDX-License-Identifier: MIT
/* memory.c - see memory.h. */
#include <dlfcn.h>
#include <rdma/ib_user_verbs.h>

#include "../lib/cuda_calls.h"
#include "memory.h"
#include "pair.h"
#include "peerdma.h"

#define DMA_BUF_FD 1	/* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */

static struct cuda_calls cu;
static int (*get_handle)(void *handle, gpu_ptr addr, size_t size, int type, unsigned long long flags);

static void cuda(int result, const char *call)
{
	MUST(!result, "%s: CUDA error %d", call, result);
}

/* Each thread has to say which context is its. */
static void start_cuda(void)
{
	static void *context;
	void *symbol;

	if (context) {
		cuda(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
		return;
	}
	MUST(cuda_calls_load(&cu), "no libcuda.so.1");
	symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemGetHandleForAddressRange");
	memcpy(&get_handle, &symbol, sizeof(symbol));
	MUST(get_handle, "this libcuda.so.1 exports no dma-bufs");
	cuda(cu.cuInit(0), "cuInit");
	cuda(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	cuda(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

enum memory_kind memory_kind(const char *name)
{
	static const char *const names[] = { [MEMORY_HOST] = "host", [MEMORY_DMABUF] = "dmabuf", [MEMORY_PEER] = "peer",
					      [MEMORY_EXPORT] = "export", [MEMORY_MANAGED] = "managed" };
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return i;
	errno = EINVAL;
	die("no kind of memory: %s", name);
}

void memory_alloc(struct memory *m, enum memory_kind kind, size_t size)
{
	gpu_ptr p;

	*m = (struct memory){ .kind = kind, .size = size };
	if (kind == MEMORY_HOST) {
		void *host;

		MUST(!posix_memalign(&host, 4096, size), "out of memory");
		m->addr = (uintptr_t)host;
		return;
	}
	start_cuda();
	if (kind == MEMORY_MANAGED)
		cuda(cu.cuMemAllocManaged(&p, size, 1), "cuMemAllocManaged");
	else
		cuda(cu.cuMemAlloc_v2(&p, size), "cuMemAlloc");
	m->addr = p;
}

void memory_free(struct memory *m)
{
	if (m->kind == MEMORY_HOST) {
		free((void *)(uintptr_t)m->addr);
		return;
	}
	start_cuda();
	cuda(cu.cuMemFree_v2(m->addr), "cuMemFree");
}

void memory_fill(const struct memory *m, unsigned char byte)
{
	if (m->kind == MEMORY_HOST) {
		memset((void *)(uintptr_t)m->addr, byte, m->size);
		return;
	}
	cuda(cu.cuMemsetD8_v2(m->addr, byte, m->size), "cuMemsetD8");
	/* It is only on its way. */
	cuda(cu.cuStreamSynchronize(NULL), "cuStreamSynchronize");
}

void memory_read(const struct memory *m, size_t offset, void *to, size_t size)
{
	if (m->kind == MEMORY_HOST)
		memcpy(to, (void *)(uintptr_t)(m->addr + offset), size);
	else
		cuda(cu.cuMemcpyDtoH_v2(to, m->addr + offset, size), "cuMemcpyDtoH");
}

void memory_write(const struct memory *m, size_t offset, const void *from, size_t size)
{
	if (m->kind == MEMORY_HOST)
		memcpy((void *)(uintptr_t)(m->addr + offset), from, size);
	else
		cuda(cu.cuMemcpyHtoD_v2(m->addr + offset, from, size), "cuMemcpyHtoD");
}

/* A dma-buf of all of it. */
int memory_export(struct memory *m)
{
	static struct peerdma *ctx;
	int fd;

	if (m->kind == MEMORY_DMABUF) {
		cuda(get_handle(&fd, m->addr, m->size, DMA_BUF_FD, 0), "cuMemGetHandleForAddressRange");
		return fd;
	}
	MUST(ctx || !peerdma_open(&ctx, 0), "peerdma_open: %s", peerdma_last_error());
	if (!m->region && peerdma_pin(ctx, (void *)(uintptr_t)m->addr, m->size, PEERDMA_DEVICE, NULL, &m->region))
		die("peerdma_pin: %s", peerdma_last_error());
	MUST(!peerdma_export_dmabuf(m->region, 0, 0, &fd), "peerdma_export_dmabuf: %s", peerdma_last_error());
	return fd;
}

void memory_release(struct memory *m)
{
	int err = peerdma_unpin(m->region);

	MUST(!err, "peerdma_unpin: %s", strerror(-err));
	m->region = NULL;
}

struct ibv_mr *memory_try_register(struct memory *m, struct ibv_pd *pd, size_t offset, size_t size)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_mr *mr;
	int fd;

	if (m->kind != MEMORY_DMABUF && m->kind != MEMORY_EXPORT)
		return ibv_reg_mr(pd, (void *)(uintptr_t)(m->addr + offset), size, all);
	fd = memory_export(m);
	mr = ibv_reg_dmabuf_mr(pd, offset, size, m->addr + offset, fd, all);
	close(fd);
	return mr;
}

struct ibv_mr *memory_register(struct memory *m, struct ibv_pd *pd)
{
	struct ibv_mr *mr = memory_try_register(m, pd, 0, m->size);

	MUST(mr, "the memory cannot be registered");
	return mr;
}

int memory_reregister(const struct ibv_mr *mr, uint32_t flags, const struct ibv_pd *pd, uint64_t addr, uint64_t size, unsigned int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_rereg_mr cmd;
	} __attribute__((packed)) c = {
		.header = { IB_USER_VERBS_CMD_REREG_MR, sizeof(c) / 4, sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp, .mr_handle = mr->handle, .flags = flags, .start = addr, .length = size,
			 .hca_va = addr, .pd_handle = pd->handle, .access_flags = access },
	};

	return write(mr->context->cmd_fd, &c, sizeof(c)) == (ssize_t)sizeof(c) ? 0 : errno;
}
