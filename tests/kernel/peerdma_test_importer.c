// SPDX-License-Identifier: MIT
/* peerdma_test_importer.c - dma-bufs of pins in the hands of a device's driver. */
#include <stdatomic.h>

#include "importer.h"
#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

enum { BIDIRECTIONAL, TO_DEVICE, FROM_DEVICE };	/* enum dma_data_direction */

static int map(int im, uint32_t direction, struct importer_map *m)
{
	*m = (struct importer_map){ .direction = direction };
	return importer_map(im, m);
}

/* Host memory is never revoked: every kind of importer may have it. */
static void host(void)
{
	char *memory = host_memory(4 * PAGE);
	struct peerdma_pin_args a;
	struct peerdma_query_args q;
	struct importer_map m;

	for (uint32_t kind = IMPORTER_STATIC; kind <= IMPORTER_NO_PEER; kind++) {
		if (kind == IMPORTER_LAZY)
			continue;	/* peerdma_test_late.c */

		int fd = dev_open(), im = importer_open(), dmabuf;
		/* Those that cannot, or will not, let go. */
		bool keeps = kind == IMPORTER_STATIC || kind == IMPORTER_PINNING;

		WORKS(pin(fd, memory, 4 * PAGE, PEERDMA_PIN_HOST, &a));
		dmabuf = export(fd, a.handle, PAGE, 2 * PAGE);
		WORKS(importer_attach(im, dmabuf, kind));
		/* It has pinned: the memory stays, mapped or not. */
		if (kind == IMPORTER_PINNING)
			FAILS(EBUSY, unpin(fd, a.handle));
		WORKS(map(im, BIDIRECTIONAL, &m));
		CHECK(m.length == 2 * PAGE && m.dma_addr);
		WORKS(query(fd, a.handle, &q));
		CHECK(q.mappings == 1 && q.exports == 1);
		FAILS(keeps ? EBUSY : 0, unpin(fd, a.handle));
		if (keeps) {
			WORKS(query(fd, a.handle, &q));
			CHECK(q.state == PEERDMA_STATE_LIVE && q.mappings == 1);
			WORKS(importer_detach(im));
			WORKS(unpin(fd, a.handle));
		} else {
			CHECK(importer_state(im).notified == 1 && !importer_state(im).mapped);
			WORKS(importer_unmap(im));
			FAILS(ENOENT, map(im, BIDIRECTIONAL, &m));
		}
		CHECK(live_pins(fd) == 0);
		CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
		close(im);
		close(dmabuf);
		close(fd);
	}
	munmap(memory, 4 * PAGE);
}

/* After the last close, who keeps a mapping keeps the memory; and no longer. */
static void outlives_file(void)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	struct importer_map m;
	int fd = dev_open(), im = importer_open(), dmabuf, other = dev_open();

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	WORKS(importer_attach(im, dmabuf, IMPORTER_STATIC));
	WORKS(map(im, BIDIRECTIONAL, &m));
	close(dmabuf);
	close(fd);
	CHECK(live_pins(other) == 1);
	CHECK(debugfs_is(a.handle, "state", "held"));
	/* Still DMA-able: the card writes the page's beginning to its middle. */
	if (card_open()) {
		memory[5] = 123;
		card_copy(m.dma_addr, m.dma_addr + 2048, 16);
		CHECK(memory[2048 + 5] == 123);
	}
	close(im);
	CHECK(live_pins(other) == 0);
	close(other);
	munmap(memory, PAGE);
}

/* A driver's own view could not be taken away: there is none. */
static void kernel_view(void)
{
	char *memory = host_memory(PAGE);
	struct importer_view v = { 0 };
	struct peerdma_pin_args a;
	int fd = dev_open(), im = importer_open();

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	v.fd = export(fd, a.handle, 0, 0);
	FAILS(EINVAL, ioctl(im, IMPORTER_VMAP, &v));
	WORKS(unpin(fd, a.handle));
	close(v.fd);
	close(im);
	close(fd);
	munmap(memory, PAGE);
}

static void readonly(void)
{
	struct peerdma_pin_dmabuf_args d = { .size = sizeof(d) };
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	struct importer_map m;
	int fd = dev_open(), im = importer_open(), dmabuf;

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0) == MAP_FAILED);
	/* Linux up to 6.15 maps for static importers when they attach, in both directions. */
	if (!importer_attach(im, dmabuf, IMPORTER_STATIC)) {
		FAILS(EPERM, map(im, FROM_DEVICE, &m));
		WORKS(importer_detach(im));
	} else {
		CHECK(errno == EPERM);
	}
	WORKS(importer_attach(im, dmabuf, IMPORTER_DYNAMIC));
	FAILS(EPERM, map(im, FROM_DEVICE, &m));
	WORKS(map(im, TO_DEVICE, &m));
	d.fd = dmabuf;
	FAILS(EACCES, ioctl(fd, PEERDMA_PIN_DMABUF_FD, &d));
	d.flags = PEERDMA_PIN_READONLY;
	WORKS(ioctl(fd, PEERDMA_PIN_DMABUF_FD, &d));
	WORKS(unpin(fd, d.handle));
	close(im);
	close(dmabuf);
	close(fd);
	munmap(memory, PAGE);
}

