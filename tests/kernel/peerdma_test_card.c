// SPDX-License-Identifier: MIT
/* peerdma_test_card.c - see peerdma_test_card.h: QEMU's edu, by its BAR */
#include <dirent.h>

#include "peerdma_test_card.h"

/* Of its PCI command register. */
enum { MEMORY_SPACE = 2, BUS_MASTER = 4 };
/* Of its DMA engine: 64-bit registers. */
enum { SOURCE = 0x80 / 8, DESTINATION = 0x88 / 8, COUNT = 0x90 / 8, COMMAND = 0x98 / 8 };
enum { RUN = 1, TO_BUS = 2 };

#define CARDS_MOST 8

static struct dma_card first;

/* ---- any card ---- */

static bool has_id(const char *device, const char *file, long id)
{
	char path[512];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", device, file);
	return file_number(path) == id;
}

unsigned int find_cards(struct peerdma_map_args *cards, unsigned int room)
{
	unsigned int domain, bus, device, function, n = 0;
	struct dirent **list;
	int count = scandir("/sys/bus/pci/devices", &list, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		const char *name = list[i]->d_name;

		if (n < room && sscanf(name, "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4 &&
		    has_id(name, "vendor", 0x1234) && has_id(name, "device", 0x11e8)) {
			cards[n].domain = domain;
			cards[n].bus = bus;
			cards[n++].devfn = device << 3 | function;
		}
		free(list[i]);
	}
	if (count >= 0)
		free(list);
	return n;
}

static void path_of(const struct dma_card *card, char *path, size_t size, const char *file)
{
	snprintf(path, size, "/sys/bus/pci/devices/%04x:%02x:%02x.%u/%s", card->at.domain, card->at.bus,
		 card->at.devfn >> 3, card->at.devfn & 7, file);
}

static bool master(const struct dma_card *card, bool make)
{
	uint16_t command = 0;
	char path[256];
	int fd;

	path_of(card, path, sizeof(path), "config");
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(pread(fd, &command, 2, 4) == 2);
	if (make) {
		command |= MEMORY_SPACE | BUS_MASTER;
		CHECK(pwrite(fd, &command, 2, 4) == 2);
	}
	close(fd);
	return command & BUS_MASTER;
}

static void enable(struct dma_card *card)
{
	char path[256];
	void *bar;
	int fd;

	/* A driver has done so. */
	path_of(card, path, sizeof(path), "driver");
	if (access(path, F_OK)) {
		path_of(card, path, sizeof(path), "enable");
		CHECK(!write_text(path, "1"));
	}
	master(card, true);
	path_of(card, path, sizeof(path), "resource0");
	fd = open(path, O_RDWR | O_CLOEXEC);
	bar = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	CHECK(bar != MAP_FAILED);
	card->bar = bar;
}

unsigned int cards_open(struct dma_card *cards, unsigned int room)
{
	struct peerdma_map_args at[CARDS_MOST] = { 0 };
	unsigned int n = find_cards(at, room < CARDS_MOST ? room : CARDS_MOST);

	for (unsigned int i = 0; i < n; i++) {
		cards[i].at = at[i];
		enable(&cards[i]);
	}
	return n;
}

void card_begin(const struct dma_card *card, uint64_t from, uint64_t to, size_t n)
{
	card->bar[SOURCE] = from;
	card->bar[DESTINATION] = to;
	card->bar[COUNT] = n;
	card->bar[COMMAND] = RUN | (to == CARD_MEMORY ? 0 : TO_BUS);
}

bool card_busy(const struct dma_card *card)
{
	return card->bar[COMMAND] & RUN;
}

void card_wait(const struct dma_card *card)
{
	CHECK(UNTIL(!card_busy(card)));
}

int card_map_for(const struct dma_card *card, int fd, uint32_t handle, uint32_t flags,
		 struct peerdma_segment *segs, uint32_t *count, uint32_t *mapping)
{
	struct peerdma_map_args a = card->at;
	int ret;

	a.size = sizeof(a);
	a.handle = handle;
	a.flags = flags;
	a.segments = (uintptr_t)segs;
	a.segment_count = *count;
	ret = ioctl(fd, PEERDMA_MAP, &a);
	*count = a.segment_count;
	*mapping = a.mapping;
	return ret;
}

bool card_translated(const struct dma_card *card)
{
	char path[256], type[32] = "";
	FILE *f;

	path_of(card, path, sizeof(path), "iommu_group/type");
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(type, sizeof(type), f))
		type[0] = 0;
	fclose(f);
	return !strncmp(type, "DMA", 3);
}

uint32_t card_bdf(unsigned int n)
{
	struct peerdma_map_args at[CARDS_MOST] = { 0 };

	if (find_cards(at, CARDS_MOST) <= n)
		return 0;
	return at[n].domain << 16 | at[n].bus << 8 | at[n].devfn;
}

bool card_bdf_translated(unsigned int n)
{
	struct peerdma_map_args at[CARDS_MOST] = { 0 };
	struct dma_card card = { 0 };

	if (find_cards(at, CARDS_MOST) <= n)
		return false;
	card.at = at[n];
	return card_translated(&card);
}

/* ---- the first ---- */

bool card_open(void)
{
	return first.bar || cards_open(&first, 1);
}

void card_dma(uint64_t from, uint64_t to, size_t n)
{
	card_begin(&first, from, to, n);
	card_wait(&first);
}

void card_copy(uint64_t from, uint64_t to, size_t n)
{
	card_dma(from, CARD_MEMORY, n);
	card_dma(CARD_MEMORY, to, n);
}

int card_map(int fd, uint32_t handle, uint32_t flags, struct peerdma_segment *segs,
	     uint32_t *count, uint32_t *mapping)
{
	return card_map_for(&first, fd, handle, flags, segs, count, mapping);
}

bool card_behind_iommu(void)
{
	return card_translated(&first);
}

bool card_master(bool make)
{
	return master(&first, make);
}

void card_name(char *name, size_t size)
{
	snprintf(name, size, "%04x:%02x:%02x.%u", first.at.domain, first.at.bus, first.at.devfn >> 3,
		 first.at.devfn & 7);
}

bool card_needs_driver(void)
{
#ifdef __x86_64__
	char path[256];

	path_of(&first, path, sizeof(path), "iommu_group");
	return !access(path, F_OK);
#else
	return true;
#endif
}

void card_bind(void)
{
	char name[32];

	card_name(name, sizeof(name));
	must_write("idle_driver", "/sys/bus/pci/devices/%s/driver_override", name);
	must_write(name, "/sys/bus/pci/drivers_probe");
}

void card_remove(void)
{
	char name[32];

	card_name(name, sizeof(name));
	must_write("1", "/sys/bus/pci/devices/%s/remove", name);
}

void card_rescan(void)
{
	must_write("1", "/sys/bus/pci/rescan");
	if (card_needs_driver())
		card_bind();
}
