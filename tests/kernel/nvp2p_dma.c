// SPDX-License-Identifier: MIT
/* nvp2p_dma.c - DMA mappings. */
#include "nvp2p_rules.h"

#define PAGES	6

static uint64_t pinned(struct gpu *g, int slot)
{
	uint64_t va = need_alloc(g, PAGES * PAGE64);

	EXPECT(t_get(slot, va, PAGES * PAGE64).ret, 0);
	return va;
}

static struct nvp2p_test_call map(int slot, int mapping, int peer)
{
	return T(.op = T_DMA_MAP, .slot = slot, .mapping = mapping, .bdf = card_bdf(peer));
}

static int dma_unmap(int slot, int mapping)
{
	return T(.op = T_DMA_UNMAP, .slot = slot, .mapping = mapping).ret;
}

/* In system memory a GPU's pages may go through the DMA layer elsewhere; a BAR's may not. */
static void check_addresses(int slot, int mapping, int peer)
{
	uint64_t pages[PAGES], dma[PAGES];
	int i, j;

	t_pages(slot, pages, PAGES);
	T(.op = T_DMA_ADDRESSES, .slot = slot, .mapping = mapping, .data = PTR(dma), .length = PAGES);
	for (i = 0; i < PAGES; i++) {
		CHECK(dma[i] % 4096 == 0, "%#llx", (unsigned long long)dma[i]);
		CHECK((dma[i] == pages[i]) == !card_bdf_translated(peer),
		      "page %d at %#llx has DMA address %#llx, peer is %stranslated", i,
		      (unsigned long long)pages[i], (unsigned long long)dma[i],
		      card_bdf_translated(peer) ? "" : "not ");
		for (j = 0; j < i; j++)
			CHECK(dma[i] != dma[j], "pages %d and %d", i, j);
	}
}

static void several(struct gpu *g)
{
	int peers = card_bdf(1) ? 2 : 1;

	pinned(g, 0);
	EXPECT(map(0, 0, 0).ret, 0);
	EXPECT(map(0, 1, peers - 1).ret, 0);
	EXPECT(map(0, 2, 0).ret, 0);
	check_addresses(0, 0, 0);
	check_addresses(0, 1, peers - 1);
	EXPECT(dma_unmap(0, 0), 0);
	check_addresses(0, 2, 0);
	EXPECT(dma_unmap(0, 2), 0);
	EXPECT(dma_unmap(0, 1), 0);
	EXPECT(t_put(0), 0);
}

/* For another device it is unmapped all the same. */
static void wrong_peer(struct gpu *g)
{
	uint64_t dma;

	pinned(g, 0);
	EXPECT(map(0, 0, 0).ret, 0);
	T(.op = T_DMA_ADDRESSES, .data = PTR(&dma), .length = 1);
	EXPECT(T(.op = T_DMA_UNMAP, .flags = W_OTHER_PEER).ret, 0);
	if (card_bdf_translated(0))
		EXPECT(T(.op = T_TRANSLATE, .bdf = card_bdf(0), .va = dma).value, 0);
	MUST_FAIL(T(.op = T_DMA_MAP, .bdf = card_bdf(0), .flags = W_GARBAGE_TABLE, .value = 4096), EINVAL, OUT_NULL);
	EXPECT(t_put(0), 0);
	MUST_FAIL(T(.op = T_DMA_MAP, .bdf = card_bdf(0), .flags = W_STALE_TABLE), EINVAL, OUT_NULL);
	EXPECT(T(.op = T_DMA_UNMAP, .bdf = card_bdf(0), .flags = W_STALE_TABLE | W_STALE_MAPPING).ret, 0);
}

