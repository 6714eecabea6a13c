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
#define CLIENT_OP(name, ...)								\
	static int name(void)								\
	{										\
		return t_call((struct nvp2p_test_call){ __VA_ARGS__ });			\
	}

CLIENT_OP(get, .op = T_GET, .va = va, .length = LENGTH)
CLIENT_OP(get_persistent, .op = T_GET_PERSISTENT, .va = va, .length = LENGTH)
CLIENT_OP(put, .op = T_PUT)
CLIENT_OP(put_persistent, .op = T_PUT_PERSISTENT)
CLIENT_OP(dma_map, .op = T_DMA_MAP, .bdf = card)
CLIENT_OP(dma_unmap, .op = T_DMA_UNMAP, .bdf = card)
CLIENT_OP(free_in_callback, .op = T_ON_CALLBACK, .value = C_FREE_DMA_MAPPING | C_FREE_PAGE_TABLE)
CLIENT_OP(reset, .op = T_RESET)

static int mem_alloc(void)
{
	return sg_alloc(g.fd, g.ctx, LENGTH, &va);
}

static int mem_free(void)
{
	return sg_free(g.fd, va);
}

static int mem_free_if_there(void)
{
	mem_free();
	return 0;
}

static const struct stage with_memory[] = {
	{ "get_pages", .op = get, .after = { reset } },
	{ "get_pages_persistent", .op = get_persistent, .after = { reset } },
	{ "put_pages", .before = { get }, .op = put, .after = { reset } },
	{ "put_pages_persistent", .before = { get_persistent }, .op = put_persistent, .after = { reset } },
	{ "dma_map_pages", .before = { get }, .op = dma_map, .after = { reset } },
	{ "dma_unmap_pages", .before = { get, dma_map }, .op = dma_unmap, .after = { reset } },
};

/* Memory that a driver has pinned and mapped. */
static int pinned_memory(void)
{
	return mem_alloc() ?: get() ?: dma_map() ?: free_in_callback();
}

static const struct stage revocation[] = {
	{ "free of what is pinned", .before = { pinned_memory }, .op = mem_free, .after = { mem_free_if_there, reset } },
};

static void in_a_process(void *arg)
{
	g = gpu_up(0);
	MUST(!mem_alloc());
	sweep(with_memory);
	MUST(!mem_free());
	sweep(revocation);
}

static void exit_pinned(void)
{
	g = gpu_up(0);
	MUST(!pinned_memory());
}

static bool idle_after_reset(void)
{
	MUST(!reset());
	return idle();
}

void fail_nth_nvp2p(void)
{
	test_fd = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	MUST(test_fd >= 0);
	CHECK(in_child(in_a_process, NULL), "the process of nvidia_p2p's calls was killed");
	idle_begins();
	fail_nth_exits("exit with pins", exit_pinned, 12, idle_after_reset);
	close(test_fd);
}
