// SPDX-License-Identifier: MIT
/* tegra_bridge.c - the bridge over a Tegra's nvidia_p2p that answers what makes no sense. */
#include <fcntl.h>
#include <unistd.h>

#include <cuda.h>

#include "peerdma_test.h"

#define LENGTH (16 * PAGE)

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
	void *p = NULL;
	int fd = dev_open();

	CHECK(!cuMemHostAlloc(&p, LENGTH, 0));
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
	CUcontext context = NULL;
	CUdevice device;
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(!cuInit(0) && !cuDeviceGet(&device, 0) && !cuCtxCreate(&context, 0, device));
	run("Tegra: tables that make no sense", wrong_answers);
	fd = dev_open();
	CHECK(live_pins(fd) == 0);
	close(fd);
	cuCtxDestroy(context);
	printf("%s\n", failures ? "FAILED" : "all passed");
	return failures ? 1 : 0;
}
