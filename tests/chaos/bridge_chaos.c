// SPDX-License-Identifier: MIT
/*
 * bridge_chaos - peerdma on a provider that misbehaves: each pin or mapping that
 * it cannot trust is refused with the errno that is documented, and nothing of
 * it is left.
 *
 *   bridge_chaos PCI-ADDRESS-OF-A-DMA-CARD
 */
#include <poll.h>

#include "cuda.h"
#include "peerdma.h"
#include "uapi/peerdma_ioctl.h"
#include "sgraw.h"

#define PARAMETERS	"/sys/module/nvidia/parameters/"
#define CHAOS		"/sys/kernel/debug/softgpu/chaos/"
#define SIZE		(256UL << 10)

static struct peerdma *ctx;
static const char *card;

static void say_error(void)
{
	printf("  libpeerdma: %s\n", peerdma_last_error());
}

static void set(const char *path, const char *value)
{
	must_write(value, "%s", path);
}

#define OK(call)	MUST(!(call))

/* What pins use of the first GPU's aperture: all that is used, less what the driver itself has reserved. */
static long long bar1_used(void)
{
	static const char path[] = "/sys/kernel/debug/softgpu/0/bar1";

	long long used = line_number(path, "used"), reserved = line_number(path, "reserved");

	MUST(used >= 0 && reserved >= 0);
	return used - reserved;
}

static int try_pin(CUdeviceptr p, unsigned int flags)
{
	struct peerdma_region *r;
	int err = peerdma_pin(ctx, (void *)(uintptr_t)p, SIZE, flags | PEERDMA_DEVICE, NULL, &r);

	if (!err)
		peerdma_unpin(r);
	return err;
}

static int try_map(struct peerdma_region *r)
{
	struct peerdma_mapping *m;
	int err = peerdma_map(r, card, PEERDMA_TO_DEVICE, &m);

	if (!err)
		peerdma_unmap(m);
	return err;
}

