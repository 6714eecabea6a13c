// SPDX-License-Identifier: MIT
/* softgpu_share_removal.c - the GPU is taken away while its memory is exported. */
#include "softgpu_share.h"

/* The GPU that came back, as another one: what the card was given of the first is none of its memory. */
static void is_not_reached(void *arg)
{
	static uint8_t bytes[2 << 20];
	const uint64_t *stale = arg;
	struct gpu g = gpu_up(1);
	uint64_t va[1024];
	int i, n = 0, reached = 0;

	while (n < 1024 && !sg_alloc(g.fd, g.ctx, sizeof(bytes), &va[n]))
		n++;
	MUST(n && n < 1024);
	card_dma(CARD_MEMORY, *stale + PAGE64, 64);
	for (i = 0; i < n; i++) {
		get(&g, bytes, va[i], sizeof(bytes));
		reached += bytes[0] || memcmp(bytes, bytes + 1, sizeof(bytes) - 1);
	}
	CHECK(!reached, "the card writes to a GPU by an address of the one before");
}

int removal(const char *address)
{
	struct gpu g = gpu_up(0);
	bool translated = !untranslated(&g);
	uint64_t va = need_alloc(&g, 2 * PAGE64), stale;
	int fd = dmabuf_of(&g, va, 2 * PAGE64), mapped, attached, late;
	const uint8_t bytes[64] = "what the card has";
	struct importer_map m;
	char *p;

	MUST(!import_err(fd, IMPORTER_STATIC, &mapped) && !import_err(fd, IMPORTER_STATIC, &attached));
	stale = dma_address(mapped);
	MUST(card_open());
	put(&g, va, bytes, sizeof(bytes));
	card_dma(stale, CARD_MEMORY, sizeof(bytes));
	MUST(module_set("softgpu", "dmabuf_mmap", "Y"));
	p = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(p != MAP_FAILED);
	*p = 1;
	must_write("1", "/sys/bus/pci/devices/%s/remove", address);
	/* NVIDIA's driver has no other word for it. */
	EXPECT(map_err(attached, &m), ENOMEM);
	EXPECT(import_err(fd, IMPORTER_STATIC, &late), 0);
	EXPECT(map_err(late, &m), ENOMEM);
	close(late);
	CHECK(signal_of_write(p, 1) == SIGBUS, "memory of a GPU that is gone can be written");
	must_write("1", "/sys/bus/pci/rescan");
	MUST(UNTIL(!access("/dev/softgpu1", F_OK)));
	if (translated)
		CHECK(in_child(is_not_reached, &stale), "the child did not end well");
	/* the importer that had it mapped unmaps what is gone already */
	WORKS(importer_unmap(mapped));
	close(mapped);
	close(attached);
	munmap(p, PAGE64);
	close(fd);
	close(g.fd);
	return check_end("removal");
}
