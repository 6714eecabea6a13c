// SPDX-License-Identifier: MIT
/* dma.c - 1.9: DMA mappings for a peer device. */
#include "conform.h"

#define N	(BLOCK / KIB64)

static struct nvp2p_test_call map(int mapping)
{
	return T(.op = T_DMA_MAP, .mapping = mapping, .bdf = options.peer);
}

static int unmap(int mapping)
{
	return T(.op = T_DMA_UNMAP, .mapping = mapping).ret;
}

/* -EINVAL, and the pointer NULL: every failure's mark. */
static void refuses(const char *what, uint32_t flags)
{
	struct nvp2p_test_call c = T(.op = T_DMA_MAP, .bdf = options.peer, .flags = flags);
	bool null = c.out == OUT_NULL;

	judge(c.ret == -22 && null, "1.9", what, "-EINVAL, *dma_mapping NULL", "%s, %s", errname(c.ret),
	      null ? "NULL" : "not NULL");
	if (!c.ret)
		unmap(0);
}

static void arguments(void)
{
	struct nvp2p_test_call c;

	pin(0, cuda_alloc(BLOCK), BLOCK);
	refuses("dma_map_pages: peer NULL", W_NULL_PEER);
	refuses("dma_map_pages: page_table NULL", W_NULL_TABLE);
	c = T(.op = T_DMA_MAP, .bdf = options.peer, .flags = W_NULL_MAPPING);
	returns("1.9", "dma_map_pages: dma_mapping NULL", -22, c.ret);
	if (map(0).ret) {
		row(FAIL, "1.9", "dma_unmap_pages", "a mapping to unmap", "none can be made");
		return;
	}
	returns("1.9", "dma_unmap_pages: peer NULL", -22, T(.op = T_DMA_UNMAP, .flags = W_NULL_PEER).ret);
	returns("1.9", "dma_unmap_pages: page_table NULL", -22, T(.op = T_DMA_UNMAP, .flags = W_NULL_TABLE).ret);
	returns("1.9", "dma_unmap_pages: dma_mapping NULL", -22, T(.op = T_DMA_UNMAP, .flags = W_NULL_MAPPING).ret);
	returns("1.9", "dma_unmap_pages", 0, unmap(0));
	map(1);
	returns("1.9", "dma_unmap_pages for another device than it was mapped for", 0,
		T(.op = T_DMA_UNMAP, .mapping = 1, .flags = W_OTHER_PEER).ret);
	returns("1.9", "dma_unmap_pages of that mapping again", 0,
		T(.op = T_DMA_UNMAP, .bdf = options.peer, .flags = W_STALE_MAPPING).ret);
}

/* Addresses in bus space lead, through the IOMMU where there is one, to the table's pages. */
static void addresses(int mapping)
{
	uint64_t pages[N], dma[N];
	unsigned int wrong = 0;
	bool translated = false;

	t_pages(0, pages, N);
	T(.op = T_DMA_ADDRESSES, .mapping = mapping, .data = (uintptr_t)dma, .length = N);
	for (unsigned int i = 0; i < N; i++) {
		struct nvp2p_test_call t = T(.op = T_TRANSLATE, .bdf = options.peer, .va = dma[i]);

		translated = t.pointer;
		wrong += t.value != pages[i];
	}
	judge(!wrong, "1.9", "DMA addresses, followed by the IOMMU where one translates", "the pages' own",
	      "%u of 32 lead elsewhere%s", wrong, translated ? "; translated" : "");
}

static void success(void)
{
	uint32_t version = (uint32_t)T(.op = T_FEATURES).token;
	struct nvp2p_test_call c;
	bool good;

	pin(0, cuda_alloc(BLOCK), BLOCK);
	c = map(0);
	returns("1.9", "dma_map_pages", 0, c.ret);
	if (c.ret)
		return;
	good = c.version >> 16 == version >> 16 && (c.version & 0xffff) >= (version & 0xffff);
	judge(good, "1.9", "DMA mapping: version, compatible with the header's", "its major, and no smaller minor",
	      "%#x, header %#x", c.version, version);
	judge(c.page_size == 1, "1.9", "DMA mapping: page_size_type", "1 (64 KiB)", "%u", c.page_size);
	judge(c.entries == N, "1.9", "DMA mapping: entries", "the page table's: 32", "%u", c.entries);
	if (features & F_MAPPING_PEER)
		judge(c.peer_matches, "1.9", "DMA mapping: pci_dev", "the peer", "%s", c.peer_matches ? "the peer" : "another");
	else
		row(NA, "1.9", "DMA mapping: pci_dev", "", "nv-p2p.h does not have it");
	if (c.page_size == 1 && c.entries == N)
		addresses(0);
	returns("1.9", "a second mapping of the same table", 0, map(1).ret);
	returns("1.9", "dma_unmap_pages of the first", 0, unmap(0));
	if (c.page_size == 1 && c.entries == N)
		addresses(1);
	returns("1.9", "dma_unmap_pages of the second", 0, unmap(1));
}

static void forced(void)
{
	gpu_ptr p = cuda_alloc(BLOCK);

	if (!(features & F_FORCE_BAR1) || T(.op = T_GET_PERSISTENT, .va = p, .length = BLOCK, .value = 1).ret) {
		row(NA, "1.9", "a pin with FORCE_BAR1_MAPPING", "-ENOTSUPP", "coherent GPUs only");
		return;
	}
	returns("1.9", "dma_map_pages of a pin with FORCE_BAR1_MAPPING", -ENOTSUPP, map(0).ret);
	T(.op = T_PUT_PERSISTENT);
}

static void not_tried(void)
{
	row(NA, "1.9", "a PCI topology that is not supported", "-ENOTSUPP", "needs such a machine");
	row(NA, "1.9", "a table with an unknown gpu_uuid, or a page outside BAR1", "-EINVAL, -EIO", "would need a forged table");
}

const struct group dma_groups[] = {
	{ "1.9", "arguments of the DMA calls", .run = arguments, .needs = F_DMA, .needs_peer = true },
	{ "1.9", "DMA mappings", .run = success, .needs = F_DMA, .needs_peer = true },
	{ "1.9", "DMA mappings of forced pins", .run = forced, .needs = F_DMA, .needs_peer = true },
	{ "1.9", "what cannot be tried", .run = not_tried, .no_cuda = true },
	{ 0 }
};
