// SPDX-License-Identifier: MIT
/*
 * bridge_chaos - peerdma on a provider that misbehaves: each pin or mapping that
 * it cannot trust is refused with the errno that is documented, and nothing of
 * it is left.
 *
 *   bridge_chaos PCI-ADDRESS-OF-A-DMA-CARD
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda.h"
#include "peerdma.h"

#define PARAMETERS	"/sys/module/nvidia/parameters/"
#define CHAOS		"/sys/kernel/debug/softgpu/chaos/"
#define SIZE		(256UL << 10)

static struct peerdma *ctx;
static const char *card;
static int failures;

static void expect(const char *what, int got, int want)
{
	printf("%s %s: %d%s%s\n", got == want ? "ok:" : "NOT OK:", what, got, got ? ", " : "",
	       got ? peerdma_last_error() : "");
	failures += got != want;
}

static void set(const char *path, const char *value)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(value, f) < 0 || fclose(f)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
}

static void cuda(CUresult result, const char *call)
{
	if (result) {
		fprintf(stderr, "%s: %d\n", call, result);
		exit(1);
	}
}
#define OK(call) cuda(call, #call)

/* What pins use of the first GPU's aperture: all that is used, less what the driver itself has reserved. */
static unsigned long long bar1_used(void)
{
	FILE *f = fopen("/sys/kernel/debug/softgpu/0/bar1", "r");
	unsigned long long used = ~0ULL, reserved = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "used: %llu", &used);
		sscanf(line, "reserved: %llu", &reserved);
	}
	if (f)
		fclose(f);
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
		char what[128];

		set(wrong[i].knob, wrong[i].value);
		snprintf(what, sizeof(what), "pin with %s=%s", strrchr(wrong[i].knob, '/') + 1, wrong[i].value);
		expect(what, try_pin(p, 0), -EOPNOTSUPP);
		expect("the same, persistent", try_pin(p, PEERDMA_PERSISTENT), -EOPNOTSUPP);
		expect("and all of the aperture is free", bar1_used() ? -EBUSY : 0, 0);
		set(wrong[i].knob, wrong[i].off);
		expect("without it", try_pin(p, 0), 0);
	}
}

/* The bridge asks the driver only whether it would map, and uses no mapping of it. */
static void mappings(CUdeviceptr p)
{
	struct peerdma_region *r;
	int err = peerdma_pin(ctx, (void *)(uintptr_t)p, SIZE, PEERDMA_PERSISTENT, NULL, &r);

	expect("a persistent pin", err, 0);
	if (err)
		return;
	expect("mapped", try_map(r), 0);
	set(PARAMETERS "mapping_version", "0x00010001");
	expect("mapped with mapping_version=0x00010001", try_map(r), 0);
	set(PARAMETERS "mapping_version", "0");
	set(CHAOS "fail_map", "1");
	expect("mapped with fail_map=1", try_map(r), 0);
	set(CHAOS "fail_map", "0");
	expect("unpinned", peerdma_unpin(r), 0);
}

static void other_knobs(CUdeviceptr p)
{
	set(CHAOS "fail_pin", "1");
	expect("pin with fail_pin=1", try_pin(p, 0), -ENOSPC);
	expect("and again", try_pin(p, 0), 0);
	set(CHAOS "bar1_limit", "131072");
	expect("pin with bar1_limit=131072", try_pin(p, 0), -ENOSPC);
	set(CHAOS "bar1_limit", "0");
	expect("without it", try_pin(p, 0), 0);
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
	expect("the card has a driver", n > 0 ? 0 : -ENOENT, 0);
	if (n <= 0)
		return;
	driver[n] = 0;
	expect("a pin", peerdma_pin(ctx, (void *)(uintptr_t)p, SIZE, PEERDMA_DEVICE, NULL, &r), 0);
	expect("mapped for the card", peerdma_map(r, card, PEERDMA_TO_DEVICE, &m), 0);
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s/unbind", strrchr(driver, '/') + 1);
	set(path, card);
	expect("its status, without the driver", peerdma_status(r, &status), 0);
	expect("the mapping went with the driver", status.mappings ? -EBUSY : 0, 0);
	expect("the pin did not", status.state == PEERDMA_STATE_LIVE ? 0 : -ESTALE, 0);
	expect("unmapped", peerdma_unmap(m), 0);
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s/bind", strrchr(driver, '/') + 1);
	set(path, card);
	expect("mapped for the card again", try_map(r), 0);
	expect("unpinned", peerdma_unpin(r), 0);
}

static void *unpin_thread(void *region)
{
	return (void *)(intptr_t)peerdma_unpin(region);
}

/*
 * An unpin is overtaken on its way into the driver by the free of its memory.
 * What the driver freed then, the next pin is given: the late unpin must not end
 * that one.
 */
static void overtaken(void)
{
	struct peerdma_region *first, *second;
	CUdeviceptr a, b;
	pthread_t thread;
	void *result;
	int i, lost = 0;

	set(PARAMETERS "put_delay_ms", "200");
	for (i = 0; i < 5; i++) {
		OK(cuMemAlloc(&a, SIZE));
		OK(cuMemAlloc(&b, SIZE));
		expect("a pin", peerdma_pin(ctx, (void *)(uintptr_t)a, SIZE, PEERDMA_DEVICE, NULL, &first), 0);
		if (pthread_create(&thread, NULL, unpin_thread, first))
			exit(1);
		usleep(100000);
		OK(cuMemFree(a));
		expect("another one, while the first is being unpinned and its memory was freed",
		       peerdma_pin(ctx, (void *)(uintptr_t)b, SIZE, PEERDMA_DEVICE, NULL, &second), 0);
		pthread_join(thread, &result);
		expect("unpinned", (intptr_t)result, 0);
		lost += bar1_used() != SIZE;
		expect("unpinned, too", peerdma_unpin(second), 0);
		OK(cuMemFree(b));
	}
	expect("the pins that a late unpin of another has ended", lost, 0);
	set(PARAMETERS "put_delay_ms", "0");
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdeviceptr p;
	int err;

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
	err = peerdma_open(&ctx, 0);
	if (err) {
		fprintf(stderr, "%s\n", peerdma_last_error());
		return 1;
	}
	tables(p);
	mappings(p);
	other_knobs(p);
	driver_goes(p);
	overtaken();
	peerdma_close(ctx);
	expect("all of the aperture is free", bar1_used() ? -EBUSY : 0, 0);
	OK(cuMemFree(p));
	printf("bridge_chaos: %d failed\n", failures);
	return failures != 0;
}
