// SPDX-License-Identifier: MIT
/*
 * peerdma_test_coherent.c - memory of a coherent GPU (Grace): it has no bus addresses that
 * could be mapped without its driver.  What goes there goes as elsewhere; what does not is
 * refused when it is asked for, and nothing is half done.
 */
#include "importer.h"
#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

static void plain(void)
{
	uint64_t va = gpu_alloc(MIB);
	struct peerdma_segment segs[64];
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	uint32_t count = 64, mapping = 0;
	int fd = dev_open();
	char *p, byte = 0;

	WORKS(gpu_pin(fd, va, MIB, 0, &a));
	p = view(fd, a.handle, MIB, PROT_READ | PROT_WRITE);
	p[12345] = 54;
	CHECK(!cu.MemcpyDtoH(&byte, va + 12345, 1) && byte == 54);
	FAILS(EOPNOTSUPP, card_map(fd, a.handle, BOTH, segs, &count, &mapping));
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_LIVE && q.mappings == 0);
	CHECK(!cu.MemFree(va));
	CHECK(signal_of_read(p) == SIGBUS);
	munmap(p, MIB);
	close(fd);
}

/* Only the GPU's driver maps it, and only what no free takes away meanwhile. */
static void persistent(void)
{
	uint64_t va = gpu_alloc(MIB);
	struct peerdma_segment segs[64];
	struct peerdma_pin_args a;
	uint32_t count = 64, mapping;
	char there[256], back[256];
	int fd = dev_open();

	memset(there, 0x3c, sizeof(there));
	CHECK(!cu.MemcpyHtoD(va, there, sizeof(there)) && !cu.CtxSynchronize());
	WORKS(gpu_pin(fd, va, MIB, PEERDMA_PIN_PERSISTENT, &a));
	WORKS(card_map(fd, a.handle, BOTH, segs, &count, &mapping));
	card_copy(segs[0].dma_addr, segs[0].dma_addr + 4096, sizeof(there));
	CHECK(!cu.MemcpyDtoH(back, va + 4096, sizeof(back)) && !memcmp(there, back, sizeof(back)));
	WORKS(unmap(fd, mapping));
	WORKS(unpin(fd, a.handle));
	CHECK(!cu.MemFree(va));
	close(fd);
}

static void importers(void)
{
	uint64_t va = gpu_alloc(MIB);
	struct peerdma_pin_args a;
	int fd = dev_open(), dmabuf, im;

	for (uint32_t flags = 0; flags <= PEERDMA_PIN_PERSISTENT; flags += PEERDMA_PIN_PERSISTENT) {
		WORKS(gpu_pin(fd, va, MIB, flags, &a));
		dmabuf = export(fd, a.handle, 0, MIB);
		for (uint32_t kind = IMPORTER_STATIC; kind <= IMPORTER_PINNING; kind++) {
			im = importer_open();
			FAILS(EOPNOTSUPP, importer_attach(im, dmabuf, kind));
			close(im);
		}
		close(dmabuf);
		WORKS(unpin(fd, a.handle));
	}
	CHECK(!cu.MemFree(va));
	close(fd);
}

void test_coherent(void)
{
	const char *why;

	setenv("PEERDMA_TEST_PROVIDER", "nvidia", 1);
	CHECK(memory_open(&why) && card_open());
	if (check_counts.failures)
		return;
	run("coherent GPU: a plain pin is for the CPU only", plain);
	run("coherent GPU: a persistent pin is for devices, too", persistent);
	run("coherent GPU: no importer of a dma-buf", importers);
}
