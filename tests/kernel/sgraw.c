// SPDX-License-Identifier: MIT
/* sgraw.c - see sgraw.h */
#include "sgraw.h"

uint32_t sg_ctx_visible(int fd)
{
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE };

	MUST(!SG_CALL(fd, SOFTGPU_CTX_CREATE, &c));
	return c.ctx;
}

uint64_t sg_need_alloc(int fd, uint32_t ctx, uint64_t length)
{
	uint64_t va;

	MUST(!sg_alloc(fd, ctx, length, &va));
	return va;
}

struct softgpu_info sg_need_info(int fd)
{
	struct softgpu_info info;

	MUST(!sg_info(fd, &info));
	return info;
}

/* ---- whether all has been given back ---- */

struct idle idle_now(int fd)
{
	struct softgpu_info info = sg_need_info(fd);

	return (struct idle){ .vram_free = info.vram_free, .bar1_used = info.bar1_used };
}

static bool is_idle(int fd, const struct idle *idle)
{
	struct softgpu_info info = sg_need_info(fd);

	return !info.pins && info.vram_free == idle->vram_free && info.bar1_used == idle->bar1_used;
}

void check_idle(int fd, const struct idle *idle, const char *after)
{
	struct softgpu_info info;

	/* The last of a killed process may be cleared away by another thread. */
	if (UNTIL(is_idle(fd, idle)))
		return;
	info = sg_need_info(fd);
	CHECK(!info.pins, "%s: %u pins are left", after, info.pins);
	CHECK(info.vram_free == idle->vram_free, "%s: %lld bytes of VRAM are lost", after,
	      (long long)(idle->vram_free - info.vram_free));
	CHECK(info.bar1_used == idle->bar1_used, "%s: %lld bytes of BAR1 are lost", after,
	      (long long)(info.bar1_used - idle->bar1_used));
}

/* ---- processes and cases ---- */

struct call {
	void (*fn)(void *arg);
	void *arg;
};

static int call(void *arg)
{
	const struct call *c = arg;

	c->fn(c->arg);
	return 0;
}

bool in_child(void (*fn)(void *arg), void *arg)
{
	struct call c = { fn, arg };

	return check_in_child(call, &c) == 0;
}

static void run_case(void *arg)
{
	const struct gpu_case *c = arg;
	struct gpu g = gpu_up(0);

	c->run(&g);
	if (c->end)
		c->end();
	close(g.fd);
}

void run_cases(const struct gpu_case *c, const char *only)
{
	int info_fd = sg_open(0);
	struct idle idle = idle_now(info_fd);

	for (; c->name; c++) {
		unsigned long before = check_counts.failures;

		if (only && !strstr(c->name, only))
			continue;
		CHECK(in_child(run_case, (void *)c), "%s: did not end well", c->name);
		if (c->end)
			c->end();
		check_idle(info_fd, &idle, c->name);
		printf("%s: %s\n", check_counts.failures == before ? "ok" : "NOT OK", c->name);
	}
	close(info_fd);
}
