// SPDX-License-Identifier: MIT
/*
 * peerdma_test_devices.c - pins mapped for a device, and the device using the
 * addresses: QEMU's edu card, driven from here through its BAR.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peerdma_test.h"
#include "peerdma_test_card.h"

static volatile uint64_t *bar;
static struct peerdma_map_args card;	/* its PCI address */

/* Of its PCI command register. */
enum { MEMORY_SPACE = 2, BUS_MASTER = 4 };

static void card_path(char *path, size_t size, const char *file)
{
	snprintf(path, size, "/sys/bus/pci/devices/%04x:%02x:%02x.%u/%s", card.domain, card.bus,
		 card.devfn >> 3, card.devfn & 7, file);
}

bool card_master(bool make)
{
	uint16_t command = 0;
	char path[256];
	int fd;

	card_path(path, sizeof(path), "config");
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(pread(fd, &command, 2, 4) == 2);
	if (make) {
		command |= MEMORY_SPACE | BUS_MASTER;
		CHECK(pwrite(fd, &command, 2, 4) == 2);
	}
	close(fd);
	return command & BUS_MASTER;
}

bool card_open(void)
{
	char path[256];
	int fd;

	if (bar)
		return true;
	if (!find_card(&card))
		return false;
	/* A driver has done so. */
	card_path(path, sizeof(path), "driver");
	if (access(path, F_OK)) {
		card_path(path, sizeof(path), "enable");
		fd = open(path, O_WRONLY | O_CLOEXEC);
		CHECK(fd >= 0 && write(fd, "1", 1) == 1);
		close(fd);
	}
	card_master(true);
	card_path(path, sizeof(path), "resource0");
	fd = open(path, O_RDWR | O_CLOEXEC);
	bar = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	CHECK(bar != MAP_FAILED);
	return true;
}

/* The card's own memory, and its DMA engine: 64-bit registers. */
#define CARD_MEMORY	0x40000
enum { SOURCE = 0x80 / 8, DESTINATION = 0x88 / 8, COUNT = 0x90 / 8, COMMAND = 0x98 / 8 };

static void card_run(uint64_t from, uint64_t to, size_t n, uint64_t direction)
{
	bar[SOURCE] = from;
	bar[DESTINATION] = to;
	bar[COUNT] = n;
	bar[COMMAND] = 1 | direction;
	for (int i = 0; i < 5000 && bar[COMMAND] & 1; i++)
		usleep(1000);
	CHECK(!(bar[COMMAND] & 1));
}

void card_copy(uint64_t from, uint64_t to, size_t n)
{
	card_run(from, CARD_MEMORY, n, 0);
	card_run(CARD_MEMORY, to, n, 2);
}

int card_map(int fd, uint32_t handle, uint32_t flags, struct peerdma_segment *segs,
	     uint32_t *count, uint32_t *mapping)
{
	struct peerdma_map_args a = card;
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

bool card_behind_iommu(void)
{
	char path[256], type[32] = "";
	FILE *f;

	card_path(path, sizeof(path), "iommu_group/type");
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(type, sizeof(type), f))
		type[0] = 0;
	fclose(f);
	return !strncmp(type, "DMA", 3);
}

static uint32_t mappings(int fd, uint32_t handle)
{
	struct peerdma_query_args q;

	WORKS(query(fd, handle, &q));
	return q.mappings;
}

/* Says debugfs. */
static bool mapped_for_card(uint32_t handle, unsigned int times)
{
	char text[64], expected[64];

	snprintf(expected, sizeof(expected), "%04x:%02x:%02x.%x:%u", card.domain, card.bus, card.devfn >> 3,
		 card.devfn & 7, times);
	return debugfs_field(handle, "devices", text, sizeof(text)) && !strcmp(text, expected);
}

static uint64_t sum(const struct peerdma_segment *segs, uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += segs[i].length;
	return total;
}

#define BOTH (PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE)

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* Without a driver a device's DMA is set up on a PC only. */
static void without_a_driver(int fd, uint32_t handle)
{
	struct peerdma_segment segs[64];
	char name[32], path[256];
	uint32_t count = 64, mapping;

	snprintf(name, sizeof(name), "%04x:%02x:%02x.%u", card.domain, card.bus, card.devfn >> 3, card.devfn & 7);
	card_path(path, sizeof(path), "driver/unbind");
	if (!access(path, F_OK))
		write_to(path, name);
#ifdef __x86_64__
	WORKS(card_map(fd, handle, BOTH, segs, &count, &mapping));
#else
	FAILS(ENODEV, card_map(fd, handle, BOTH, segs, &count, &mapping));
	write_to("/sys/bus/pci/drivers_probe", name);
	card_master(true);	/* which the driver took when it went */
#endif
}

