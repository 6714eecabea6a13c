// SPDX-License-Identifier: MIT
/*
 * peerdma_test_late.c - importers of a pin's dma-buf that are told to let go and do
 * not: each is named, and has the memory, or cannot reach it any more, before
 * anybody else gets it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peerdma_importer.h"
#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

#define LENGTH (2UL << 20)

static void set(const char *parameter, const char *value)
{
	CHECK(module_set("peerdma", parameter, value));
}

static int importer(int dmabuf, uint32_t kind, struct importer_map *m)
{
	struct importer_attach a = { .fd = dmabuf, .kind = kind };
	int im = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC);

	*m = (struct importer_map){ 0 };
	WORKS(ioctl(im, IMPORTER_ATTACH, &a));
	WORKS(ioctl(im, IMPORTER_MAP, m));
	return im;
}

static struct importer_state state(int im)
{
	struct importer_state s = { 0 };

	WORKS(ioctl(im, IMPORTER_STATE, &s));
	return s;
}

static bool pin_is(uint32_t handle, const char *expected)
{
	char value[64];

	return debugfs_field(handle, "state", value, sizeof(value)) && !strcmp(value, expected);
}

/* Until somebody was found to be late; who keeps his mapping is named for as long. */
static void wait_late(long long before, uint32_t handle)
{
	char value[256] = "";

	for (int i = 0; i < 60000 && debugfs_stat("late") == before; i++)
		usleep(1000);
	CHECK(debugfs_stat("late") == before + 1);
	if (handle)
		CHECK(debugfs_field(handle, "late", value, sizeof(value)) && strstr(value, ":1"));
}

struct freeing {
	pthread_t thread;
	uint64_t va;
	atomic_bool done;
};

static void *free_it(void *arg)
{
	struct freeing *f = arg;

	CHECK(!cu.MemFree(f->va));
	atomic_store(&f->done, true);
	return NULL;
}

static void free_begin(struct freeing *f, uint64_t va)
{
	f->va = va;
	atomic_init(&f->done, false);
	CHECK(!pthread_create(&f->thread, NULL, free_it, f));
}

static void free_end(struct freeing *f)
{
	CHECK(!pthread_join(f->thread, NULL));
	CHECK(atomic_load(&f->done));
}

/* Unpinned, the memory is the importer's until it lets go, as it is a static one's. */
static void unpinned(void)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a, next;
	struct importer_map m;
	int fd = dev_open(), other = dev_open(), dmabuf, im;
	long long late = debugfs_stat("late");

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	im = importer(dmabuf, IMPORTER_LAZY, &m);
	WORKS(unpin(fd, a.handle));
	wait_late(late, a.handle);
	CHECK(state(im).notified == 1 && state(im).mapped);
	CHECK(pin_is(a.handle, "held") && live_pins(other) == 1);
	/* A notifier of its memory may still write to its slot, which is no other's. */
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &next));
	CHECK(next.slot != a.slot);
	close(fd);
	close(dmabuf);
	if (card_open()) {
		memory[5] = 123;
		card_copy(m.dma_addr, m.dma_addr + 2048, 16);
		CHECK(memory[2048 + 5] == 123);
	}
	WORKS(ioctl(im, IMPORTER_UNMAP));
	CHECK(live_pins(other) == 1);
	close(im);
	CHECK(live_pins(other) == 0);
	close(other);
	munmap(memory, PAGE);
}

/* It is waited for, or has lost its mapping. */
static void free_under(int im, uint32_t handle, uint64_t va, long long late)
{
	bool safe = card_open() && card_behind_iommu();
	struct freeing f;

	free_begin(&f, va);
	wait_late(late, safe ? 0 : handle);
	if (safe) {
		free_end(&f);
		CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
	} else {
		/* Time for it to go wrong; right is it at any time, for this thread has not let go. */
		usleep(100000);
		CHECK(!atomic_load(&f.done));
	}
	CHECK(state(im).mapped);
	WORKS(ioctl(im, IMPORTER_UNMAP));
	if (!safe)
		free_end(&f);
}

