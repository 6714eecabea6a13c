// SPDX-License-Identifier: MIT
/*
 * nvp2p_chaos - what nvidia.ko's knobs do to tables and mappings, seen by a
 * client (nvp2p_test.ko): wrong versions, other page sizes, mappings that fail.
 *
 *   nvp2p_chaos [BDF-OF-A-DMA-CARD]      such as 0x0200 for 02:00.0
 */
#include "nvp2p_client.h"
#include "sgraw.h"

#define PARAMETERS	"/sys/module/nvidia/parameters/"
#define CHAOS		"/sys/kernel/debug/softgpu/chaos/"
#define PAGES		8	/* of 64 KiB */
#define ENTRIES_MAX	(PAGES * 16)

static uint32_t card;

static struct nvp2p_test_call map(void)
{
	return T(.op = T_DMA_MAP, .bdf = card);
}

static void put(void)
{
	EXPECT(t_put(0), 0);
}

static void versions(uint64_t va)
{
	struct nvp2p_test_call r;

	EXPECT(write_text(PARAMETERS "table_version", "0x00030000"), 0);
	r = t_get(0, va, PAGE64);
	CHECK(!r.ret && r.version == 0x00030000, "%d, version %#x", r.ret, r.version);
	EXPECT(write_text(PARAMETERS "table_version", "0"), 0);
	put();
	r = t_get(0, va, PAGE64);
	CHECK(!r.ret && r.version == 0x00020000, "%d, version %#x", r.ret, r.version);
	if (card) {
		EXPECT(write_text(PARAMETERS "mapping_version", "0x00010001"), 0);
		r = map();
		CHECK(!r.ret && r.version == 0x00010001, "%d, version %#x", r.ret, r.version);
		EXPECT(T(.op = T_DMA_UNMAP).ret, 0);
		EXPECT(write_text(PARAMETERS "mapping_version", "0"), 0);
		r = map();
		CHECK(!r.ret && r.version == 0x00020003, "%d, version %#x", r.ret, r.version);
	}
	put();
}

/* The table's pages and the mapping's are those of 64 KiB, cut or put together. */
static void check_pages(uint64_t va, uint32_t kib, uint32_t type, const uint64_t *pages64)
{
	uint32_t size = kib << 10, n = PAGES * PAGE64 / size, i;
	uint64_t pages[ENTRIES_MAX], dma[ENTRIES_MAX];
	struct nvp2p_test_call r = t_get(0, va, PAGES * PAGE64);

	CHECK(!r.ret && r.page_size == type && r.entries == n, "%d, type %u, %u entries", r.ret, r.page_size,
	      r.entries);
	T(.op = T_PAGES, .data = PTR(pages), .length = n);
	for (i = 0; i < n; i++) {
		uint64_t at = (uint64_t)i * size, want = pages64[at / PAGE64] + at % PAGE64;

		CHECK(pages[i] == want, "page %u at %#llx, not %#llx", i, (long long)pages[i], (long long)want);
	}
	if (card) {
		r = map();
		CHECK(!r.ret && r.page_size == type && r.entries == n, "%d, type %u, %u entries", r.ret,
		      r.page_size, r.entries);
		T(.op = T_DMA_ADDRESSES, .data = PTR(dma), .length = n);
		for (i = 1; i < n; i++)
			CHECK(dma[i] % 4096 == 0 && dma[i] != dma[i - 1], "%#llx", (long long)dma[i]);
	}
	put();
}

static void page_sizes(uint64_t va)
{
	uint64_t pages[PAGES];

	EXPECT(write_text(PARAMETERS "page_size", "8"), EINVAL);
	EXPECT(write_text(PARAMETERS "page_size", "nothing"), EINVAL);
	EXPECT(t_get(0, va, PAGES * PAGE64).ret, 0);
	T(.op = T_PAGES, .data = PTR(pages), .length = PAGES);
	put();
	EXPECT(write_text(PARAMETERS "page_size", "4"), 0);
	check_pages(va, 4, 0, pages);
	EXPECT(write_text(PARAMETERS "page_size", "128"), 0);
	check_pages(va, 128, 2, pages);
	EXPECT(t_get(0, va, PAGE64).ret, -EINVAL);
	EXPECT(t_get(0, va, 3 * PAGE64).ret, -EINVAL);
	EXPECT(write_text(PARAMETERS "page_size", "64"), 0);
	check_pages(va, 64, 1, pages);
}