static void refusals(void)
{
	struct peerdma_segment segs[64];
	char *memory = host_memory(16 * PAGE);
	struct peerdma_pin_args a, r;
	uint32_t count, mapping;
	int fd = dev_open();

	WORKS(pin(fd, memory, 16 * PAGE, PEERDMA_PIN_HOST, &a));
	count = 64;
	FAILS(EINVAL, card_map(fd, a.handle, 0, segs, &count, &mapping));
	for (int bit = 2; bit < 32; bit++)
		FAILS(EINVAL, card_map(fd, a.handle, 1U << bit | 1, segs, &count, &mapping));

	for (int i = 0; i < 5; i++) {
		static const struct peerdma_map_args nobody[] = {
			{ .bus = 0xff, .devfn = 0xff }, { .bus = 0x100 }, { .devfn = 0x100 },
			{ .domain = 0xffffffff }, { .domain = 0x7fff },
		};
		struct peerdma_map_args m = nobody[i];

		m.size = sizeof(m);
		m.handle = a.handle;
		m.flags = BOTH;
		FAILS(ENODEV, ioctl(fd, PEERDMA_MAP, &m));
	}

	/* Too little room: how much is needed, and nothing mapped. */
	count = 0;
	WORKS(card_map(fd, a.handle, BOTH, NULL, &count, &mapping));
	CHECK(!mapping && count >= 1 && count <= 16 && !mappings(fd, a.handle));
	/* Room that is not there. */
	count = 64;
	FAILS(EFAULT, card_map(fd, a.handle, BOTH, (void *)PAGE, &count, &mapping));
	CHECK(!mappings(fd, a.handle));

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &r));
	count = 64;
	FAILS(EPERM, card_map(fd, r.handle, BOTH, segs, &count, &mapping));
	FAILS(EPERM, card_map(fd, r.handle, PEERDMA_MAP_FROM_DEVICE, segs, &count, &mapping));
	WORKS(card_map(fd, r.handle, PEERDMA_MAP_TO_DEVICE, segs, &count, &mapping));
	CHECK(mapping && count == 1 && mappings(fd, r.handle) == 1);
	without_a_driver(fd, a.handle);
	close(fd);
	munmap(memory, 16 * PAGE);
}

static void life(void)
{
	struct peerdma_segment segs[64], again[64];
	uint32_t count = 64, mapping, second;
	char *memory = host_memory(16 * PAGE), runs[4096], expected[64];
	struct peerdma_pin_args a;
	int fd = dev_open(), other = dev_open();
	long long unmaps = debugfs_stat("unmaps");

	WORKS(pin(fd, memory, 16 * PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(card_map(fd, a.handle, BOTH, segs, &count, &mapping));
	CHECK(mapping && sum(segs, count) == 16 * PAGE && mappings(fd, a.handle) == 1);
	CHECK(debugfs_field(a.handle, "segments", runs, sizeof(runs)));
	snprintf(expected, sizeof(expected), "%#llx:%#llx", (unsigned long long)segs[0].dma_addr,
		 (unsigned long long)segs[0].length);
	CHECK(card_behind_iommu() ? !strstr(runs, expected) : !!strstr(runs, expected));

	count = 64;
	WORKS(card_map(fd, a.handle, BOTH, again, &count, &second));
	CHECK(second != mapping && mappings(fd, a.handle) == 2);
	CHECK(mapped_for_card(a.handle, 2));
	FAILS(ENOENT, unmap(other, mapping));
	WORKS(unmap(fd, mapping));
	FAILS(ENOENT, unmap(fd, mapping));
	CHECK(mappings(fd, a.handle) == 1);
	CHECK(mapped_for_card(a.handle, 1));
	/* UNPIN takes the other along. */
	WORKS(unpin(fd, a.handle));
	FAILS(ENOENT, unmap(fd, second));
	CHECK(debugfs_stat("unmaps") == unmaps + 2);

	/* So does the last close. */
	WORKS(pin(fd, memory, 16 * PAGE, PEERDMA_PIN_HOST, &a));
	count = 64;
	WORKS(card_map(fd, a.handle, BOTH, segs, &count, &mapping));
	close(fd);
	CHECK(debugfs_stat("maps") == debugfs_stat("unmaps") && live_pins(other) == 0);
	close(other);
	munmap(memory, 16 * PAGE);
}

static void transfer(void)
{
	struct peerdma_segment from, to;
	char *memory = host_memory(2 * PAGE);
	struct peerdma_pin_args a, b;
	uint32_t count, m1, m2;
	int fd = dev_open();

	for (size_t i = 0; i < PAGE; i++)
		memory[i] = (char)(i * 7);
	memset(memory + PAGE, 0xee, PAGE);
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(pin(fd, memory + PAGE, PAGE, PEERDMA_PIN_HOST, &b));
	count = 1;
	WORKS(card_map(fd, a.handle, PEERDMA_MAP_TO_DEVICE, &from, &count, &m1));
	count = 1;
	WORKS(card_map(fd, b.handle, PEERDMA_MAP_FROM_DEVICE, &to, &count, &m2));
	card_copy(from.dma_addr, to.dma_addr, 4092);
	CHECK(!memcmp(memory, memory + PAGE, 4092));
	CHECK((unsigned char)memory[PAGE + 4092] == 0xee);
	close(fd);
	munmap(memory, 2 * PAGE);
}

void test_devices(void)
{
	if (!card_open()) {
		skip("mappings for a device", "no DMA card (PCI 1234:11e8)");
		return;
	}
	run("what MAP refuses", refusals);
	run("map, unmap, and what ends mappings", life);
	run("DMA from pinned memory to pinned memory", transfer);
}
