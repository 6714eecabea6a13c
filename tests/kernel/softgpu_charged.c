// SPDX-License-Identifier: MIT
/* softgpu_charged.c - a process whose cgroup is at its limit on memory. */
#include <linux/dma-buf.h>
#include "sgraw.h"

#define LIMIT		(48 * MIB)

static void in_group(void (*fn)(void *arg))
{
	if (!cgroup_make(LIMIT)) {
		printf("skip: no cgroups\n");
		return;
	}
	CHECK(in_child(fn, NULL), "the process did not end well");
	cgroup_remove();
}

/* How often the cgroup was at its limit. */
static long times_at_limit(void)
{
	return line_number(CGROUP "/memory.events", "max");
}

/* Memory that the kernel can reclaim at once, as a page cache is: more than the limit. */
static void fill(char *memory)
{
	for (size_t at = 0; at < 2 * LIMIT; at += MIB) {
		memset(memory + at, 1, MIB);
		MUST(!madvise(memory + at, MIB, MADV_FREE));
	}
}

static void makes_much(void *arg)
{
	char *memory = anonymous(2 * LIMIT);
	struct softgpu_event_create event = { 0 };
	int failed = 0;
	struct gpu g;
	long before;

	cgroup_enter();
	fill(memory);
	before = times_at_limit();
	g = gpu_up(0);
	for (int i = 0; i < 8; i++) {
		fill(memory);
		for (int k = 0; k < 4096; k++) {
			event.ctx = g.ctx;
			failed += SG_CALL(g.fd, SOFTGPU_EVENT_CREATE, &event) != 0;
		}
	}
	CHECK(!failed, "%d of 32768 calls", failed);
	CHECK(times_at_limit() > before, "the limit was not reached");
	close(g.fd);
}

static void at_the_limit(struct gpu *g)
{
	in_group(makes_much);
}

/* Moves a new dma-buf to system memory: 0 or an errno. */
static int move_one(const struct gpu *g, uint64_t length)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };
	int fd;

	MUST(!sg_dmabuf(g->fd, sg_need_alloc(g->fd, g->ctx, length), length, &fd));
	return ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) ? errno : 0;
}

static void moves_much(void *arg)
{
	unsigned long moved = 0;
	struct gpu g;
	int err;

	cgroup_enter();
	g = gpu_up(0);
	while (moved < 2 * LIMIT) {
		err = move_one(&g, 2 * MIB);
		if (err)
			break;
		moved += 2 * MIB;
	}
	CHECK(moved >= LIMIT / 2 && moved < LIMIT && err == ENOMEM, "%lu bytes, errno %d", moved, err);
}

static void moved_memory(struct gpu *g)
{
	if (!sg_need_info(g->fd).on_pci)
		return;
	MUST(module_set("softgpu", "dmabuf_kind", "2"));
	in_group(moves_much);
	MUST(module_set("softgpu", "dmabuf_kind", "0"));
}

const struct gpu_case charged_cases[] = {
	{ "calls in a cgroup at its limit", at_the_limit },
	{ "dma-bufs that are moved to system memory are charged", moved_memory },
	{ }
};
