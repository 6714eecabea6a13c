// SPDX-License-Identifier: MIT
/* softgpu_share_kept.c - memory, aperture and the module stay for as long as an export, an import or a mapping needs them. */
#include "softgpu_share.h"

static void memory_and_aperture_are_kept(struct gpu *g)
{
	uint64_t free_before = vram_free(g), used_before = bar1_used(g), va, next;
	int fd, again, importer, whole;
	struct importer_map m;

	va = need_alloc(g, 4 * PAGE64);
	fd = export(g, va + PAGE, PAGE64);
	again = export(g, va, 4 * PAGE64);
	CHECK(bar1_used(g) == used_before, "the aperture is taken before anybody maps");
	NEED(!import_err(fd, IMPORTER_STATIC, &importer) && !import_err(again, IMPORTER_STATIC, &whole));
	CHECK(bar1_used(g) == used_before, "the aperture is taken by attaching");
	EXPECT(map(importer, &m), 0);
	CHECK(bar1_used(g) == used_before + 2 * PAGE64, "not the two pages that the range touches");
	EXPECT(map(whole, &m), 0);
	CHECK(bar1_used(g) == used_before + 4 * PAGE64, "the same pages are counted twice");
	EXPECT(ioctl(importer, IMPORTER_UNMAP), 0);
	CHECK(bar1_used(g) == used_before + 4 * PAGE64, "what another has mapped is given up");
	EXPECT(ioctl(whole, IMPORTER_UNMAP), 0);
	CHECK(bar1_used(g) == used_before, "the aperture is kept when nobody has it mapped");
	close(whole);
	close(again);
	close(importer);
	NEED(!sg_free(g->fd, va));
	CHECK(vram_free(g) == free_before - 4 * PAGE64, "the memory went with the allocation");
	next = need_alloc(g, 4 * PAGE64);
	CHECK(vram_free(g) == free_before - 8 * PAGE64, "exported memory is given out");
	NEED(!sg_free(g->fd, next));
	/* still to be imported, and the importer alone keeps it, too */
	NEED(!import_err(fd, IMPORTER_STATIC, &importer));
	EXPECT(map(importer, &m), 0);
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

	NEED(!write_text(STATIC_PARAMETER, "Y"));
	fd = export(g, va, 2 * PAGE64);
	NEED(!write_text(STATIC_PARAMETER, "N"));
	CHECK(bar1_used(g) == used + 2 * PAGE64, "an export takes %lld bytes of the aperture",
	      (long long)(bar1_used(g) - used));
	close(fd);
	CHECK(bar1_used(g) == used, "aperture is lost");
	NEED(!sg_free(g->fd, va));
}

/* Room in the aperture is looked for when it is mapped, or seen by the CPU. */
static void aperture_is_full(struct gpu *g)
{
	uint64_t va = need_alloc(g, 2 * PAGE64), used = bar1_used(g);
	char limit[32];
	int fd = export(g, va, 2 * PAGE64), importer;
	struct importer_map m;

	NEED(!import_err(fd, IMPORTER_STATIC, &importer));
	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)used + PAGE64);
	NEED(!write_text("/sys/kernel/debug/softgpu/chaos/bar1_limit", limit));
	EXPECT(map(importer, &m), ENOMEM);
	NEED(!write_text(MMAP_PARAMETER, "Y"));
	CHECK(mmap(NULL, PAGE64, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENOMEM, "mmap: %s",
	      strerror(errno));
	NEED(!write_text(MMAP_PARAMETER, "N"));
	CHECK(bar1_used(g) == used, "part of it is taken");
	NEED(!write_text("/sys/kernel/debug/softgpu/chaos/bar1_limit", "0"));
	EXPECT(map(importer, &m), 0);
	close(importer);
	close(fd);
	NEED(!sg_free(g->fd, va));
}

/* What nvidia.ko refuses to map, nobody attaches to. */

static void owner_exports_and_dies(void *arg)
{
	struct importer_attach a = { .kind = IMPORTER_STATIC };
	struct gpu g = gpu_up(0);
	int *importer = arg;
	uint32_t word = 0xabcd;
	uint64_t va;

	va = need_alloc(&g, PAGE64);
	put(&g, va, &word, sizeof(word));
	a.fd = export(&g, va, PAGE64);
	CHECK(!ioctl(*importer, IMPORTER_ATTACH, &a), "attach: %s", strerror(errno));
}

static void the_owner_dies(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);
	uint32_t word = 0;
	int importer = open("/dev/peerdma_importer", O_RDWR), fd, mine;

	NEED(importer >= 0);
	in_child(owner_exports_and_dies, &importer);
	card_dma(dma_address(importer), CARD_MEMORY, 4, 0);
	fd = export(g, va, PAGE64);
	NEED(!import_err(fd, IMPORTER_STATIC, &mine));
	card_dma(CARD_MEMORY, dma_address(mine), 4, 1);
	get(g, &word, va, sizeof(word));
	CHECK(word == 0xabcd, "%#x is read from the memory of the dead", word);
	close(mine);
	close(fd);
	close(importer);
	NEED(!sg_free(g->fd, va));
}

/* Held open by nobody but an importer: the module must stay. */
void the_module_stays(void)
{
	int importer = open("/dev/peerdma_importer", O_RDWR);

	NEED(importer >= 0);
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
