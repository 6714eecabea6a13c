// SPDX-License-Identifier: MIT
/*
 * peerdma_test_devices.c - pins mapped for a device, and the device using the
 * addresses: QEMU's edu card, driven from here through its BAR.
 */
#include <stdatomic.h>

#include "peerdma_test.h"
#include "peerdma_test_card.h"

static uint32_t mappings(int fd, uint32_t handle)
{
	struct peerdma_query_args q;

	WORKS(query(fd, handle, &q));
	return q.mappings;
}

/* Says debugfs. */
static bool mapped_for_card(uint32_t handle, unsigned int times)
{
	char expected[64], name[32];

	card_name(name, sizeof(name));
	snprintf(expected, sizeof(expected), "%s:%u", name, times);
	return debugfs_is(handle, "devices", expected);
}

static uint64_t sum(const struct peerdma_segment *segs, uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += segs[i].length;
	return total;
}

static void without_a_driver(int fd, uint32_t handle)
{
	struct peerdma_segment segs[64];
	char name[32], path[256];
	uint32_t count = 64, mapping;

	card_name(name, sizeof(name));
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver/unbind", name);
	if (!access(path, F_OK))
		must_write(name, "%s", path);
	if (!card_needs_driver()) {
		WORKS(card_map(fd, handle, BOTH, segs, &count, &mapping));
		return;
	}
	FAILS(ENODEV, card_map(fd, handle, BOTH, segs, &count, &mapping));
	card_bind();
	card_master(true);	/* which the driver took when it went */
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
		static const struct peerdma_map_args none[] = {
			{ .bus = 0xff, .devfn = 0xff }, { .bus = 0x100 }, { .devfn = 0x100 },
			{ .domain = 0xffffffff }, { .domain = 0x7fff },
		};
		struct peerdma_map_args m = none[i];

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

/* While a device has mappings, the domain that they are in cannot be replaced. */
static void lasting_domain(void)
{
	char name[32], path[256], *memory = host_memory(PAGE);
	struct peerdma_segment seg;
	struct peerdma_pin_args a;
	uint32_t count = 1, mapping;
	int fd = dev_open(), type;

	card_name(name, sizeof(name));
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group/type", name);
	type = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(type >= 0);
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(card_map(fd, a.handle, BOTH, &seg, &count, &mapping));
	CHECK(mapping && write(type, "identity", 8) < 0 && (errno == EBUSY || errno == EPERM));
	WORKS(unmap(fd, mapping));
	close(type);
	close(fd);
	munmap(memory, PAGE);
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

#ifdef __x86_64__
#define REMOVALS	5
#define MAPPERS		4

struct mapper {
	int fd;
	uint32_t handle;
	atomic_bool stop;
};

/* Always has the last of its mappings. */
static void map_again_and_again(void *arg)
{
	struct mapper *m = arg;
	struct peerdma_segment seg;
	uint32_t count, mapping, last = 0;

	while (!m->stop) {
		count = 1;
		if (card_map(m->fd, m->handle, BOTH, &seg, &count, &mapping)) {
			CHECK(errno == ENODEV);
			continue;
		}
		if (last)
			WORKS(unmap(m->fd, last));
		last = mapping;
	}
}

/* What is mapped goes, and the IOMMU forgets it. */
static void removal_of_a_mapping(int fd, uint32_t handle)
{
	bool translated = card_behind_iommu();
	uint32_t count = 1, mapping = 0;
	struct peerdma_segment seg;
	long long flushes;

	WORKS(card_map(fd, handle, BOTH, &seg, &count, &mapping));
	CHECK(mappings(fd, handle) == 1);
	flushes = debugfs_stat("flushes");
	card_remove();
	CHECK(!mappings(fd, handle) && debugfs_stat("flushes") == flushes + translated);
	WORKS(unmap(fd, mapping));
	card_rescan();
}

/* Without an IOMMU the card has no driver, so only the bus notices that it is removed. */
static void removal(void)
{
	char *memory = host_memory(PAGE);
	struct mapper m = { .fd = dev_open() };
	struct peerdma_pin_args a;
	struct task tasks[MAPPERS];

	WORKS(pin(m.fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	m.handle = a.handle;
	removal_of_a_mapping(m.fd, m.handle);
	for (int i = 0; i < REMOVALS; i++) {
		m.stop = false;
		for (int k = 0; k < MAPPERS; k++)
			task_begin(&tasks[k], map_again_and_again, &m);
		usleep(50000);
		card_remove();
		m.stop = true;
		for (int k = 0; k < MAPPERS; k++)
			task_end(&tasks[k]);
		CHECK(!mappings(m.fd, m.handle));
		card_rescan();
	}
	close(m.fd);
	munmap(memory, PAGE);
}
#endif

void test_removal(void)
{
#ifdef __x86_64__
	if (card_open())
		run("a device is removed while programs map for it", removal);
	else
		skip("removal of a device", "no DMA card (PCI 1234:11e8)");
#else
	skip("removal of a device", "without a driver nothing is mapped for it");
#endif
}

void test_devices(void)
{
	if (!card_open()) {
		skip("mappings for a device", "no DMA card (PCI 1234:11e8)");
		return;
	}
	run("what MAP refuses", refusals);
	if (card_behind_iommu())
		run("a mapping's IOMMU domain cannot be replaced", lasting_domain);
	else
		skip("a mapping's IOMMU domain cannot be replaced", "no IOMMU");
	run("map, unmap, and what ends mappings", life);
	run("DMA from pinned memory to pinned memory", transfer);
}
