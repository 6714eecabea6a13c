// SPDX-License-Identifier: MIT
/* softgpu_share_reach.c - real data through a dma-buf's addresses, over one allocation and over several. */
#include "softgpu_share.h"

/* Memory of one's own choice at va, of `length' bytes. */
static void need_map(struct gpu *g, uint64_t va, uint64_t length)
{
	struct softgpu_phys_create phys = { .length = length };
	struct softgpu_map m = { .va = va, .length = length };
	struct softgpu_handle release;

	MUST(!SG_CALL(g->fd, SOFTGPU_PHYS_CREATE, &phys));
	m.handle = release.handle = phys.handle;
	MUST(!SG_CALL(g->fd, SOFTGPU_MAP, &m));
	MUST(!SG_CALL(g->fd, SOFTGPU_PHYS_RELEASE, &release));
}

static int unmap_err(struct gpu *g, uint64_t va, uint64_t length)
{
	struct softgpu_va_range r = { .va = va, .length = length };

	return SG_CALL(g->fd, SOFTGPU_UNMAP, &r);
}

#define PIECES	52

/* As PyTorch's expandable segments: many allocations side by side, and one dma-buf over them. */
static void over_mappings(struct gpu *g)
{
	struct softgpu_va_reserve r = { .length = (PIECES + 2) * PAGE64 };
	struct softgpu_va_range access = { .length = PIECES * PAGE64, .access = 3 };
	struct softgpu_va release = { 0 };
	unsigned char out[64], back[64];
	struct importer_map m;
	int fd, importer, i;

	MUST(!SG_CALL(g->fd, SOFTGPU_VA_RESERVE, &r));
	access.va = release.va = r.va;
	for (i = 0; i < PIECES; i++)
		need_map(g, r.va + i * PAGE64, PAGE64);
	MUST(!SG_CALL(g->fd, SOFTGPU_ACCESS, &access));
	fd = dmabuf_of(g, r.va, PIECES * PAGE64);
	CHECK(lseek(fd, 0, SEEK_END) == PIECES * (off_t)PAGE64, "it has another size");
	MUST(!import_err(fd, IMPORTER_STATIC, &importer));
	MUST(!map_err(importer, &m));
	CHECK(m.length == PIECES * PAGE64, "%llu bytes are mapped", (unsigned long long)m.length);
	/* beyond the end, and over what is a hole by now: which this export keeps all the same */
	EXPECT(dmabuf_err(g, r.va, PIECES * PAGE64 + PAGE, &i), EINVAL);
	memset(out, 0x5a, sizeof(out));
	put(g, r.va, out, sizeof(out));
	MUST(!unmap_err(g, r.va, PAGE64) && !unmap_err(g, r.va + 20 * PAGE64, PAGE64));
	EXPECT(dmabuf_err(g, r.va + PAGE64, (PIECES - 1) * PAGE64, &i), EINVAL);
	EXPECT(dmabuf_err(g, r.va, 2 * PAGE64, &i), EINVAL);
	need_map(g, r.va, PAGE64);
	access.length = PAGE64;
	MUST(!SG_CALL(g->fd, SOFTGPU_ACCESS, &access));
	card_dma(m.dma_addr, CARD_MEMORY, sizeof(out));
	card_dma(CARD_MEMORY, m.dma_addr + 128, sizeof(out));
	get(g, back, r.va + 128, sizeof(back));
	CHECK(!back[0] && !memcmp(back, back + 1, sizeof(back) - 1), "the card reaches what was mapped later");
	close(importer);
	close(fd);
	MUST(!unmap_err(g, r.va, 20 * PAGE64) && !unmap_err(g, r.va + 21 * PAGE64, (PIECES - 21) * PAGE64));
	MUST(!SG_CALL(g->fd, SOFTGPU_VA_RELEASE, &release));
}

