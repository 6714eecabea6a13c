/* SPDX-License-Identifier: MIT */
/*
 * sgraw.h - /dev/softgpuN by its raw calls, for tests that ask the driver alone.
 */
#pragma once

#include "softgpu_uapi.h"
#include "vmtest.h"

#define PAGE64		SOFTGPU_PAGE_SIZE
#define WINDOW_LEN	(64ULL << 30)

/* ---- calls: 0 or an errno ---- */

#define SG_CALL(fd, name, arg) \
	((arg)->size = sizeof(*(arg)), ioctl(fd, name, arg) ? errno : 0)

static inline int sg_open(int index)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/softgpu%d", index);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* Reserves the process's window, WINDOW_LEN long; every open file of the process then knows it. */
static inline void *sg_window(int fd)
{
	struct softgpu_window w = { .length = WINDOW_LEN };
	char *got = mmap(NULL, WINDOW_LEN + PAGE64, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t head;

	if (got == MAP_FAILED)
		return NULL;
	w.base = ((uintptr_t)got + PAGE64 - 1) & ~(PAGE64 - 1);
	head = w.base - (uintptr_t)got;
	if (head)
		munmap(got, head);
	munmap(got + head + WINDOW_LEN, PAGE64 - head);
	return SG_CALL(fd, SOFTGPU_WINDOW, &w) ? NULL : (void *)(uintptr_t)w.base;
}

static inline uint32_t sg_ctx(int fd)
{
	struct softgpu_ctx_create c = { 0 };

	return SG_CALL(fd, SOFTGPU_CTX_CREATE, &c) ? 0 : c.ctx;
}

static inline int sg_ctx_destroy(int fd, uint32_t ctx)
{
	struct softgpu_handle h = { .handle = ctx };

	return SG_CALL(fd, SOFTGPU_CTX_DESTROY, &h);
}

static inline int sg_ctx_sync(int fd, uint32_t ctx)
{
	struct softgpu_handle h = { .handle = ctx };

	return SG_CALL(fd, SOFTGPU_CTX_SYNC, &h);
}

static inline int sg_alloc(int fd, uint32_t ctx, uint64_t length, uint64_t *va)
{
	struct softgpu_mem_alloc a = { .ctx = ctx, .length = length };
	int err = SG_CALL(fd, SOFTGPU_MEM_ALLOC, &a);

	*va = a.va;
	return err;
}

static inline int sg_free(int fd, uint64_t va)
{
	struct softgpu_va a = { .va = va };

	return SG_CALL(fd, SOFTGPU_MEM_FREE, &a);
}

static inline int sg_query(int fd, uint64_t va, struct softgpu_query *q)
{
	memset(q, 0, sizeof(*q));
	q->va = va;
	return SG_CALL(fd, SOFTGPU_QUERY, q);
}

static inline int sg_copy(int fd, uint32_t ctx, uint64_t dst, uint64_t src, uint64_t length,
			  uint32_t flags)
{
	struct softgpu_copy c = {
		.ctx = ctx, .flags = flags, .dst = dst, .src = src, .width = length, .height = 1,
	};

	return SG_CALL(fd, SOFTGPU_COPY, &c);
}

static inline int sg_info(int fd, struct softgpu_info *info)
{
	memset(info, 0, sizeof(*info));
	return SG_CALL(fd, SOFTGPU_INFO, info);
}

#define PTR(p)	((uint64_t)(uintptr_t)(p))

static inline int sg_free_visible(int fd, uint64_t va)
{
	struct softgpu_va a = { .flags = SOFTGPU_FREE_VISIBLE, .va = va };

	return SG_CALL(fd, SOFTGPU_MEM_FREE, &a);
}

static inline int sg_dmabuf(int fd, uint64_t va, uint64_t length, int *dmabuf)
{
	struct softgpu_dmabuf a = { .va = va, .length = length, .fd = -1 };
	int err = SG_CALL(fd, SOFTGPU_DMABUF, &a);

	*dmabuf = a.fd;
	return err;
}

/* ---- what must work ---- */

/* A context of HSA's: the CPU sees its memory. */
uint32_t sg_ctx_visible(int fd);
uint64_t sg_need_alloc(int fd, uint32_t ctx, uint64_t length);
struct softgpu_info sg_need_info(int fd);

/* ---- a GPU ready for use, and whether all has been given back ---- */

struct gpu {
	int fd;
	uint32_t ctx;
	uint64_t window;
};

static inline struct gpu gpu_up(int index)
{
	struct gpu g;

	g.fd = sg_open(index);
	MUST(g.fd >= 0);
	g.window = PTR(sg_window(g.fd));
	MUST(g.window);
	g.ctx = sg_ctx(g.fd);
	MUST(g.ctx);
	return g;
}

static inline uint64_t need_alloc(struct gpu *g, uint64_t length)
{
	return sg_need_alloc(g->fd, g->ctx, length);
}

/* Runs fn in a process of its own; checks count here.  False: it did not end well. */
bool in_child(void (*fn)(void *arg), void *arg);

/* What a GPU has that is not in use; waits a while for that, and complains if it does not come. */
struct idle {
	uint64_t vram_free, bar1_used;
};
struct idle idle_now(int fd);
void check_idle(int fd, const struct idle *idle, const char *after);

/* A case runs in a process of its own, with a context on GPU 0; all must be given back at its end. */
struct gpu_case {
	const char *name;
	void (*run)(struct gpu *g);
	void (*end)(void);	/* NULL, or what is left to do in both processes */
};
/* Those whose names contain the text, or all; the last has no name. */
void run_cases(const struct gpu_case *cases, const char *only);

/* Of softgpu_uapi_test: softgpu_abuse.c, softgpu_deaths.c, softgpu_charged.c. */
extern const struct gpu_case abuse_cases[], death_cases[], charged_cases[];
/* What that program does when one of the cases has exec'ed it. */
int after_exec(int fd);
