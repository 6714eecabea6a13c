// SPDX-License-Identifier: MIT
/* softgpu_share_util.c - exports, imports, and a DMA card that is driven by hand. */
#include "peers.h"
#include "softgpu_share.h"

int export_err(struct gpu *g, uint64_t va, uint64_t length, int *fd)
{
	struct softgpu_dmabuf a = { .va = va, .length = length, .fd = -1 };
	int err = SG_CALL(g->fd, SOFTGPU_DMABUF, &a);

	*fd = a.fd;
	return err;
}

int export(struct gpu *g, uint64_t va, uint64_t length)
{
	int fd;

	NEED(!export_err(g, va, length, &fd));
	return fd;
}

int import_err(int fd, uint32_t kind, int *importer)
{
	struct importer_attach a = { .fd = fd, .kind = kind };

	*importer = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC);
	NEED(*importer >= 0);
	if (!ioctl(*importer, IMPORTER_ATTACH, &a))
		return 0;
	close(*importer);
	return errno;
}

int map(int importer, struct importer_map *m)
{
	memset(m, 0, sizeof(*m));	/* both directions */
	return ioctl(importer, IMPORTER_MAP, m) ? errno : 0;
}

uint64_t dma_address(int importer)
{
	struct importer_map m;

	NEED(!map(importer, &m));
	return m.dma_addr;
}

uint64_t dma_address_at(int importer, uint64_t offset)
{
	struct importer_map m = { .offset = offset };

	NEED(!ioctl(importer, IMPORTER_UNMAP) && !ioctl(importer, IMPORTER_MAP, &m));
	return m.dma_addr;
}

static uint8_t *card;

/* A file of the card for which the importer maps: the first one. */
static char *card_path(const char *file)
{
	static char path[600];
	char name[NAME_MAX + 1];

	if (!peer_name(0, name)) {
		printf("not ok: no DMA card\n");
		exit(1);
	}
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", name, file);
	return path;
}

void card_up(void)
{
	const uint8_t bus_master_and_memory = 0x06;
	int fd = open(card_path("config"), O_RDWR);

	NEED(fd >= 0 && pwrite(fd, &bus_master_and_memory, 1, 4) == 1);
	close(fd);
	fd = open(card_path("resource0"), O_RDWR | O_SYNC);
	NEED(fd >= 0);
	card = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	NEED(card != MAP_FAILED);
	close(fd);
}

static void set_register(uint32_t at, uint64_t value)
{
	__atomic_store_n((uint64_t *)(card + at), value, __ATOMIC_RELEASE);
}

static uint64_t get_register(uint32_t at)
{
	return __atomic_load_n((uint64_t *)(card + at), __ATOMIC_ACQUIRE);
}

void card_dma(uint64_t from, uint64_t to, uint32_t length, uint32_t direction)
{
	set_register(0x80, from);
	set_register(0x88, to);
	set_register(0x90, length);
	set_register(0x98, 1 | direction << 1);
	while (get_register(0x98) & 1)
		usleep(1000);
}

uint64_t vram_free(struct gpu *g)
{
	struct softgpu_info info;

	NEED(!sg_info(g->fd, &info));
	return info.vram_free;
}

uint64_t bar1_used(struct gpu *g)
{
	struct softgpu_info info;

	NEED(!sg_info(g->fd, &info));
	return info.bar1_used;
}

uint64_t need_alloc(struct gpu *g, uint64_t length)
{
	uint64_t va;

	NEED(!sg_alloc(g->fd, g->ctx, length, &va));
	return va;
}

void put(struct gpu *g, uint64_t va, const void *data, uint64_t length)
{
	NEED(!sg_copy(g->fd, g->ctx, va, PTR(data), length, SOFTGPU_OP_SYNC));
}

void get(struct gpu *g, void *data, uint64_t va, uint64_t length)
{
	NEED(!sg_copy(g->fd, g->ctx, PTR(data), va, length, SOFTGPU_OP_SYNC));
}

bool untranslated(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64), a, b;
	int fd = export(g, va, PAGE64), one, two;

	NEED(!import_err(fd, IMPORTER_STATIC, &one) && !import_err(fd, IMPORTER_STATIC, &two));
	a = dma_address(one);
	b = dma_address(two);
	close(one);
	close(two);
	close(fd);
	NEED(!sg_free(g->fd, va));
	return a == b;
}
