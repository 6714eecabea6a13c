// SPDX-License-Identifier: MIT
/* tegra_bridge.c - the bridge over a Tegra's nvidia_p2p that answers what makes no sense, or late. */
#include <sched.h>

#include <cuda.h>

#include "peerdma_test_card.h"
#include "tegra/tegra_test.h"

#define LENGTH (16 * PAGE)
#define OTHERS 32

/* Memory of cudaHostAlloc, and its pointer for devices: where the GPU cannot use the host's, another. */
static uint64_t alloc(size_t length, unsigned int flags, void **p)
{
	CUdeviceptr device = 0;

	CHECK(!cuMemHostAlloc(p, length, flags) && !cuMemHostGetDevicePointer(&device, *p, 0));
	return device;
}

static void set(const char *name, const char *value)
{
	CHECK(module_set("nvidia_p2p", name, value));
}

static void slow_callbacks(const char *ms)
{
	CHECK(softgpu_chaos("callback_delay_ms", ms));
}

static int map(int fd, uint32_t handle)
{
	struct peerdma_segment segs[LENGTH / PAGE];
	struct peerdma_map_args m = {
		.size = sizeof(m), .handle = handle, .flags = PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE,
		.segment_count = LENGTH / PAGE, .segments = (uintptr_t)segs,
	};

	CHECK(find_cards(&m, 1));
	return ioctl(fd, PEERDMA_MAP, &m);
}

/* The device's pointer and the host's are a device's memory, and the host's is the host's, too. */
static void which_pointer(void)
{
	static const unsigned int flags[] = { 0, CU_MEMHOSTALLOC_WRITECOMBINED };
	int fd = dev_open(), same = -1;

	CHECK(!cuDeviceGetAttribute(&same, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0));
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct peerdma_pin_args a;
		void *p = NULL;
		uint64_t va = alloc(LENGTH, flags[i], &p);

		CHECK(same == (va == (uintptr_t)p));
		WORKS(pin_va(fd, va, LENGTH, 0, &a));
		WORKS(map(fd, a.handle));
		CHECK(debugfs_is(a.handle, "provider", "tegra"));
		WORKS(unpin(fd, a.handle));
		WORKS(pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a));
		WORKS(unpin(fd, a.handle));
		FAILS(same ? 0 : EFAULT, pin_va(fd, va, LENGTH, PEERDMA_PIN_HOST, &a));
		if (same)
			WORKS(unpin(fd, a.handle));
		WORKS(pin(fd, p, LENGTH, PEERDMA_PIN_HOST, &a));
		WORKS(unpin(fd, a.handle));
		CHECK(!cuMemFreeHost(p));
	}
	CHECK(live_pins(fd) == 0);
	close(fd);
}

/*
 * A CPU view is of the type that the memory was allocated with; of another one, the driver
 * maps it for no device.  Where the host's pointer is another, the bridge cannot tell.
 */
static void memory_types(void)
{
	static const unsigned int flags[] = { 0, CU_MEMHOSTALLOC_WRITECOMBINED };
	int fd = dev_open(), other = open("/dev/tegra_test", O_RDWR | O_CLOEXEC);

	CHECK(other >= 0);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct peerdma_pin_args a;
		void *p = NULL, *wrong;
		uint64_t va = alloc(LENGTH, flags[i], &p);
		struct tegra_get g = { .vaddr = va, .size = LENGTH };
		char *v;

		WORKS(pin_va(fd, va, LENGTH, PEERDMA_PIN_DEVICE, &a));
		v = view(fd, a.handle, LENGTH, PROT_READ | PROT_WRITE);
		CHECK(v != MAP_FAILED);
		v[PAGE] = 42;
		FAILS(flags[i] && va != (uintptr_t)p ? EIO : 0, map(fd, a.handle));
		CHECK(((char *)p)[PAGE] == 42);
		munmap(v, LENGTH);

		CHECK(!ioctl(other, TEGRA_GET, &g));
		wrong = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, other, flags[i] ? 0 : PAGE);
		CHECK(wrong != MAP_FAILED);
		FAILS(EIO, map(fd, a.handle));
		munmap(wrong, LENGTH);
		WORKS(map(fd, a.handle));
		CHECK(!ioctl(other, TEGRA_PUT));
		WORKS(unpin(fd, a.handle));
		CHECK(!cuMemFreeHost(p));
	}
	close(other);
	close(fd);
}

