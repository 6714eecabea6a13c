// SPDX-License-Identifier: MIT
/* gpu_raw.c - the GPU by the calls of softgpu_uapi.h. */
#include "../kernel/sgraw.h"
#include "gpu.h"

static int raw_ctx_create(struct user_gpu *g)
{
	struct softgpu_ctx_create c = { .flags = g->ops->visible ? SOFTGPU_CTX_VISIBLE : 0 };
	int err = SG_CALL(g->fd, SOFTGPU_CTX_CREATE, &c);

	g->ctx = c.ctx;
	return err;
}

static int raw_open(struct user_gpu *g, int index)
{
	struct softgpu_window w = { .length = WINDOW_LEN };
	int err;

	g->fd = sg_open(index);
	if (g->fd < 0)
		return errno;
	/* The library's part: addresses for VRAM. */
	g->window = mmap(NULL, WINDOW_LEN + PAGE64, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (g->window == MAP_FAILED) {
		g->window = NULL;
		return errno;
	}
	w.base = (PTR(g->window) + PAGE64 - 1) & ~(PAGE64 - 1);
	err = SG_CALL(g->fd, SOFTGPU_WINDOW, &w);
	return err ? err : raw_ctx_create(g);
}

static int raw_ctx_destroy(struct user_gpu *g)
{
	uint32_t ctx = g->ctx;

	g->ctx = 0;
	return sg_ctx_destroy(g->fd, ctx);
}

static int raw_alloc(struct user_gpu *g, uint64_t length, uint64_t *va)
{
	return sg_alloc(g->fd, g->ctx, length, va);
}

static int raw_free(struct user_gpu *g, uint64_t va)
{
	struct softgpu_va a = { .va = va, .flags = SOFTGPU_FREE_VISIBLE };

	return g->ops->visible ? SG_CALL(g->fd, SOFTGPU_MEM_FREE, &a) : sg_free(g->fd, va);
}

static int raw_copy(struct user_gpu *g, uint64_t dst, uint64_t src, uint64_t length, bool sync)
{
	return sg_copy(g->fd, g->ctx, dst, src, length, sync ? SOFTGPU_OP_SYNC : 0);
}

static int raw_sync(struct user_gpu *g)
{
	return sg_ctx_sync(g->fd, g->ctx);
}

static int raw_tokens(struct user_gpu *g, uint64_t va, uint64_t *p2p, uint32_t *va_space)
{
	struct softgpu_query q;
	int err = sg_query(g->fd, va, &q);

	*p2p = q.p2p_token;
	*va_space = q.va_space_token;
	return err;
}

static int raw_export(struct user_gpu *g, uint64_t va, uint64_t length, int *fd)
{
	struct softgpu_dmabuf d = { .va = va, .length = length };
	int err = SG_CALL(g->fd, SOFTGPU_DMABUF, &d);

	*fd = d.fd;
	return err;
}

/* The process's host memory, which goes with its context. */
struct host {
	struct host *next;
	uint64_t va, length;
};

static struct host *hosts;

static void host_unmap(const struct host *h)
{
	mmap((void *)(uintptr_t)h->va, h->length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static int host_mapped(uint64_t va, uint64_t length)
{
	struct host *h = malloc(sizeof(*h));

	if (!h)
		return ENOMEM;
	*h = (struct host){ .next = hosts, .va = va, .length = length };
	/* Shared, as libcuda's: a fork leaves its page tables as they are. */
	if (mmap((void *)(uintptr_t)va, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
		free(h);
		return ENOMEM;
	}
	hosts = h;
	return 0;
}

/* va 0: all. */
static void host_gone(uint64_t va)
{
	struct host **at = &hosts, *h;

	while ((h = *at)) {
		if (va && h->va != va) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		host_unmap(h);
		free(h);
	}
}

static int host_ctx_destroy(struct user_gpu *g)
{
	int err = raw_ctx_destroy(g);

	host_gone(0);
	return err;
}

/* What libcuda does for cudaHostAlloc(): memory in the window, of which the driver is told. */
static int host_alloc(struct user_gpu *g, uint64_t length, uint64_t *va)
{
	struct softgpu_va_reserve r = { .length = (length + PAGE64 - 1) & ~(PAGE64 - 1) };
	struct softgpu_host_register h = { .ctx = g->ctx, .kind = SOFTGPU_KIND_HOST, .length = length };
	int err;

	if (length > 16 << 20)
		return ENOSPC;
	err = SG_CALL(g->fd, SOFTGPU_VA_RESERVE, &r);
	if (err)
		return err;
	*va = h.va = r.va;
	err = host_mapped(r.va, r.length);
	return err ? err : SG_CALL(g->fd, SOFTGPU_HOST_REGISTER, &h);
}

static int host_free(struct user_gpu *g, uint64_t va)
{
	struct softgpu_va a = { .va = va };
	/* Work that is queued would meet memory that is gone. */
	int err = g->ctx ? raw_sync(g) : 0;

	err = err ?: SG_CALL(g->fd, SOFTGPU_HOST_UNREGISTER, &a);
	if (err)
		return err;
	host_gone(va);
	return SG_CALL(g->fd, SOFTGPU_VA_RELEASE, &a);
}

static void raw_close(struct user_gpu *g)
{
	if (g->window)
		munmap(g->window, WINDOW_LEN + PAGE64);
	g->window = NULL;
	close(g->fd);
	g->fd = -1;
}

const struct gpu_ops gpu_raw = {
	.name = "raw",
	.open = raw_open,
	.ctx_create = raw_ctx_create,
	.ctx_destroy = raw_ctx_destroy,
	.alloc = raw_alloc,
	.free = raw_free,
	.copy = raw_copy,
	.sync = raw_sync,
	.tokens = raw_tokens,
	.export = raw_export,
	.close = raw_close,
};

const struct gpu_ops gpu_raw_amd = {
	.name = "AMD's, raw",
	.visible = true,
	.open = raw_open,
	.ctx_create = raw_ctx_create,
	.ctx_destroy = raw_ctx_destroy,
	.alloc = raw_alloc,
	.free = raw_free,
	.copy = raw_copy,
	.sync = raw_sync,
	.export = raw_export,
	.close = raw_close,
};

const struct gpu_ops gpu_raw_tegra = {
	.name = "Tegra's, raw",
	.in_host = true,
	.open = raw_open,
	.ctx_create = raw_ctx_create,
	.ctx_destroy = host_ctx_destroy,
	.alloc = host_alloc,
	.free = host_free,
	.copy = raw_copy,
	.sync = raw_sync,
	.close = raw_close,
};