static void freed_by(uint32_t kind)
{
	uint64_t va = gpu_alloc(LENGTH);
	struct peerdma_pin_args a;
	struct peerdma_query_args q;
	struct importer_map m;
	long long late = debugfs_stat("late");
	int fd = dev_open(), dmabuf, im;

	WORKS(gpu_pin(fd, va, LENGTH, 0, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	im = importer(dmabuf, kind, &m);
	free_under(im, a.handle, va, late);
	CHECK(state(im).notified == 1);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED && q.mappings == 0);
	CHECK(ioctl(im, IMPORTER_MAP, &m) < 0 && errno == ESTALE);
	close(im);
	close(dmabuf);
	close(fd);
}

static void freed(void)
{
	freed_by(IMPORTER_LAZY);
}

static void pinned_freed(void)
{
	freed_by(IMPORTER_PINNING);
}

/* Told, it unmaps when it can, and within its time; it may have pinned where the kernel has that promised. */
static void in_time(uint32_t kind)
{
	uint64_t va = gpu_alloc(LENGTH);
	struct peerdma_pin_args a;
	struct peerdma_query_args q;
	struct importer_map m;
	long long late = debugfs_stat("late");
	struct freeing f;
	int fd = dev_open(), dmabuf, im;

	WORKS(gpu_pin(fd, va, LENGTH, 0, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	im = importer(dmabuf, kind, &m);
	set("export_timeout_ms", "600000");
	free_begin(&f, va);
	while (state(im).notified == 0)
		usleep(1000);
	CHECK(!atomic_load(&f.done));
	CHECK(state(im).mapped && debugfs_stat("maps") == debugfs_stat("unmaps") + 1);
	WORKS(ioctl(im, IMPORTER_UNMAP));
	free_end(&f);
	set("export_timeout_ms", "50");
	CHECK(debugfs_stat("late") == late);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED && q.mappings == 0);
	CHECK(ioctl(im, IMPORTER_MAP, &m) < 0 && errno == ESTALE);
	close(im);
	close(dmabuf);
	close(fd);
}

static void dynamic_in_time(void)
{
	in_time(IMPORTER_LAZY);
}

static void pinned_in_time(void)
{
	in_time(IMPORTER_PINNING);
}

static bool promised(void)
{
	int im = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC);
	int yes = ioctl(im, IMPORTER_PROMISES);

	close(im);
	return yes == 1;
}

/* What was left to an importer when the pin ended is waited for when the memory goes. */
static void freed_after_unpin(void)
{
	uint64_t va = gpu_alloc(LENGTH);
	struct peerdma_pin_args a;
	struct importer_map m;
	long long late = debugfs_stat("late");
	int fd = dev_open(), dmabuf, im;

	WORKS(gpu_pin(fd, va, LENGTH, 0, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	im = importer(dmabuf, IMPORTER_LAZY, &m);
	WORKS(unpin(fd, a.handle));
	CHECK(pin_is(a.handle, "held") && live_pins(fd) == 1);
	free_under(im, a.handle, va, late);
	CHECK(live_pins(fd) == 1);
	close(im);
	CHECK(live_pins(fd) == 0);
	close(dmabuf);
	close(fd);
}

/* One that does not come back from move_notify. */
static void stuck(void)
{
	uint64_t va = gpu_alloc(LENGTH);
	struct peerdma_pin_args a;
	struct importer_map m;
	uint32_t ms = UINT32_MAX;
	long long late = debugfs_stat("late");
	struct freeing f;
	int fd = dev_open(), dmabuf, im;

	WORKS(gpu_pin(fd, va, LENGTH, 0, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	im = importer(dmabuf, IMPORTER_DYNAMIC, &m);
	WORKS(ioctl(im, IMPORTER_SLOW, &ms));
	free_begin(&f, va);
	wait_late(late, a.handle);
	CHECK(!atomic_load(&f.done));
	ms = 0;
	WORKS(ioctl(im, IMPORTER_SLOW, &ms));
	free_end(&f);
	CHECK(!state(im).mapped);
	close(im);
	close(dmabuf);
	close(fd);
}

/* One that never lets go, on a machine where nothing but this keeps it from the memory. */
static void stopped(void)
{
	uint64_t va = gpu_alloc(LENGTH);
	struct peerdma_pin_args a;
	struct importer_map m;
	int fd = dev_open(), dmabuf, im;

	WORKS(gpu_pin(fd, va, LENGTH, 0, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	im = importer(dmabuf, IMPORTER_LAZY, &m);
	CHECK(card_master(true));
	set("export_stop_device", "Y");
	CHECK(!cu.MemFree(va));
	set("export_stop_device", "N");
	CHECK(state(im).mapped);
	CHECK(!card_master(false));
	CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
	CHECK(card_master(true));
	close(im);
	close(dmabuf);
	close(fd);
}

void test_late(bool gpu)
{
	if (access("/dev/peerdma_importer", F_OK)) {
		skip("importers that do not let go", "peerdma_importer.ko is not loaded (it needs the DMA card)");
		return;
	}
	set("export_timeout_ms", "50");
	if (!gpu) {
		run("an importer that does not let go: unpinned", unpinned);
	} else if (gpu_facts->pins == ENDED_BY_FREE) {
		run("an importer that does not let go", freed);
		run("the same, unpinned before", freed_after_unpin);
		run("an importer that takes its time", dynamic_in_time);
		if (promised()) {
			run("one that has pinned, and does not let go", pinned_freed);
			run("one that has pinned, and takes its time", pinned_in_time);
		}
		run("an importer that is stuck", stuck);
		if (!card_open() || card_behind_iommu())
			skip("a device is stopped", "an IOMMU is there");
		else
			run("a device is stopped", stopped);
	}
	set("export_timeout_ms", "10000");
}