/* A driver that is another than this was built for. */
static void wrong_answers(void)
{
	static const struct {
		const char *name, *value;
		bool mapping;		/* it is this that makes no sense, not the table */
	} wrong[] = {
		{ "table_version", "0x00030000", false }, { "page_size", "1", false }, { "page_size", "7", false },
		{ "short_table", "1", false }, { "mapping_version", "0x00030000", true }, { "short_mapping", "1", true },
	};
	void *p = NULL;
	uint64_t va = alloc(LENGTH, 0, &p);
	int fd = dev_open();

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int refused = wrong[i].mapping ? 0 : EOPNOTSUPP;
		struct peerdma_pin_args a;

		set(wrong[i].name, wrong[i].value);
		FAILS(refused, pin_va(fd, va, LENGTH, PEERDMA_PIN_DEVICE, &a));
		CHECK(live_pins(fd) == (refused ? 0 : 1));
		if (!refused) {
			FAILS(EOPNOTSUPP, map(fd, a.handle));
			WORKS(unpin(fd, a.handle));
		}
		set(wrong[i].name, "0");
		WORKS(pin_va(fd, va, LENGTH, PEERDMA_PIN_DEVICE, &a));
		WORKS(map(fd, a.handle));
		WORKS(unpin(fd, a.handle));
	}
	close(fd);
	CHECK(!cuMemFreeHost(p));
}

/* Another driver's pins of one page each, from where the last one left off. */
static void others_get(int others[OTHERS], uint64_t va)
{
	struct tegra_get g = { .vaddr = va, .size = PAGE };

	for (int i = 0; i < OTHERS; i++) {
		others[i] = open("/dev/tegra_test", O_RDWR | O_CLOEXEC);
		CHECK(others[i] >= 0 && !ioctl(others[i], TEGRA_GET, &g));
	}
}

static void others_end(const int others[OTHERS])
{
	for (int i = 0; i < OTHERS; i++) {
		struct tegra_state s = { .callbacks = 1 };

		/* Only this has ended it. */
		CHECK(!ioctl(others[i], TEGRA_STATE, &s) && !s.callbacks);
		close(others[i]);
	}
}

/*
 * A pin is given back by the address of its table.  While that is on its way the memory
 * is freed, and other drivers pin: none of them has that address, or it would be their
 * pin that ends.  On one CPU, as its allocator gives out first what came back last.
 */
static void put_of_a_freed_table(void)
{
	int fd = dev_open();
	struct unpinner u;
	cpu_set_t before, one;
	void *p = NULL, *memory = NULL;
	uint64_t va, others_va;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	CHECK(!sched_getaffinity(0, sizeof(before), &before) && !sched_setaffinity(0, sizeof(one), &one));
	others_va = alloc(PAGE, 0, &memory);
	set("put_delay_ms", "300");
	for (int i = 0; i < 3; i++) {
		struct peerdma_query_args q;
		struct peerdma_pin_args a;
		int others[OTHERS];

		va = alloc(LENGTH, 0, &p);
		WORKS(pin_va(fd, va, LENGTH, PEERDMA_PIN_DEVICE, &a));
		unpin_begin(&u, fd, a.handle);
		while (!query(fd, a.handle, &q))
			sched_yield();
		/* It is on its way to the driver, or there already: both must do. */
		usleep(50000);
		CHECK(!cuMemFreeHost(p));
		others_get(others, others_va);
		CHECK(!unpin_end(&u));
		set("put_delay_ms", "0");
		others_end(others);
		set("put_delay_ms", "300");
	}
	set("put_delay_ms", "0");
	CHECK(!cuMemFreeHost(memory));
	CHECK(!sched_setaffinity(0, sizeof(before), &before));
	close(fd);
}

struct pinner {
	struct task task;
	int fd;
	uint64_t va;
	struct peerdma_pin_args pin;
	int error;
};

static void pin_it(void *arg)
{
	struct pinner *p = arg;

	p->error = pin_va(p->fd, p->va, LENGTH, PEERDMA_PIN_DEVICE, &p->pin) ? errno : 0;
}

/*
 * The free ends while the driver has the pages and has not answered yet.  The pin must not
 * be live afterwards, not even until its callback: that is slow here.
 */
static void freed_during_a_pin(void)
{
	int fd = dev_open();
	struct pinner pinner = { .fd = fd };
	void *p = NULL;

	pinner.va = alloc(LENGTH, 0, &p);
	set("get_delay_ms", "500");
	slow_callbacks("500");
	task_begin(&pinner.task, pin_it, &pinner);
	usleep(200000);
	CHECK(!cuMemFreeHost(p));
	task_end(&pinner.task);
	set("get_delay_ms", "0");
	slow_callbacks("0");
	CHECK(pinner.error == ESTALE);
	CHECK(live_pins(fd) == 0);
	close(fd);
}

int main(void)
{
	CUcontext context = NULL;
	CUdevice device;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(!cuInit(0) && !cuDeviceGet(&device, 0) && !cuCtxCreate(&context, 0, device));
	run("Tegra: the host's pointers and the device's", which_pointer);
	run("Tegra: CPU views of the memory's type", memory_types);
	run("Tegra: answers that make no sense", wrong_answers);
	run("Tegra: memory freed while its pin is given back", put_of_a_freed_table);
	run("Tegra: memory freed while it is pinned", freed_during_a_pin);
	check_none_left();
	cuCtxDestroy(context);
	return check_end("the bridge on a Tegra");
}