/* Two allocations that are neighbours, or begin in one. */
static void over_neighbours(struct gpu *g)
{
	uint64_t a = need_alloc(g, 2 * PAGE64), b = need_alloc(g, 2 * PAGE64), va = MIN(a, b), at;
	const uint64_t border = 2 * PAGE64 - PAGE;
	unsigned char out[256], back[256];
	int fd, importer;
	size_t i;

	MUST(MAX(a, b) == va + 2 * PAGE64);
	fd = dmabuf_of(g, va + PAGE, 3 * PAGE64);
	MUST(!import_err(fd, IMPORTER_STATIC, &importer));
	at = dma_address(importer);
	for (i = 0; i < sizeof(out); i++)
		out[i] = i;
	/* what the card writes on both sides of the border is what each allocation has */
	put(g, va + PAGE, out, sizeof(out));
	card_dma(at, CARD_MEMORY, sizeof(out));
	card_dma(CARD_MEMORY, dma_address_at(importer, border - 128), 128);
	card_dma(CARD_MEMORY + 128, dma_address_at(importer, border), 128);
	get(g, back, va + 2 * PAGE64 - 128, 128);
	get(g, back + 128, va + 2 * PAGE64, 128);
	CHECK(!memcmp(out, back, sizeof(out)), "the border of two allocations is not where it was");
	close(importer);
	close(fd);
	MUST(!sg_free(g->fd, va + 2 * PAGE64));
	EXPECT(dmabuf_err(g, va, 4 * PAGE64, &fd), EINVAL);
	MUST(!sg_free(g->fd, va));
}

/* Real data through the addresses: within one buffer, then out of it when its memory is freed. */
static void dma(struct gpu *g)
{
	static unsigned char out[CARD_MOST], back[CARD_MOST];
	uint64_t va = need_alloc(g, 4 * PAGE64), at;
	int fd = dmabuf_of(g, va + PAGE, 2 * PAGE64), importer, other;
	size_t i;

	for (i = 0; i < sizeof(out); i++)
		out[i] = i * 7 + 3;
	put(g, va + PAGE, out, sizeof(out));
	MUST(!import_err(fd, IMPORTER_STATIC, &importer));
	at = dma_address(importer);
	card_dma(at, CARD_MEMORY, sizeof(out));
	card_dma(CARD_MEMORY, at + 8192, sizeof(out));
	get(g, back, va + PAGE + 8192, sizeof(back));
	CHECK(!memcmp(out, back, sizeof(out)), "what the card wrote is not what it read");

	/* so that the card does not have it by chance */
	card_dma(at + PAGE64, CARD_MEMORY, sizeof(out));
	MUST(!sg_free(g->fd, va));
	card_dma(at + 8192, CARD_MEMORY, sizeof(out));
	close(fd);
	va = need_alloc(g, 4 * PAGE64);
	fd = dmabuf_of(g, va, PAGE64);
	MUST(!import_err(fd, IMPORTER_STATIC, &other));
	card_dma(CARD_MEMORY, dma_address(other), sizeof(out));
	get(g, back, va, sizeof(back));
	CHECK(!memcmp(out, back, sizeof(out)), "exported memory has changed with the free");
	close(other);
	close(importer);
	close(fd);
	MUST(!sg_free(g->fd, va));
}

/* The addresses are those of the range, not of its 64 KiB pages. */
static void addresses(struct gpu *g)
{
	uint64_t va = need_alloc(g, 2 * PAGE64), whole, part;
	int fd = dmabuf_of(g, va, 2 * PAGE64), importer;
	struct importer_map m;

	MUST(!import_err(fd, IMPORTER_STATIC, &importer));
	whole = dma_address(importer);
	close(importer);
	close(fd);
	fd = dmabuf_of(g, va + PAGE64 - PAGE, 2 * PAGE);
	MUST(!import_err(fd, IMPORTER_STATIC, &importer));
	MUST(!map_err(importer, &m));
	part = m.dma_addr;
	CHECK(m.length == 2 * PAGE, "%llu bytes are mapped", (unsigned long long)m.length);
	if (untranslated(g))
		CHECK(part == whole + PAGE64 - PAGE, "%#llx, where the allocation is at %#llx",
		      (unsigned long long)part, (unsigned long long)whole);
	close(importer);
	close(fd);
	MUST(!sg_free(g->fd, va));
}

void dma_reaches(struct gpu *g)
{
	addresses(g);
	dma(g);
	over_mappings(g);
	over_neighbours(g);
}