/* The mapping fails because the device has no DMA addresses left; nothing remains of it. */
static void out_of_addresses(void)
{
	/* 24 bits are 16 MiB: too few addresses for an IOMMU, and without one most memory lies above. */
	const uint32_t few = 24, usual = 0;
	const size_t length = 32 * MIB;
	char *memory = host_memory(length);
	struct peerdma_pin_args a;
	struct peerdma_query_args q;
	struct importer_map m;
	int fd = dev_open(), im = importer_open(), dmabuf, half;

	WORKS(pin(fd, memory, length, PEERDMA_PIN_HOST, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	WORKS(importer_attach(im, dmabuf, IMPORTER_DYNAMIC));
	WORKS(ioctl(im, IMPORTER_BITS, &few));
	CHECK(map(im, BIDIRECTIONAL, &m) == -1 && errno != EINVAL);
	WORKS(ioctl(im, IMPORTER_BITS, &usual));
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_LIVE && q.mappings == 0);
	WORKS(importer_detach(im));
	/* Half of it: after such a failure the kernel refuses the same length until it has unmapped something for the device. */
	half = export(fd, a.handle, 0, length / 2);
	WORKS(importer_attach(im, half, IMPORTER_DYNAMIC));
	WORKS(map(im, BIDIRECTIONAL, &m));
	CHECK(m.length == length / 2);
	WORKS(unpin(fd, a.handle));
	CHECK(importer_state(im).notified == 1 && !importer_state(im).mapped);
	CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
	close(im);
	close(half);
	close(dmabuf);
	close(fd);
	munmap(memory, length);
}

/* GPU memory that may be revoked, for those who let go. */
static void revocable(void)
{
	struct peerdma_pin_args a;
	struct peerdma_query_args q;
	struct importer_map m;

	for (uint32_t kind = IMPORTER_STATIC; kind <= IMPORTER_NO_PEER; kind++) {
		if (kind == IMPORTER_LAZY)
			continue;	/* peerdma_test_late.c */

		uint64_t va = gpu_alloc(2 * MIB);
		int fd = dev_open(), im = importer_open(), dmabuf;
		bool iomem;

		WORKS(gpu_pin(fd, va, 2 * MIB, 0, &a));
		dmabuf = export(fd, a.handle, 0, 0);
		FAILS(EINVAL, importer_view(im, dmabuf, &iomem));
		if (kind == IMPORTER_STATIC || kind == IMPORTER_NO_PEER) {
			FAILS(EOPNOTSUPP, importer_attach(im, dmabuf, kind));
		} else if (kind == IMPORTER_PINNING) {
			/* Refused when it pins or, where that is all the kernel tells, when it maps. */
			if (importers_promise())
				WORKS(importer_attach(im, dmabuf, kind) ?: map(im, BIDIRECTIONAL, &m));
			else if (!importer_attach(im, dmabuf, kind))
				FAILS(EOPNOTSUPP, map(im, BIDIRECTIONAL, &m));
			else
				CHECK(errno == EOPNOTSUPP);
		} else {
			WORKS(importer_attach(im, dmabuf, kind));
			WORKS(map(im, BIDIRECTIONAL, &m));
			CHECK(m.length == 2 * MIB);
			/* Let go of and mapped again, by its own will. */
			WORKS(importer_unmap(im));
			WORKS(map(im, BIDIRECTIONAL, &m));
			WORKS(query(fd, a.handle, &q));
			CHECK(q.mappings == 1 && importer_state(im).notified == 0);
			CHECK(!cu.MemFree(va));
			va = 0;
			WORKS(query(fd, a.handle, &q));
			CHECK(q.state == PEERDMA_STATE_REVOKED && q.mappings == 0);
			CHECK(importer_state(im).notified == 1 && !importer_state(im).mapped);
			CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
			WORKS(importer_unmap(im));
			FAILS(ESTALE, map(im, BIDIRECTIONAL, &m));
		}
		/* Dynamic, but not to be told: on kernels that have such. */
		if (kind == IMPORTER_STATIC && importers_promise())
			FAILS(EOPNOTSUPP, importer_attach(im, dmabuf, IMPORTER_DEAF));
		/*
		 * The file, the importer and the dma-buf go in another order each time; but the bridge does not wait for one that
		 * has pinned (peerdma_test_late.c).
		 */
		if (kind == IMPORTER_DYNAMIC)
			close(fd);
		close(im);
		close(dmabuf);
		if (kind != IMPORTER_DYNAMIC)
			close(fd);
		if (va)
			CHECK(!cu.MemFree(va));
	}
}

/* Persistent GPU memory is for all but those who need pages. */
static void persistent(void)
{
	struct peerdma_pin_args a;
	struct importer_map m;

	for (uint32_t kind = IMPORTER_STATIC; kind <= IMPORTER_NO_PEER; kind++) {
		if (kind == IMPORTER_LAZY)
			continue;	/* peerdma_test_late.c */

		uint64_t va = gpu_alloc(2 * MIB);
		int fd = dev_open(), im = importer_open(), dmabuf;
		bool iomem;

		WORKS(gpu_pin(fd, va, 2 * MIB, PEERDMA_PIN_PERSISTENT, &a));
		dmabuf = export(fd, a.handle, MIB, MIB);
		FAILS(EINVAL, importer_view(im, dmabuf, &iomem));
		if (kind == IMPORTER_NO_PEER) {
			FAILS(EOPNOTSUPP, importer_attach(im, dmabuf, kind));
		} else {
			WORKS(importer_attach(im, dmabuf, kind));
			WORKS(map(im, BIDIRECTIONAL, &m));
			CHECK(m.length == MIB);
			CHECK(!cu.MemFree(va));
			va = 0;
			CHECK(importer_state(im).notified == 0);
		}
		close(fd);
		close(dmabuf);
		close(im);
		if (va)
			CHECK(!cu.MemFree(va));
	}
}

/*
 * NVIDIA's driver holds a lock while it frees memory, and while it pins.  An importer holds its
 * buffer's reservation lock while it maps, which a thread that frees may want: so no mapping
 * waits for the driver.
 */
#define DRIVER_BUSY_US	"60000000"	/* until it is told that it is not */

static atomic_int driver_begun, driver_done;

static void *keep_driver_busy(void *va)
{
	struct peerdma_pin_args a;
	int fd = dev_open();

	driver_begun = 1;
	WORKS(gpu_pin(fd, *(uint64_t *)va, 2 * MIB, 0, &a));
	driver_done = 1;
	close(fd);
	return NULL;
}

static void while_driver_is_busy(void)
{
	int fd = dev_open(), im = importer_open(), dmabuf;
	uint64_t va = gpu_alloc(2 * MIB);
	struct peerdma_segment segs[2];
	struct peerdma_pin_args a;
	struct importer_map m;
	uint32_t count = 2, mapping = 0;
	pthread_t busy;

	WORKS(gpu_pin(fd, va, 2 * MIB, PEERDMA_PIN_PERSISTENT, &a));
	dmabuf = export(fd, a.handle, 0, 2 * MIB);
	WORKS(importer_attach(im, dmabuf, IMPORTER_DYNAMIC));
	/* The driver is asked for the path between two devices once: not below. */
	WORKS(card_map(fd, a.handle, PEERDMA_MAP_TO_DEVICE, segs, &count, &mapping));
	WORKS(unmap(fd, mapping));
	count = 2;
	driver_begun = driver_done = 0;
	CHECK(module_set("nvidia", "pin_delay_us", DRIVER_BUSY_US));
	CHECK(!pthread_create(&busy, NULL, keep_driver_busy, &va));
	while (!driver_begun)
		usleep(1000);
	usleep(300 * 1000);
	WORKS(map(im, BIDIRECTIONAL, &m));
	WORKS(card_map(fd, a.handle, PEERDMA_MAP_TO_DEVICE, segs, &count, &mapping));
	/* Had one of them waited, the driver would be done in a moment. */
	usleep(300 * 1000);
	CHECK(!driver_done);
	WORKS(importer_unmap(im));
	WORKS(unmap(fd, mapping));
	CHECK(module_set("nvidia", "pin_delay_us", "0"));
	CHECK(!pthread_join(busy, NULL));
	close(dmabuf);
	close(im);
	close(fd);
	CHECK(!cu.MemFree(va));
}

/* With the lock that NVIDIA's driver has: where there is lockdep it sees in which order locks are taken. */
static void with_driver_lock(void)
{
	if (!module_set("nvidia", "driver_lock", "1")) {
		skip("dma-bufs while the GPU's driver is busy", "softgpu's nvidia.ko is not there");
		return;
	}
	run("dma-buf, each kind of importer, with the driver's lock", revocable);
	run("dma-buf of a persistent pin, with the driver's lock", persistent);
	run("dma-buf of a persistent pin is mapped while the GPU's driver is busy", while_driver_is_busy);
	CHECK(module_set("nvidia", "driver_lock", "0"));
}

void test_importer(bool gpu)
{
	if (access("/dev/peerdma_importer", F_OK)) {
		skip("dma-buf importers", "peerdma_importer.ko is not loaded (it needs the DMA card)");
		return;
	}
	if (!gpu) {
		run("dma-buf of host memory, each kind of importer", host);
		run("dma-buf that outlives its file", outlives_file);
		run("dma-buf of a read-only pin", readonly);
		run("dma-buf that a driver looks at", kernel_view);
		run("dma-buf for whose mapping a device has too few addresses", out_of_addresses);
		return;
	}
	/* Host memory, which is never revoked, is above; other drivers' dma-bufs have one already. */
	if (gpu_facts->pins != ENDED_BY_FREE)
		return;
	run("dma-buf, each kind of importer", revocable);
	if (gpu_facts->can_persist) {
		run("dma-buf of a persistent pin", persistent);
		with_driver_lock();
	}
}
