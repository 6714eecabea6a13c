// SPDX-License-Identifier: MIT
/*
 * nvp2p_chaos - what nvidia.ko's knobs do to tables and mappings, seen by a
 * client (nvp2p_test.ko): wrong versions, other page sizes, mappings that fail.
 *
 *   nvp2p_chaos [BDF-OF-A-DMA-CARD]      such as 0x0200 for 02:00.0
 */
#include "../kernel/nvp2p_test.h"
#include "../kernel/sgraw.h"

#define PARAMETERS	"/sys/module/nvidia/parameters/"
#define CHAOS		"/sys/kernel/debug/softgpu/chaos/"
#define PAGES		8	/* of 64 KiB */
#define ENTRIES_MAX	(PAGES * 16)

static int test_fd;
static uint32_t card;

static struct nvp2p_test_call t_call(struct nvp2p_test_call c)
{
	NEED(!ioctl(test_fd, NVP2P_TEST_CALL, &c));
	return c;
}
#define T(...)	t_call((struct nvp2p_test_call){ __VA_ARGS__ })

/* errno of the write, 0 when it was taken. */
static int set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	NEED(fd >= 0);
	if (write(fd, value, strlen(value)) < 0)
		err = errno;
	close(fd);
	return err;
}

static struct nvp2p_test_call get(uint64_t va, uint64_t length)
{
	return T(.op = T_GET, .va = va, .length = length);
}

static struct nvp2p_test_call map(void)
{
	return T(.op = T_DMA_MAP, .bdf = card);
}

static void put(void)
{
	EXPECT(T(.op = T_PUT).ret, 0);
}

static void versions(uint64_t va)
{
	struct nvp2p_test_call r;

	EXPECT(set(PARAMETERS "table_version", "0x00030000"), 0);
	r = get(va, PAGE64);
	CHECK(!r.ret && r.version == 0x00030000, "%d, version %#x", r.ret, r.version);
	EXPECT(set(PARAMETERS "table_version", "0"), 0);
	put();
	r = get(va, PAGE64);
	CHECK(!r.ret && r.version == 0x00020000, "%d, version %#x", r.ret, r.version);
	if (card) {
		EXPECT(set(PARAMETERS "mapping_version", "0x00010001"), 0);
		r = map();
		CHECK(!r.ret && r.version == 0x00010001, "%d, version %#x", r.ret, r.version);
		EXPECT(T(.op = T_DMA_UNMAP).ret, 0);
		EXPECT(set(PARAMETERS "mapping_version", "0"), 0);
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
	struct nvp2p_test_call r = get(va, PAGES * PAGE64);

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

	EXPECT(set(PARAMETERS "page_size", "8"), EINVAL);
	EXPECT(set(PARAMETERS "page_size", "nothing"), EINVAL);
	EXPECT(get(va, PAGES * PAGE64).ret, 0);
	T(.op = T_PAGES, .data = PTR(pages), .length = PAGES);
	put();
	EXPECT(set(PARAMETERS "page_size", "4"), 0);
	check_pages(va, 4, 0, pages);
	EXPECT(set(PARAMETERS "page_size", "128"), 0);
	check_pages(va, 128, 2, pages);
	EXPECT(get(va, PAGE64).ret, -EINVAL);
	EXPECT(get(va, 3 * PAGE64).ret, -EINVAL);
	EXPECT(set(PARAMETERS "page_size", "64"), 0);
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

	NEED(!sg_info(g->fd, &before));
	while (n < MAX && !sg_alloc(g->fd, g->ctx, PAGE64, &va[n]))
		n++;
	NEED(n < MAX);
	for (i = 0; i < n; i += 2)
		EXPECT(sg_free(g->fd, va[i]), 0);
	NEED(!sg_alloc(g->fd, g->ctx, 2 * PAGE64, &scattered));
	EXPECT(set(PARAMETERS "page_size", "128"), 0);
	EXPECT(get(scattered, 2 * PAGE64).ret, -EINVAL);
	EXPECT(T(.op = T_GET_PERSISTENT, .va = scattered, .length = 2 * PAGE64).ret, -EINVAL);
	CHECK(!sg_info(g->fd, &info) && !info.pins && info.bar1_used == before.bar1_used, "%u pins are left", info.pins);
	/* The callback that it never armed does not come. */
	EXPECT(sg_free(g->fd, scattered), 0);
	EXPECT((int)T(.op = T_STATE).callbacks, 0);
	EXPECT(set(PARAMETERS "page_size", "64"), 0);
	for (i = 1; i < n; i += 2)
		EXPECT(sg_free(g->fd, va[i]), 0);
}

static void failures_on_demand(uint64_t va)
{
	uint64_t pages[1];

	EXPECT(set(CHAOS "fail_pin", "2"), 0);
	EXPECT(get(va, PAGE64).ret, 0);
	EXPECT(T(.op = T_GET, .slot = 1, .va = va, .length = PAGE64).ret, -ENOMEM);
	EXPECT(T(.op = T_GET, .slot = 1, .va = va, .length = PAGE64).ret, 0);
	EXPECT(T(.op = T_PUT, .slot = 1).ret, 0);
	if (card) {
		EXPECT(set(CHAOS "fail_map", "2"), 0);
		EXPECT(map().ret, 0);
		EXPECT(T(.op = T_DMA_MAP, .mapping = 1, .bdf = card).ret, -ENOMEM);
		EXPECT(T(.op = T_DMA_MAP, .mapping = 1, .bdf = card).ret, 0);
	}
	T(.op = T_PAGES, .data = PTR(pages), .length = 1);
	put();
	EXPECT(set(CHAOS "strict", "2"), ERANGE);
	EXPECT(set(CHAOS "fail_pin", "4294967296"), ERANGE);
}

static void all(void *arg)
{
	struct gpu g = gpu_up(0);
	uint64_t va;

	(void)arg;
	not_contiguous(&g);
	NEED(!sg_alloc(g.fd, g.ctx, PAGES * PAGE64, &va));
	versions(va);
	page_sizes(va);
	failures_on_demand(va);
	T(.op = T_RESET);
}

int main(int argc, char **argv)
{
	struct idle idle;
	int info_fd;

	card = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	test_fd = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	if (test_fd < 0 || access("/dev/softgpu0", F_OK)) {
		printf("skip: load softgpu.ko, nvidia.ko and nvp2p_test.ko first\n");
		return EXIT_SKIP;
	}
	info_fd = sg_open(0);
	NEED(info_fd >= 0);
	idle = idle_now(info_fd);
	CHECK(in_child(all, NULL), "did not end well");
	check_idle(info_fd, &idle, "all cases");
	return test_end("nvp2p_chaos");
}
