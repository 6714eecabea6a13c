// SPDX-License-Identifier: MIT
/*
 * peerdma_test_late.c - importers of a pin's dma-buf that are told to let go and do
 * not: each is named, and has the memory, or cannot reach it any more, before
 * it is given to another.
 */
#include "importer.h"
#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

#define LENGTH (2UL << 20)

static void set(const char *parameter, const char *value)
{
	CHECK(module_set("peerdma", parameter, value));
}

/* Until an importer was found to be late.  One that keeps its mapping is named for as long. */
static void wait_late(long long before, uint32_t handle)
{
	char value[256] = "";

	CHECK(UNTIL(debugfs_stat("late") > before) && debugfs_stat("late") == before + 1);
	if (handle)
		CHECK(debugfs_field(handle, "late", value, sizeof(value)) && strstr(value, ":1"));
}

/* A pin whose dma-buf an importer has mapped. */
struct held {
	uint64_t va;		/* of a GPU's memory */
	int fd, dmabuf, im;
	uint32_t handle, slot;
	struct importer_map map;
	long long late;		/* importers so far */
	struct task freeing;
};

static void hold(struct held *h, const struct peerdma_pin_args *a, uint32_t kind)
{
	h->handle = a->handle;
	h->slot = a->slot;
	h->late = debugfs_stat("late");
	h->dmabuf = export(h->fd, a->handle, 0, 0);
	h->im = importer_up(h->dmabuf, kind, &h->map);
}

static struct held hold_gpu(uint32_t kind)
{
	struct held h = { .va = gpu_alloc(LENGTH), .fd = dev_open() };
	struct peerdma_pin_args a;

	WORKS(gpu_pin(h.fd, h.va, LENGTH, 0, &a));
	hold(&h, &a, kind);
	return h;
}

static void drop(struct held *h)
{
	close(h->im);
	close(h->dmabuf);
	close(h->fd);
}

static void free_it(void *va)
{
	CHECK(!cu.MemFree(*(uint64_t *)va));
}

static void free_begin(struct held *h)
{
	task_begin(&h->freeing, free_it, &h->va);
}

static void check_revoked(struct held *h)
{
	struct peerdma_query_args q;

	WORKS(query(h->fd, h->handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED && q.mappings == 0);
	FAILS(ESTALE, importer_map(h->im, &h->map));
}

/* Unpinned, the memory is the importer's until it lets go, as it is a static one's. */
static void unpinned(void)
{
	char *memory = host_memory(PAGE);
	struct held h = { .fd = dev_open() };
	struct peerdma_pin_args a, next;
	int other = dev_open();

	WORKS(pin(h.fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	hold(&h, &a, IMPORTER_LAZY);
	WORKS(unpin(h.fd, h.handle));
	wait_late(h.late, h.handle);
	CHECK(importer_state(h.im).notified == 1 && importer_state(h.im).mapped);
	CHECK(debugfs_is(h.handle, "state", "held") && live_pins(other) == 1);
	/* A notifier of its memory may still write to its slot, which is no other's. */
	WORKS(pin(h.fd, memory, PAGE, PEERDMA_PIN_HOST, &next));
	CHECK(next.slot != h.slot);
	close(h.fd);
	close(h.dmabuf);
	if (card_open()) {
		memory[5] = 123;
		card_copy(h.map.dma_addr, h.map.dma_addr + 2048, 16);
		CHECK(memory[2048 + 5] == 123);
	}
	WORKS(importer_unmap(h.im));
	CHECK(live_pins(other) == 1);
	close(h.im);
	CHECK(live_pins(other) == 0);
	close(other);
	munmap(memory, PAGE);
}

/* It is waited for, or has lost its mapping. */
static void free_under(struct held *h)
{
	bool safe = card_open() && card_behind_iommu();

	free_begin(h);
	wait_late(h->late, safe ? 0 : h->handle);
	if (safe) {
		task_end(&h->freeing);
		CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
	} else {
		/* Time for it to go wrong; right is it at any time, for this thread has not let go. */
		usleep(100000);
		CHECK(!h->freeing.over);
	}
	CHECK(importer_state(h->im).mapped);
	WORKS(importer_unmap(h->im));
	if (!safe)
		task_end(&h->freeing);
}

static void freed_by(uint32_t kind)
{
	struct held h = hold_gpu(kind);

	free_under(&h);
	CHECK(importer_state(h.im).notified == 1);
	check_revoked(&h);
	drop(&h);
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
	struct held h = hold_gpu(kind);

	set("export_timeout_ms", "600000");
	free_begin(&h);
	CHECK(UNTIL(importer_state(h.im).notified));
	CHECK(!h.freeing.over);
	CHECK(importer_state(h.im).mapped && debugfs_stat("maps") == debugfs_stat("unmaps") + 1);
	WORKS(importer_unmap(h.im));
	task_end(&h.freeing);
	set("export_timeout_ms", "50");
	CHECK(debugfs_stat("late") == h.late);
	check_revoked(&h);
	drop(&h);
}

static void dynamic_in_time(void)
{
	in_time(IMPORTER_LAZY);
}

static void pinned_in_time(void)
{
	in_time(IMPORTER_PINNING);
}

/* What was left to an importer when the pin ended is waited for when the memory goes. */
static void freed_after_unpin(void)
{
	struct held h = hold_gpu(IMPORTER_LAZY);

	WORKS(unpin(h.fd, h.handle));
	CHECK(debugfs_is(h.handle, "state", "held") && live_pins(h.fd) == 1);
	free_under(&h);
	CHECK(live_pins(h.fd) == 1);
	close(h.im);
	CHECK(live_pins(h.fd) == 0);
	close(h.dmabuf);
	close(h.fd);
}

/* One that does not come back from move_notify. */
static void stuck(void)
{
	struct held h = hold_gpu(IMPORTER_DYNAMIC);
	uint32_t ms = UINT32_MAX;

	WORKS(ioctl(h.im, IMPORTER_SLOW, &ms));
	free_begin(&h);
	wait_late(h.late, h.handle);
	CHECK(!h.freeing.over);
	ms = 0;
	WORKS(ioctl(h.im, IMPORTER_SLOW, &ms));
	task_end(&h.freeing);
	CHECK(!importer_state(h.im).mapped);
	drop(&h);
}

/* One that never lets go, on a machine where nothing but this keeps it from the memory. */
static void stopped(void)
{
	struct held h = hold_gpu(IMPORTER_LAZY);

	CHECK(card_master(true));
	set("export_stop_device", "Y");
	CHECK(!cu.MemFree(h.va));
	set("export_stop_device", "N");
	CHECK(importer_state(h.im).mapped);
	CHECK(!card_master(false));
	CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
	CHECK(card_master(true));
	drop(&h);
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
		if (importers_promise()) {
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