/* VRAM in single pages: two neighbours in the address space are none in VRAM. */
static void not_contiguous(struct gpu *g)
{
	enum { MAX = 4096 };
	static uint64_t va[MAX];
	struct softgpu_info before, info;
	uint64_t scattered;
	int n = 0, i;

	MUST(!sg_info(g->fd, &before));
	while (n < MAX && !sg_alloc(g->fd, g->ctx, PAGE64, &va[n]))
		n++;
	MUST(n < MAX);
	for (i = 0; i < n; i += 2)
		EXPECT(sg_free(g->fd, va[i]), 0);
	MUST(!sg_alloc(g->fd, g->ctx, 2 * PAGE64, &scattered));
	EXPECT(write_text(PARAMETERS "page_size", "128"), 0);
	EXPECT(t_get(0, scattered, 2 * PAGE64).ret, -EINVAL);
	EXPECT(T(.op = T_GET_PERSISTENT, .va = scattered, .length = 2 * PAGE64).ret, -EINVAL);
	CHECK(!sg_info(g->fd, &info) && !info.pins && info.bar1_used == before.bar1_used, "%u pins are left", info.pins);
	/* The callback that it never armed does not come. */
	EXPECT(sg_free(g->fd, scattered), 0);
	EXPECT((int)t_state(0).callbacks, 0);
	EXPECT(write_text(PARAMETERS "page_size", "64"), 0);
	for (i = 1; i < n; i += 2)
		EXPECT(sg_free(g->fd, va[i]), 0);
}

static void failures_on_demand(uint64_t va)
{
	uint64_t pages[1];

	EXPECT(write_text(CHAOS "fail_pin", "2"), 0);
	EXPECT(t_get(0, va, PAGE64).ret, 0);
	EXPECT(t_get(1, va, PAGE64).ret, -ENOMEM);
	EXPECT(t_get(1, va, PAGE64).ret, 0);
	EXPECT(t_put(1), 0);
	if (card) {
		EXPECT(write_text(CHAOS "fail_map", "2"), 0);
		EXPECT(map().ret, 0);
		EXPECT(T(.op = T_DMA_MAP, .mapping = 1, .bdf = card).ret, -ENOMEM);
		EXPECT(T(.op = T_DMA_MAP, .mapping = 1, .bdf = card).ret, 0);
	}
	T(.op = T_PAGES, .data = PTR(pages), .length = 1);
	put();
	EXPECT(write_text(CHAOS "strict", "2"), ERANGE);
	EXPECT(write_text(CHAOS "fail_pin", "4294967296"), ERANGE);
}

/* What other releases of the driver do, and what is left of it. */
static void other_releases(uint64_t va)
{
	struct nvp2p_test_call r;

	EXPECT(write_text(PARAMETERS "get_race", "2"), 0);
	EXPECT(t_get(0, va, PAGE64).ret, 0);
	r = t_get(1, va, PAGE64);
	CHECK(r.ret == -EINVAL && r.out == OUT_SET, "%d, the table is in state %u", r.ret, r.out);
	/* A client that puts what it was left does no harm to others. */
	EXPECT(T(.op = T_PUT, .slot = 1, .flags = W_GARBAGE_TABLE, .value = r.pointer).ret, 0);
	EXPECT(write_text(PARAMETERS "get_race", "1"), 0);
	EXPECT(T(.op = T_GET_PERSISTENT, .slot = 1, .va = va, .length = PAGE64).ret, -EINVAL);
	EXPECT(t_get(1, va, PAGE64).ret, 0);
	EXPECT(t_put(1), 0);
	put();

	EXPECT(write_text(PARAMETERS "unsupported", "1"), 0);
	EXPECT(t_get(0, va, PAGE64).ret, -524);
	EXPECT(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64).ret, -524);
	EXPECT(write_text(PARAMETERS "unsupported", "0"), 0);

	EXPECT(write_text(PARAMETERS "unsupported", "2"), ERANGE);
	EXPECT(write_text(PARAMETERS "callback_late_ms", "60001"), ERANGE);
	EXPECT(write_text(CHAOS "dmabuf_raw", "2"), ERANGE);
}

/* Exports from the middle of an allocation are refused, others are not. */
static void exports(struct gpu *g, uint64_t va)
{
	uint64_t small;
	int fd;

	MUST(!sg_alloc(g->fd, g->ctx, 100, &small));
	EXPECT(write_text(CHAOS "dmabuf_whole", "1"), 0);
	EXPECT(sg_dmabuf(g->fd, va + PAGE64, PAGE64, &fd), EINVAL);
	EXPECT(sg_dmabuf(g->fd, va, PAGE64, &fd), 0);
	close(fd);
	EXPECT(sg_dmabuf(g->fd, small & ~4095ULL, 4096, &fd), 0);
	close(fd);
	EXPECT(write_text(CHAOS "dmabuf_whole", "0"), 0);
	EXPECT(sg_dmabuf(g->fd, va + PAGE64, PAGE64, &fd), 0);
	close(fd);
}

static void all(void *arg)
{
	struct gpu g = gpu_up(0);
	uint64_t va;

	not_contiguous(&g);
	MUST(!sg_alloc(g.fd, g.ctx, PAGES * PAGE64, &va));
	versions(va);
	page_sizes(va);
	failures_on_demand(va);
	other_releases(va);
	exports(&g, va);
	t_reset();
}

int main(int argc, char **argv)
{
	struct idle idle;
	int info_fd;

	card = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	if (!t_open() || access("/dev/softgpu0", F_OK))
		check_skip("load softgpu.ko, nvidia.ko and nvp2p_test.ko first");
	info_fd = sg_open(0);
	MUST(info_fd >= 0);
	idle = idle_now(info_fd);
	CHECK(in_child(all, NULL), "did not end well");
	check_idle(info_fd, &idle, "all cases");
	return check_end("nvp2p_chaos");
}