static void tables(CUdeviceptr p)
{
	static const struct {
		const char *knob, *value, *off;
	} wrong[] = {
		{ PARAMETERS "table_version", "0x00030000", "0" },
		{ PARAMETERS "table_version", "0x00010001", "0" },
		{ PARAMETERS "page_size", "4", "64" },
		{ PARAMETERS "page_size", "128", "64" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		unsigned long before = check_counts.failures;

		set(wrong[i].knob, wrong[i].value);
		EXPECT(try_pin(p, 0), -EOPNOTSUPP);
		EXPECT(try_pin(p, PEERDMA_PERSISTENT), -EOPNOTSUPP);
		EXPECT(bar1_used(), 0);
		set(wrong[i].knob, wrong[i].off);
		EXPECT(try_pin(p, 0), 0);
		if (check_counts.failures > before)
			printf("  with %s=%s\n", wrong[i].knob, wrong[i].value);
	}
}

/* The bridge asks the driver only whether it would map, and uses no mapping of it. */
static void mappings(CUdeviceptr p)
{
	struct peerdma_region *r;

	if (!EXPECT(peerdma_pin(ctx, (void *)(uintptr_t)p, SIZE, PEERDMA_PERSISTENT, NULL, &r), 0))
		return;
	EXPECT(try_map(r), 0);
	set(PARAMETERS "mapping_version", "0x00010001");
	EXPECT(try_map(r), 0);
	set(PARAMETERS "mapping_version", "0");
	set(CHAOS "fail_map", "1");
	EXPECT(try_map(r), 0);
	set(CHAOS "fail_map", "0");
	EXPECT(peerdma_unpin(r), 0);
}

static void other_knobs(CUdeviceptr p)
{
	set(CHAOS "fail_pin", "1");
	EXPECT(try_pin(p, 0), -ENOSPC);
	EXPECT(try_pin(p, 0), 0);
	set(CHAOS "bar1_limit", "131072");
	EXPECT(try_pin(p, 0), -ENOSPC);
	set(CHAOS "bar1_limit", "0");
	EXPECT(try_pin(p, 0), 0);
}

/* What other releases of the driver do: the bridge refuses, or does not mind. */
static void other_releases(CUdeviceptr p)
{
	set(PARAMETERS "get_race", "1");
	EXPECT(try_pin(p, 0), -ENXIO);
	EXPECT(bar1_used(), 0);
	set(PARAMETERS "get_race", "1");
	EXPECT(try_pin(p, PEERDMA_PERSISTENT), -ENXIO);
	EXPECT(try_pin(p, 0), 0);
	/* 524 is the kernel's own: programs get 95. */
	set(PARAMETERS "unsupported", "1");
	EXPECT(try_pin(p, 0), -EOPNOTSUPP);
	EXPECT(try_pin(p, PEERDMA_PERSISTENT), -EOPNOTSUPP);
	set(PARAMETERS "unsupported", "0");
}

/* The second callback must not end another pin, nor free the table once more. */
static void called_twice(void)
{
	struct peerdma_status status = { .size = sizeof(status) };
	struct peerdma_region *first, *second;
	CUdeviceptr a, b;

	set(PARAMETERS "callback_twice", "1");
	OK(cuMemAlloc(&a, SIZE));
	OK(cuMemAlloc(&b, SIZE));
	EXPECT(peerdma_pin(ctx, (void *)(uintptr_t)a, SIZE, PEERDMA_DEVICE, NULL, &first), 0);
	EXPECT(peerdma_pin(ctx, (void *)(uintptr_t)b, SIZE, PEERDMA_DEVICE, NULL, &second), 0);
	OK(cuMemFree(a));
	EXPECT(bar1_used(), SIZE);
	EXPECT(peerdma_status(first, &status), 0);
	CHECK(status.state == PEERDMA_STATE_REVOKED, "the pin is in state %u", status.state);
	EXPECT(peerdma_status(second, &status), 0);
	CHECK(status.state == PEERDMA_STATE_LIVE, "the other pin is in state %u", status.state);
	EXPECT(peerdma_unpin(first), 0);
	EXPECT(peerdma_unpin(second), 0);
	OK(cuMemFree(b));
	set(PARAMETERS "callback_twice", "0");
	EXPECT(bar1_used(), 0);
}

/* A process that pins through this process's open file, and exits without unpinning. */
static void pins_and_exits(void *file)
{
	struct peerdma_pin_args args = { .size = sizeof(args), .flags = PEERDMA_PIN_DEVICE, .length = SIZE };
	/* CUDA does not work in a forked child. */
	struct gpu g = gpu_up(0);

	args.addr = need_alloc(&g, SIZE);
	MUST(!ioctl(*(int *)file, PEERDMA_PIN, &args));
}

/*
 * A callback of a process that has gone comes when its memory is free already. The pin ends then, and nothing before; until
 * then its DMA addresses reach memory that may have another owner, which no client can prevent.
 */
static void called_late(void)
{
	int file = open("/dev/peerdma", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	struct pollfd revoked = { .fd = file, .events = POLLIN };
	struct peerdma_event event;

	MUST(file >= 0);
	set(PARAMETERS "callback_late_ms", "300");
	CHECK(in_child(pins_and_exits, &file), "the process that exits");
	CHECK(read(file, &event, sizeof(event)) < 0 && errno == EAGAIN, "the callback has come in time");
	EXPECT(bar1_used(), 0);
	EXPECT(poll(&revoked, 1, 60000), 1);
	EXPECT((int)read(file, &event, sizeof(event)), (int)sizeof(event));
	CHECK(event.type == PEERDMA_EVENT_REVOKED, "event %u", event.type);
	set(PARAMETERS "callback_late_ms", "0");
	close(file);

	/* Here the pin ends first, with its file, and the callback finds none. */
	file = open("/dev/peerdma", O_RDWR | O_CLOEXEC);
	MUST(file >= 0);
	set(PARAMETERS "callback_late_ms", "300");
	CHECK(in_child(pins_and_exits, &file), "the process that exits");
	close(file);
	usleep(600000);
	set(PARAMETERS "callback_late_ms", "0");
}

/* CUDA exports only from the start of an allocation on: the library pins from there, and says so. */
static void from_the_start(CUdeviceptr p)
{
	struct peerdma_status status = { .size = sizeof(status) };
	struct peerdma_region *r;
	struct peerdma *dmabufs;
	int fd;

	set(CHAOS "dmabuf_whole", "1");
	setenv("PEERDMA_PROVIDER", "dmabuf", 1);
	MUST(!peerdma_open(&dmabufs, 0));
	if (EXPECT(peerdma_pin(dmabufs, (void *)(uintptr_t)(p + SIZE / 2 + 100), 1000, 0, NULL, &r), 0)) {
		EXPECT(peerdma_status(r, &status), 0);
		CHECK(status.addr == p + SIZE / 2 + 100 && status.length == 1000 && status.pinned_addr == p &&
		      status.pinned_length == SIZE / 2 + 4096, "[%#llx, +%llu) is pinned", (unsigned long long)status.pinned_addr,
		      (unsigned long long)status.pinned_length);
		EXPECT(peerdma_export_dmabuf(r, 0, 0, &fd), 0);
		EXPECT((int)lseek(fd, 0, SEEK_END), (int)status.pinned_length);
		close(fd);
		EXPECT(peerdma_unpin(r), 0);
	}
	peerdma_close(dmabufs);
	setenv("PEERDMA_PROVIDER", "kernel", 1);
	set(CHAOS "dmabuf_whole", "0");
}

/* The card's driver goes while this program has memory mapped for the card. */
static void driver_goes(CUdeviceptr p)
{
	struct peerdma_status status = { .size = sizeof(status) };
	char link[128], driver[256], path[300];
	struct peerdma_mapping *m;
	struct peerdma_region *r;
	ssize_t n;

	snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s/driver", card);
	n = readlink(link, driver, sizeof(driver) - 1);
	if (!CHECK(n > 0, "the card has no driver"))
		return;
	driver[n] = 0;
	EXPECT(peerdma_pin(ctx, (void *)(uintptr_t)p, SIZE, PEERDMA_DEVICE, NULL, &r), 0);
	EXPECT(peerdma_map(r, card, PEERDMA_TO_DEVICE, &m), 0);
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s/unbind", strrchr(driver, '/') + 1);
	set(path, card);
	EXPECT(peerdma_status(r, &status), 0);
	CHECK(!status.mappings, "a mapping outlived the driver");
	CHECK(status.state == PEERDMA_STATE_LIVE, "the pin went with the driver");
	EXPECT(peerdma_unmap(m), 0);
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s/bind", strrchr(driver, '/') + 1);
	set(path, card);
	EXPECT(try_map(r), 0);
	EXPECT(peerdma_unpin(r), 0);
}

struct unpinning {
	struct peerdma_region *region;
	struct task task;
};

static void unpin_it(void *arg)
{
	struct unpinning *u = arg;

	EXPECT(peerdma_unpin(u->region), 0);
}

/*
 * An unpin is overtaken on its way into the driver by the free of its memory.
 * What the driver freed then, the next pin is given: the late unpin must not end
 * that one.
 */
static void overtaken(void)
{
	struct peerdma_region *second;
	struct unpinning first;
	CUdeviceptr a, b;
	int i, lost = 0;

	set(PARAMETERS "put_delay_ms", "200");
	for (i = 0; i < 5; i++) {
		OK(cuMemAlloc(&a, SIZE));
		OK(cuMemAlloc(&b, SIZE));
		EXPECT(peerdma_pin(ctx, (void *)(uintptr_t)a, SIZE, PEERDMA_DEVICE, NULL, &first.region), 0);
		task_begin(&first.task, unpin_it, &first);
		usleep(100000);
		OK(cuMemFree(a));
		/* Another one, while the first is being unpinned and its memory was freed. */
		EXPECT(peerdma_pin(ctx, (void *)(uintptr_t)b, SIZE, PEERDMA_DEVICE, NULL, &second), 0);
		task_end(&first.task);
		lost += bar1_used() != SIZE;
		EXPECT(peerdma_unpin(second), 0);
		OK(cuMemFree(b));
	}
	CHECK(!lost, "a late unpin ended another pin: %d times", lost);
	set(PARAMETERS "put_delay_ms", "0");
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdeviceptr p;

	if (argc != 2)
		return 2;
	card = argv[1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* The module's answers are meant, not what the library would try after them. */
	setenv("PEERDMA_PROVIDER", "kernel", 1);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc(&p, SIZE));
	check_says = say_error;
	MUST(!peerdma_open(&ctx, 0));
	tables(p);
	mappings(p);
	other_knobs(p);
	other_releases(p);
	called_twice();
	called_late();
	from_the_start(p);
	driver_goes(p);
	overtaken();
	peerdma_close(ctx);
	EXPECT(bar1_used(), 0);
	OK(cuMemFree(p));
	return check_end("bridge_chaos");
}
