// SPDX-License-Identifier: MIT
/* softgpu_charged.c - a process whose cgroup is at its limit on memory. */
#include <linux/dma-buf.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "softgpu_uapi_test.h"

#define CGROUPS		"/sys/fs/cgroup"
#define GROUP		CGROUPS "/softgpu_charged"
#define KIND		"/sys/module/softgpu/parameters/dmabuf_kind"
#define MIB		(1UL << 20)
#define LIMIT		(48 * MIB)

/* False: this kernel has no cgroups. */
static bool group_make(void)
{
	char limit[32];

	if (access(CGROUPS "/cgroup.controllers", F_OK) && mount("none", CGROUPS, "cgroup2", 0, NULL))
		return false;
	NEED(!write_text(CGROUPS "/cgroup.subtree_control", "+memory"));
	NEED(!mkdir(GROUP, 0755));
	snprintf(limit, sizeof(limit), "%lu", LIMIT);
	NEED(!write_text(GROUP "/memory.max", limit));
	return true;
}

static void in_group(void (*fn)(void *arg))
{
	if (!group_make()) {
		printf("skip: no cgroups\n");
		return;
	}
	CHECK(in_child(fn, NULL), "the process did not end well");
	NEED(!rmdir(GROUP));
}

/* How often the cgroup was at its limit. */
static long times_at_limit(void)
{
	FILE *f = fopen(GROUP "/memory.events", "re");
	char name[32];
	long n, times = -1;

	NEED(f);
	while (fscanf(f, "%31s %ld", name, &n) == 2)
		if (!strcmp(name, "max"))
			times = n;
	fclose(f);
	return times;
}

/* Memory that the kernel can reclaim at once, as a page cache is: more than the limit. */
static void fill(char *memory)
{
	for (size_t at = 0; at < 2 * LIMIT; at += MIB) {
		memset(memory + at, 1, MIB);
		NEED(!madvise(memory + at, MIB, MADV_FREE));
	}
}

static void makes_much(void *arg)
{
	char *memory = mmap(NULL, 2 * LIMIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct softgpu_event_create event = { 0 };
	int failed = 0;
	struct gpu g;
	long before;

	(void)arg;
	NEED(memory != MAP_FAILED && !write_text(GROUP "/cgroup.procs", "0"));
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
	(void)g;
	in_group(makes_much);
}

/* Moves a new dma-buf to system memory: 0 or an errno. */
static int move_one(const struct gpu *g, uint64_t length)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };
	struct softgpu_dmabuf d = { .length = length };
	uint64_t va;

	NEED(!sg_alloc(g->fd, g->ctx, length, &va));
	d.va = va;
	NEED(!SG_CALL(g->fd, SOFTGPU_DMABUF, &d));
	return ioctl(d.fd, DMA_BUF_IOCTL_SYNC, &sync) ? errno : 0;
}

static void moves_much(void *arg)
{
	unsigned long moved = 0;
	struct gpu g;
	int err;

	(void)arg;
	NEED(!write_text(GROUP "/cgroup.procs", "0"));
	g = gpu_up(0);
	while (moved < 2 * LIMIT) {
		err = move_one(&g, 2 * MIB);
		if (err)
			break;
		moved += 2 * MIB;
	}
	CHECK(moved >= LIMIT / 2 && moved < LIMIT && err == ENOMEM, "%lu bytes, errno %d", moved, err);
}

static bool on_pci(int fd)
{
	struct softgpu_info info;

	return !sg_info(fd, &info) && info.on_pci;
}

static void moved_memory(struct gpu *g)
{
	if (!on_pci(g->fd))
		return;
	NEED(!write_text(KIND, "2"));
	in_group(moves_much);
	NEED(!write_text(KIND, "0"));
}

const struct test_case charged_cases[] = {
	{ "calls in a cgroup at its limit", at_the_limit },
	{ "dma-bufs that are moved to system memory are charged", moved_memory },
	{ NULL, NULL }
};
