// SPDX-License-Identifier: MIT
/*
 * softgpu_share_test - what softgpu.ko gives of device memory to others:
 *
 *   dmabuf              as a dma-buf, imported for a DMA card by peerdma_importer.ko
 *   topology            the same, where nvidia.ko was loaded with NVreg_GrdmaPciTopoCheckOverride=2
 *   removal ADDRESS     the same, when the GPU at this PCI address is taken away
 */
#include "softgpu_share.h"

static void bad_arguments(struct gpu *g)
{
	struct softgpu_dmabuf a = { .flags = 1 };
	uint64_t va = need_alloc(g, 2 * PAGE64), other = need_alloc(g, 2 * PAGE64);
	int fd;

	a.va = va;
	a.length = PAGE64;
	EXPECT(SG_CALL(g->fd, SOFTGPU_DMABUF, &a), EINVAL);
	a.flags = 0;
	a.reserved = 1;
	EXPECT(SG_CALL(g->fd, SOFTGPU_DMABUF, &a), EINVAL);
	EXPECT(dmabuf_err(g, va, 0, &fd), EINVAL);
	EXPECT(dmabuf_err(g, va + 512, PAGE, &fd), EINVAL);
	EXPECT(dmabuf_err(g, va, 512, &fd), EINVAL);
	EXPECT(dmabuf_err(g, MAX(va, other), 2 * PAGE64 + PAGE, &fd), EINVAL);
	EXPECT(dmabuf_err(g, va, -PAGE64, &fd), EINVAL);
	EXPECT(dmabuf_err(g, va, 1ULL << 60, &fd), EINVAL);
	EXPECT(dmabuf_err(g, 0, PAGE64, &fd), EINVAL);
	EXPECT(dmabuf_err(g, PTR(&fd) & -PAGE, PAGE, &fd), EINVAL);
	MUST(!sg_free(g->fd, va));
	EXPECT(dmabuf_err(g, va, PAGE64, &fd), EINVAL);
	MUST(!sg_free(g->fd, other));
}

static void ways_of_attaching(struct gpu *g)
{
	uint64_t va = need_alloc(g, 4 * PAGE64);
	int fd = dmabuf_of(g, va, 4 * PAGE64), importer;
	bool on_pci = sg_need_info(g->fd).on_pci;
	struct importer_map m;

	CHECK(lseek(fd, 0, SEEK_END) == 4 * (off_t)PAGE64, "the size is not told");
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "it is kept over exec");
	EXPECT(import_err(fd, IMPORTER_STATIC, &importer), 0);
	EXPECT(map_err(importer, &m), 0);
	CHECK(m.length == 4 * PAGE64, "%llu bytes are mapped", (unsigned long long)m.length);
	/* edu has no limit of its own: the kernel's is 64 KiB */
	CHECK(m.segments == 4, "%u segments", m.segments);
	WORKS(importer_unmap(importer));
	EXPECT(map_err(importer, &m), 0);
	close(importer);
	EXPECT(import_err(fd, IMPORTER_DYNAMIC, &importer), 0);
	EXPECT(map_err(importer, &m), 0);
	close(importer);
	/* one that can do without struct pages only; system memory has them */
	EXPECT(import_err(fd, IMPORTER_NO_PEER, &importer), on_pci ? ENOTSUPP : 0);
	if (!on_pci)
		close(importer);
	close(fd);
	MUST(!sg_free(g->fd, va));
}

static uint32_t seen(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void programs_map_it(struct gpu *g)
{
	uint64_t va = need_alloc(g, 2 * PAGE64);
	const size_t last = 2 * PAGE / sizeof(uint32_t) - 1;
	int fd = dmabuf_of(g, va + PAGE, PAGE64);
	uint32_t *p;
	uint32_t word = 0x1234;
	char *none;

	MUST(module_set("softgpu", "dmabuf_mmap", "N"));
	none = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(none == MAP_FAILED && errno == ENOTSUPP, "mmap: %s", strerror(errno));
	MUST(module_set("softgpu", "dmabuf_mmap", "Y"));
	none = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(none == MAP_FAILED && errno == EINVAL, "private mmap: %s", strerror(errno));
	none = mmap(NULL, PAGE64 + PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(none == MAP_FAILED && errno == EINVAL, "mmap past the end: %s", strerror(errno));
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE64 - 2 * PAGE);
	MUST(p != MAP_FAILED);
	MUST(module_set("softgpu", "dmabuf_mmap", "N"));
	put(g, va + PAGE + PAGE64 - 4, &word, sizeof(word));
	CHECK(seen(&p[last]) == 0x1234, "%#x is seen", seen(&p[last]));
	__atomic_store_n(p, 0x5678, __ATOMIC_SEQ_CST);
	get(g, &word, va + PAGE + PAGE64 - 2 * PAGE, sizeof(word));
	CHECK(word == 0x5678, "%#x is seen by the GPU", word);
	/* the mapping alone keeps it */
	close(fd);
	MUST(!sg_free(g->fd, va));
	CHECK(seen(p) == 0x5678, "%#x is seen after the free", seen(p));
	munmap(p, 2 * PAGE);
}

/* A map that chaos refuses is a clean error. */
static void maps_that_fail(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);
	int fd = dmabuf_of(g, va, PAGE64), importer;
	struct importer_map m;

	MUST(!import_err(fd, IMPORTER_STATIC, &importer));
	MUST(softgpu_chaos("fail_map", "1"));
	EXPECT(map_err(importer, &m), ENOMEM);
	EXPECT(map_err(importer, &m), 0);
	close(importer);
	close(fd);
	MUST(!sg_free(g->fd, va));
}

static int topology(void)
{
	struct gpu g = gpu_up(0);
	uint64_t va = need_alloc(&g, PAGE64);
	int fd = dmabuf_of(&g, va, PAGE64), importer;
	bool on_pci = sg_need_info(g.fd).on_pci;

	EXPECT(import_err(fd, IMPORTER_STATIC, &importer), on_pci ? ENOTSUPP : 0);
	EXPECT(import_err(fd, IMPORTER_DYNAMIC, &importer), on_pci ? ENOTSUPP : 0);
	close(fd);
	close(g.fd);
	return check_end("topology");
}

static int dmabuf(void)
{
	struct gpu g = gpu_up(0);
	struct idle idle = idle_now(g.fd);

	MUST(card_open());
	bad_arguments(&g);
	ways_of_attaching(&g);
	programs_map_it(&g);
	maps_that_fail(&g);
	dma_reaches(&g);
	exports_keep(&g);
	check_idle(g.fd, &idle, "all of it");
	close(g.fd);
	the_module_stays();
	return check_end("dmabuf");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "dmabuf"))
		return dmabuf();
	if (argc == 3 && !strcmp(argv[1], "removal"))
		return removal(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "topology"))
		return topology();
	fprintf(stderr, "usage: softgpu_share_test dmabuf | topology | removal ADDRESS\n");
	return 2;
}
