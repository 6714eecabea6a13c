// SPDX-License-Identifier: MIT
/* softgpu_share_kept.c - memory, aperture and the module stay for as long as an export, an import or a mapping needs them. */
#include "softgpu_share.h"

static void memory_and_aperture_are_kept(struct gpu *g)
{
	uint64_t free_before = vram_free(g), used_before = bar1_used(g), va, next;
	int fd, again, importer, whole;
	struct importer_map m;

	va = need_alloc(g, 4 * PAGE64);
	fd = dmabuf_of(g, va + PAGE, PAGE64);
	again = dmabuf_of(g, va, 4 * PAGE64);
	CHECK(bar1_used(g) == used_before, "the aperture is taken before an importer maps");
	MUST(!import_err(fd, IMPORTER_STATIC, &importer) && !import_err(again, IMPORTER_STATIC, &whole));
	CHECK(bar1_used(g) == used_before, "the aperture is taken by attaching");
	EXPECT(map_err(importer, &m), 0);
	CHECK(bar1_used(g) == used_before + 2 * PAGE64, "not the two pages that the range touches");
	EXPECT(map_err(whole, &m), 0);
	CHECK(bar1_used(g) == used_before + 4 * PAGE64, "the same pages are counted twice");
	WORKS(importer_unmap(importer));
	CHECK(bar1_used(g) == used_before + 4 * PAGE64, "what another has mapped is given up");
	WORKS(importer_unmap(whole));
	CHECK(bar1_used(g) == used_before, "the aperture is kept when no importer has it mapped");
	close(whole);
	close(again);
	close(importer);
	MUST(!sg_free(g->fd, va));
	CHECK(vram_free(g) == free_before - 4 * PAGE64, "the memory went with the allocation");
	next = need_alloc(g, 4 * PAGE64);
	CHECK(vram_free(g) == free_before - 8 * PAGE64, "exported memory is given out");
	MUST(!sg_free(g->fd, next));
	/* still to be imported, and the importer alone keeps it, too */
	MUST(!import_err(fd, IMPORTER_STATIC, &importer));
	EXPECT(map_err(importer, &m), 0);
	close(fd);
	CHECK(vram_free(g) == free_before - 4 * PAGE64, "the memory went with the descriptor");
	close(importer);
	CHECK(vram_free(g) == free_before, "memory is lost");
	CHECK(bar1_used(g) == used_before, "aperture is lost");
}

/* As of a GPU whose memory is all in the aperture. */
static void aperture_of_static_addresses(struct gpu *g)
{
	uint64_t va = need_alloc(g, 2 * PAGE64), used = bar1_used(g);
	int fd;

	MUST(module_set("softgpu", "dmabuf_static", "Y"));
	fd = dmabuf_of(g, va, 2 * PAGE64);
	MUST(module_set("softgpu", "dmabuf_static", "N"));
	CHECK(bar1_used(g) == used + 2 * PAGE64, "an export takes %lld bytes of the aperture",
	      (long long)(bar1_used(g) - used));
	close(fd);
	CHECK(bar1_used(g) == used, "aperture is lost");
	MUST(!sg_free(g->fd, va));
}

/* Room in the aperture is looked for when it is mapped, or seen by the CPU. */
static void aperture_is_full(struct gpu *g)
{
	uint64_t va = need_alloc(g, 2 * PAGE64), used = bar1_used(g);
	char limit[32];
	int fd = dmabuf_of(g, va, 2 * PAGE64), importer;
	struct importer_map m;

	MUST(!import_err(fd, IMPORTER_STATIC, &importer));
	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)used + PAGE64);
	MUST(softgpu_chaos("bar1_limit", limit));
	EXPECT(map_err(importer, &m), ENOMEM);
	MUST(module_set("softgpu", "dmabuf_mmap", "Y"));
	CHECK(mmap(NULL, PAGE64, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENOMEM, "mmap: %s",
	      strerror(errno));
	MUST(module_set("softgpu", "dmabuf_mmap", "N"));
	CHECK(bar1_used(g) == used, "part of it is taken");
	MUST(softgpu_chaos("bar1_limit", "0"));
	EXPECT(map_err(importer, &m), 0);
	close(importer);
	close(fd);
	MUST(!sg_free(g->fd, va));
}

static void owner_exports_and_dies(void *arg)
{
	struct gpu g = gpu_up(0);
	int *importer = arg;
	uint32_t word = 0xabcd;
	uint64_t va;

	va = need_alloc(&g, PAGE64);
	put(&g, va, &word, sizeof(word));
	WORKS(importer_attach(*importer, dmabuf_of(&g, va, PAGE64), IMPORTER_STATIC));
}

static void the_owner_dies(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);
	uint32_t word = 0;
	int importer = importer_open(), fd, mine;

	in_child(owner_exports_and_dies, &importer);
	card_dma(dma_address(importer), CARD_MEMORY, 4);
	fd = dmabuf_of(g, va, PAGE64);
	MUST(!import_err(fd, IMPORTER_STATIC, &mine));
	card_dma(CARD_MEMORY, dma_address(mine), 4);
	get(g, &word, va, sizeof(word));
	CHECK(word == 0xabcd, "%#x is read from the memory of the dead", word);
	close(mine);
	close(fd);
	close(importer);
	MUST(!sg_free(g->fd, va));
}

/* Held open by an importer alone: the module must stay. */
void the_module_stays(void)
{
	int importer = importer_open();

	in_child(owner_exports_and_dies, &importer);
	CHECK(system("rmmod softgpu 2>/dev/null") != 0, "softgpu.ko was unloaded with memory exported");
	close(importer);
}

void exports_keep(struct gpu *g)
{
	memory_and_aperture_are_kept(g);
	the_owner_dies(g);
	aperture_of_static_addresses(g);
	aperture_is_full(g);
}
