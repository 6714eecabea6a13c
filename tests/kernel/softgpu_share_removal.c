// SPDX-License-Identifier: MIT
/* softgpu_share_removal.c - the GPU is taken away while its memory is exported. */
#include "softgpu_share.h"

static void touch(void *arg)
{
	__atomic_store_n((uint32_t *)arg, 1, __ATOMIC_SEQ_CST);
}

static void comes(const char *path)
{
	int tries;

	for (tries = 0; tries < 6000 && access(path, F_OK); tries++)
		usleep(10000);
	NEED(!access(path, F_OK));
}

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
	NEED(n && n < 1024);
	card_dma(CARD_MEMORY, *stale + PAGE64, 64, 1);
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
	int fd = export(&g, va, 2 * PAGE64), mapped, attached, late;
	const uint8_t bytes[64] = "what the card has";
	struct importer_map m;
	char path[100];
	uint32_t *p;

	NEED(!import_err(fd, IMPORTER_STATIC, &mapped) && !import_err(fd, IMPORTER_STATIC, &attached));
	stale = dma_address(mapped);
	card_up();
	put(&g, va, bytes, sizeof(bytes));
	card_dma(stale, CARD_MEMORY, sizeof(bytes), 0);
	NEED(!write_text(MMAP_PARAMETER, "Y"));
	p = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	NEED(p != MAP_FAILED);
	*p = 1;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", address);
	NEED(!write_text(path, "1"));
	/* NVIDIA's driver has no other word for it. */
	EXPECT(map(attached, &m), ENOMEM);
	EXPECT(import_err(fd, IMPORTER_STATIC, &late), 0);
	EXPECT(map(late, &m), ENOMEM);
	close(late);
	CHECK(!in_child(touch, p), "memory of a GPU that is gone can be written");
	NEED(!write_text("/sys/bus/pci/rescan", "1"));
	comes("/dev/softgpu1");
	if (translated)
		CHECK(in_child(is_not_reached, &stale), "the child did not end well");
	/* the importer that had it mapped unmaps what is gone already */
	EXPECT(ioctl(mapped, IMPORTER_UNMAP), 0);
	close(mapped);
	close(attached);
	munmap(p, PAGE64);
	close(fd);
	close(g.fd);
	return test_end("removal");
}
