// SPDX-License-Identifier: MIT
/* fail_nth_nvp2p.c - the calls that drivers make of nvidia_p2p. */
#include "fail_nth.h"
#include "fail_nth_test.h"

#define LENGTH	(4 * PAGE64)

static struct gpu g;
static uint64_t va;
static int test_fd;

/* The interface's own errno; that of the test client's copies where it comes to them. */
static int t_call(struct nvp2p_test_call c)
{
	return ioctl(test_fd, NVP2P_TEST_CALL, &c) ? errno : -c.ret;
}
#define T(...) t_call((struct nvp2p_test_call){ __VA_ARGS__ })

static int get(void)
{
	return T(.op = T_GET, .va = va, .length = LENGTH);
}

static int get_persistent(void)
{
	return T(.op = T_GET_PERSISTENT, .va = va, .length = LENGTH);
}

static int put(void)
{
	return T(.op = T_PUT);
}

static int put_persistent(void)
{
	return T(.op = T_PUT_PERSISTENT);
}

static int dma_map(void)
{
	return T(.op = T_DMA_MAP, .bdf = card);
}

static int dma_unmap(void)
{
	return T(.op = T_DMA_UNMAP, .bdf = card);
}

static void reset(void)
{
	NEED(!T(.op = T_RESET));
}

static void need_get(void)
{
	NEED(!get());
}

static void need_get_persistent(void)
{
	NEED(!get_persistent());
}

static void mapped(void)
{
	need_get();
	NEED(!dma_map());
}

/* Memory that a driver has pinned and mapped. */
static void pinned_memory(void)
{
	NEED(!sg_alloc(g.fd, g.ctx, LENGTH, &va));
	mapped();
	NEED(!T(.op = T_ON_CALLBACK, .value = C_FREE_DMA_MAPPING | C_FREE_PAGE_TABLE));
}

static int mem_free(void)
{
	return sg_free(g.fd, va);
}

static void free_if_there(void)
{
	sg_free(g.fd, va);
	reset();
}

static const struct stage with_memory[] = {
	{ "get_pages", .op = get, .after = reset },
	{ "get_pages_persistent", .op = get_persistent, .after = reset },
	{ "put_pages", .before = need_get, .op = put, .after = reset },
	{ "put_pages_persistent", .before = need_get_persistent, .op = put_persistent, .after = reset },
	{ "dma_map_pages", .before = need_get, .op = dma_map, .after = reset },
	{ "dma_unmap_pages", .before = mapped, .op = dma_unmap, .after = reset },
};

static const struct stage revocation[] = {
	{ "free of what is pinned", .before = pinned_memory, .op = mem_free, .after = free_if_there },
};

static void in_a_process(void *arg)
{
	(void)arg;
	g = gpu_up(0);
	NEED(!sg_alloc(g.fd, g.ctx, LENGTH, &va));
	sweep(with_memory);
	NEED(!sg_free(g.fd, va));
	sweep(revocation);
}

static void exit_pinned(void)
{
	g = gpu_up(0);
	pinned_memory();
}

static bool idle_after_reset(void)
{
	reset();
	return idle();
}

void fail_nth_nvp2p(void)
{
	test_fd = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	NEED(test_fd >= 0);
	CHECK(in_child(in_a_process, NULL), "the process of nvidia_p2p's calls was killed");
	idle_begins();
	fail_nth_exits("exit with pins", exit_pinned, 12, idle_after_reset);
	close(test_fd);
}
