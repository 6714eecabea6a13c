/* SPDX-License-Identifier: MIT */
/*
 * sgraw.h - /dev/softgpuN by its raw calls, for tests that ask the driver and
 * nobody else; and how a test says what it found.
 */
#ifndef SGRAW_H
#define SGRAW_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "softgpu_uapi.h"

#define EXIT_SKIP	77
#define PAGE64		SOFTGPU_PAGE_SIZE
#define PAGE		((unsigned long)getpagesize())	/* the system's */
#define WINDOW_LEN	(64ULL << 30)

/* ---- results ---- */

extern int checks, failures;

/* Counts a check; says so when it fails.  Gives the condition's value. */
bool check_at(int line, bool ok, const char *what, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
#define CHECK(cond, ...)	check_at(__LINE__, cond, #cond, __VA_ARGS__)

/* A call's result against what it must be: 0, or an errno (the kernel's own calls: negative). */
#define EXPECT(call, want) do {							\
	int got_ = (call);							\
	check_at(__LINE__, got_ == (want), #call, "gives %d, not %d", got_, want);	\
} while (0)

/* What a test cannot go on without. */
#define NEED(cond) do {								\
	if (!(cond)) {								\
		printf("not ok: line %d: %s: %s\n", __LINE__, #cond, strerror(errno));	\
		exit(1);							\
	}									\
} while (0)

/* The last line, and the exit code. */
int test_end(const char *name);

/* Into a file that is there, of debugfs or of a module's parameters: 0 or an errno. */
int write_text(const char *path, const char *text);

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
	NEED(g.fd >= 0);
	g.window = PTR(sg_window(g.fd));
	NEED(g.window);
	g.ctx = sg_ctx(g.fd);
	NEED(g.ctx);
	return g;
}

/* Runs fn in a process of its own; failures count here.  False if a signal ended it. */
bool in_child(void (*fn)(void *arg), void *arg);

/* What a GPU has when nobody uses it; waits a while for that, and complains if it does not come. */
struct idle {
	uint64_t vram_free, bar1_used;
};
struct idle idle_now(int fd);
void check_idle(int fd, const struct idle *idle, const char *after);

#endif