/* Finds the page of [va, va + n pages) that is the last of the BAR, by pins that it ends again: its index, or -1. */
static int last_page(uint64_t va, int n)
{
	enum { AT_ONCE = 512 };
	uint64_t pages[AT_ONCE], most = 0;
	int found = -1, at, i;

	for (at = 0; at < n; at += AT_ONCE) {
		int count = n - at < AT_ONCE ? n - at : AT_ONCE;

		EXPECT(t_get(0, va + at * PAGE64, count * PAGE64).ret, 0);
		t_pages(0, pages, count);
		EXPECT(t_put(0), 0);
		for (i = 0; i < count; i++) {
			if (pages[i] > most) {
				most = pages[i];
				found = at + i;
			}
		}
	}
	return found;
}

/* The driver's own off-by-one: the last page of the BAR is taken to be outside. */
static void end_of_bar(struct gpu *g)
{
	struct softgpu_info info = sg_need_info(g->fd);
	uint64_t va;
	int last;

	if (!info.on_pci) {
		printf("skip: VRAM is in no BAR\n");
		return;
	}
	va = need_alloc(g, info.vram_free);
	last = last_page(va, info.vram_free / PAGE64);
	EXPECT(t_get(0, va + last * PAGE64, PAGE64).ret, 0);
	MUST_FAIL(map(0, 0, 0), EIO, OUT_NULL);
	EXPECT(t_put(0), 0);
	EXPECT(t_get(0, va + (last ? last - 1 : 1) * PAGE64, PAGE64).ret, 0);
	EXPECT(map(0, 0, 0).ret, 0);
	EXPECT(t_put(0), 0);
}

static void in_the_callback(struct gpu *g)
{
	uint64_t va = pinned(g, 0);

	EXPECT(map(0, 0, 0).ret, 0);
	t_on_callback(0, C_DMA_MAP);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callback_ret, -EINVAL);

	va = pinned(g, 0);
	EXPECT(map(0, 0, 0).ret, 0);
	t_on_callback(0, C_DMA_UNMAP);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callback_ret, 0);
}

static void persistent(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGES * PAGE64);

	EXPECT(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGES * PAGE64).ret, 0);
	EXPECT(map(0, 0, 0).ret, 0);
	EXPECT(sg_free(g->fd, va), 0);
	check_addresses(0, 0, 0);
	EXPECT(map(0, 1, 0).ret, 0);
	EXPECT(dma_unmap(0, 0), 0);
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, 0);
}

/* A peer that cannot say the address is told so, not given half of it. */
static void small_mask(struct gpu *g)
{
	struct nvp2p_test_call r;

	if (!sg_need_info(g->fd).on_pci) {
		printf("skip: VRAM in system memory may be within every mask\n");
		return;
	}
	pinned(g, 0);
	r = T(.op = T_DMA_MAP, .bdf = card_bdf(0), .flags = W_SMALL_MASK);
	CHECK(r.ret == (card_bdf_translated(0) ? 0 : -EIO), "%d", r.ret);
	CHECK(r.out == (r.ret ? OUT_NULL : OUT_SET));
	EXPECT(t_put(0), 0);
}

static void set_topology_override(const char *value)
{
	MUST(module_set("nvidia", "NVreg_GrdmaPciTopoCheckOverride", value));
}

static void topology(struct gpu *g)
{
	pinned(g, 0);
	set_topology_override("2");
	MUST_FAIL(map(0, 0, 0), ENOTSUPP, OUT_NULL);
	set_topology_override("1");
	EXPECT(map(0, 0, 0).ret, 0);
	set_topology_override("0");
	EXPECT(map(0, 1, 0).ret, 0);
	EXPECT(t_put(0), 0);
}

const struct gpu_case dma_cases[] = {
	{ "dma: several mappings, several peers", several, t_reset },
	{ "dma: unmapped for another device; tables that are none", wrong_peer, t_reset },
	{ "dma: the last 64 KiB of the BAR", end_of_bar, t_reset },
	{ "dma: in the callback", in_the_callback, t_reset },
	{ "dma: persistent pins", persistent, t_reset },
	{ "dma: a peer with too few address bits", small_mask, t_reset },
	{ "dma: topology override", topology, t_reset },
	{ }
};
