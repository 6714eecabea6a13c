// SPDX-License-Identifier: MIT
/* tegra_bridge.c - the bridge over peerdma_tegra.ko: cudaHostAlloc()'s memory is a device's. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cuda.h>

#include "peerdma_importer.h"
#include "peerdma_test_card.h"

#define LENGTH (16 * PAGE)
#define BOTH (PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE)

static CUcontext context;

static char *alloc(void)
{
	void *p = NULL;

	CHECK(!cuMemHostAlloc(&p, LENGTH, 0));
	return p;
}

static void facts(void)
{
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	char *p = alloc(), *v;
	int fd = dev_open();

	/* Whoever knows it is asked first, and the host last. */
	WORKS(pin(fd, p + PAGE + 5, 10, 0, &a));
	CHECK(a.page_shift == 12 && a.offset == 5 && a.pinned_length == PAGE);
	WORKS(query(fd, a.handle, &q));
	CHECK(!strcmp(q.provider, "tegra") && q.flags == PEERDMA_PIN_DEVICE);
	v = view(fd, a.handle, PAGE, PROT_READ | PROT_WRITE);
	CHECK(v != MAP_FAILED);
	v[0] = 42;
	CHECK(p[PAGE] == 42);
	munmap(v, PAGE);
	WORKS(unpin(fd, a.handle));
	/* Host memory as such, if that is what is asked for. */
	WORKS(pin(fd, p, PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(unpin(fd, a.handle));
	FAILS(EOPNOTSUPP, pin(fd, p, PAGE, PEERDMA_PIN_PERSISTENT, &a));
	FAILS(ENXIO, pin(fd, p, LENGTH + PAGE, PEERDMA_PIN_DEVICE, &a));
	FAILS(ENXIO, pin(fd, &a, sizeof(a), PEERDMA_PIN_DEVICE, &a));
	CHECK(!cuMemFreeHost(p));
	FAILS(ENXIO, pin(fd, p, PAGE, PEERDMA_PIN_DEVICE, &a));
	close(fd);
}

static void transfer_and_free(void)
{
	struct peerdma_segment segs[LENGTH / PAGE];
	uint32_t count = LENGTH / PAGE, mapping;
	struct peerdma_query_args q;
	struct peerdma_event event;
	struct peerdma_pin_args a;
	char *p = alloc(), *v;
	int fd = dev_open();
	const volatile uint32_t *gen = generations(fd);

	WORKS(pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a));
	WORKS(card_map(fd, a.handle, BOTH, segs, &count, &mapping));
	p[3] = 99;
	card_copy(segs[0].dma_addr, segs[0].dma_addr + 2048, 16);
	CHECK(p[2048 + 3] == 99);
	v = view(fd, a.handle, LENGTH, PROT_READ);
	CHECK(v != MAP_FAILED && v[3] == 99);
	CHECK(gen[a.slot] == a.generation);
	CHECK(!cuMemFreeHost(p));
	CHECK(gen[a.slot] != a.generation);
	CHECK(signal_of_read(v) == 7);
	CHECK(read(fd, &event, sizeof(event)) == sizeof(event) && event.handle == a.handle);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED && q.mappings == 0);
	CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
	WORKS(unpin(fd, a.handle));
	close(fd);
}

/* In the hands of importers that let go, and those that cannot. */
static void importers(void)
{
	struct importer_state s;
	struct importer_map m;
	struct peerdma_pin_args a;

	for (uint32_t kind = IMPORTER_STATIC; kind <= IMPORTER_DYNAMIC; kind++) {
		int fd = dev_open(), im = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC), dmabuf;
		struct importer_attach at = { .kind = kind };
		char *p = alloc();

		WORKS(pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a));
		dmabuf = export(fd, a.handle, PAGE, 2 * PAGE);
		at.fd = dmabuf;
		if (kind == IMPORTER_STATIC) {
			FAILS(EOPNOTSUPP, ioctl(im, IMPORTER_ATTACH, &at));
		} else {
			WORKS(ioctl(im, IMPORTER_ATTACH, &at));
			m = (struct importer_map) { 0 };
			WORKS(ioctl(im, IMPORTER_MAP, &m));
			CHECK(m.length == 2 * PAGE);
			CHECK(!cuMemFreeHost(p));
			WORKS(ioctl(im, IMPORTER_STATE, &s));
			CHECK(s.notified == 1);
			CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
			p = NULL;
		}
		close(im);
		close(dmabuf);
		close(fd);
		if (p)
			CHECK(!cuMemFreeHost(p));
	}
}

static void *free_it(void *p)
{
	cuCtxSetCurrent(context);
	cuMemFreeHost(p);
	return NULL;
}

/* Free against pin, map, unpin and close, in another thread: one of the two ends the pin. */
static void races(void)
{
	for (int i = 0; i < 200; i++) {
		struct peerdma_segment segs[LENGTH / PAGE];
		uint32_t count = LENGTH / PAGE, mapping;
		struct peerdma_pin_args a;
		char *p = alloc();
		int fd = dev_open();
		pthread_t thread;

		CHECK(!pthread_create(&thread, NULL, free_it, p));
		if (!pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a)) {
			if (card_map(fd, a.handle, BOTH, segs, &count, &mapping))
				CHECK(errno == ESTALE || errno == EOPNOTSUPP);
			if (i % 2)
				WORKS(unpin(fd, a.handle));
		} else {
			CHECK(errno == ENXIO || errno == ESTALE);
		}
		close(fd);
		pthread_join(thread, NULL);
	}
}

static void set(const char *name, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/module/nvidia_p2p/parameters/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, value, strlen(value)) > 0);
	close(fd);
}

/* A driver that is another than this was built for. */
static void wrong_answers(void)
{
	static const struct {
		const char *name, *value;
	} wrong[] = {
		{ "table_version", "0x00030000" }, { "page_size", "1" }, { "page_size", "7" },
	};
	char *p = alloc();
	int fd = dev_open();

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct peerdma_pin_args a;

		set(wrong[i].name, wrong[i].value);
		FAILS(EOPNOTSUPP, pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a));
		CHECK(live_pins(fd) == 0);
		set(wrong[i].name, "0");
		WORKS(pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a));
		WORKS(unpin(fd, a.handle));
	}
	close(fd);
	CHECK(!cuMemFreeHost(p));
}

int main(void)
{
	CUdevice device;
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(!cuInit(0) && !cuDeviceGet(&device, 0) && !cuCtxCreate(&context, 0, device));
	CHECK(card_open());
	run("Tegra: facts of a pin", facts);
	run("Tegra: DMA, and memory freed under a mapping and a view", transfer_and_free);
	run("Tegra: dma-buf importers", importers);
	run("Tegra: tables that make no sense", wrong_answers);
	run("Tegra: free against all that is done with a pin", races);
	fd = dev_open();
	CHECK(live_pins(fd) == 0);
	close(fd);
	CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
	cuCtxDestroy(context);
	printf("%s\n", failures ? "FAILED" : "all passed");
	return failures ? 1 : 0;
}
