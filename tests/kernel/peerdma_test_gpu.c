// SPDX-License-Identifier: MIT
/* peerdma_test_gpu.c - pins of GPU memory, and what becomes of them when it is freed. */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

#define BOTH (PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE)
#define MIB (1UL << 20)

static void life(void)
{
	const uint64_t page = 1ULL << gpu_facts->page_shift;
	uint64_t va = gpu_alloc(2 * MIB);
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	char value[4096];
	int fd = dev_open();

	WORKS(pin_va(fd, va + 100, GPU_PAGE, PEERDMA_PIN_DEVICE, &a));
	CHECK(a.page_shift == gpu_facts->page_shift && a.offset == 100 && a.pinned_length == GPU_PAGE + page);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.flags == PEERDMA_PIN_DEVICE && !strcmp(q.provider, gpu_facts->provider));
	CHECK(debugfs_field(a.handle, "provider", value, sizeof(value)) && !strcmp(value, gpu_facts->provider));
	CHECK(debugfs_field(a.handle, "first_phys", value, sizeof(value)) &&
	      strtoull(value, NULL, 0) % page == 0 && strtoull(value, NULL, 0));
	WORKS(unpin(fd, a.handle));
	/* No flags: whoever knows the address. */
	WORKS(pin_va(fd, va, 2 * MIB, 0, &a));
	WORKS(query(fd, a.handle, &q));
	CHECK(q.flags == PEERDMA_PIN_DEVICE);
	WORKS(unpin(fd, a.handle));

	/* Where the provider's pages are small, an allocation ends with its last one. */
	if (page == PAGE) {
		uint64_t small = gpu_alloc(3 * PAGE);

		WORKS(pin_va(fd, small, 3 * PAGE, PEERDMA_PIN_DEVICE, &a));
		WORKS(unpin(fd, a.handle));
		FAILS(ENXIO, pin_va(fd, small, 3 * PAGE + 1, PEERDMA_PIN_DEVICE, &a));
		CHECK(!cu.MemFree(small));
	}

	/* Not one allocation, not the host's, not the GPU's, not there any more. */
	FAILS(ENXIO, pin_va(fd, va, 1UL << 32, PEERDMA_PIN_DEVICE, &a));
	FAILS(EFAULT, pin_va(fd, va, MIB, PEERDMA_PIN_HOST, &a));
	FAILS(ENXIO, pin(fd, &a, sizeof(a), PEERDMA_PIN_DEVICE, &a));
	FAILS(EINVAL, pin_va(fd, UINT64_MAX - PAGE, 100, PEERDMA_PIN_DEVICE, &a));
	CHECK(!cu.MemFree(va));
	FAILS(ENXIO, pin_va(fd, va, MIB, PEERDMA_PIN_DEVICE, &a));
	FAILS(ENXIO, pin_va(fd, va, MIB, PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT, &a));
	CHECK(live_pins(fd) == 0);
	close(fd);
}

static void cpu_view(void)
{
	size_t length = 8 * MIB;
	char *there = host_memory(length), *back = host_memory(length), *p;
	uint64_t va = gpu_alloc(length);
	struct peerdma_pin_args a;
	int fd = dev_open();
	long long faults;

	for (size_t i = 0; i < length; i++)
		there[i] = (char)(i * 13 + i / 4096);
	CHECK(!cu.MemcpyHtoD(va, there, length) && !cu.CtxSynchronize());
	WORKS(pin_va(fd, va, length, PEERDMA_PIN_DEVICE, &a));
	p = view(fd, a.handle, length, PROT_READ | PROT_WRITE);
	CHECK(p != MAP_FAILED);
	faults = debugfs_stat("faults");
	CHECK(!memcmp(p, there, length));
	/* 2 MiB at a time, whatever the entries are. */
	faults = debugfs_stat("faults") - faults;
	CHECK(faults >= 4 && faults <= 5);

	memset(p, 0x31, MIB);
	memset(p + 7 * MIB, 0x32, MIB);
	__sync_synchronize();
	CHECK(!cu.MemcpyDtoH(back, va, length));
	CHECK(back[0] == 0x31 && back[MIB - 1] == 0x31 && back[MIB] == there[MIB]);
	CHECK(back[7 * MIB] == 0x32 && back[length - 1] == 0x32);

	munmap(p, length);
	close(fd);
	CHECK(!cu.MemFree(va));
	munmap(there, length);
	munmap(back, length);
}

static int events(int fd, struct peerdma_event *event)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	struct peerdma_event two[2];
	int n = poll(&poll_fd, 1, 0);
	ssize_t got = read(fd, two, sizeof(two));

	CHECK(n == (got > 0));
	if (got > 0)
		*event = two[0];
	return got > 0 ? got / (ssize_t)sizeof(two[0]) : 0;
}

static void revoked(void)
{
	uint64_t va = gpu_alloc(4 * MIB);
	struct peerdma_segment segs[64];
	struct peerdma_event event;
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	uint32_t count = 64, mapping = 0;
	int fd = dev_open(), dmabuf;
	const volatile uint32_t *gen = generations(fd);
	char *p, *second, *of_dmabuf, value[64];
	bool card = card_open();

	WORKS(pin_va(fd, va, 4 * MIB, PEERDMA_PIN_DEVICE, &a));
	p = view(fd, a.handle, 4 * MIB, PROT_READ | PROT_WRITE);
	second = view(fd, a.handle, MIB, PROT_READ);
	dmabuf = export(fd, a.handle, MIB, MIB);
	of_dmabuf = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	CHECK(p != MAP_FAILED && second != MAP_FAILED && of_dmabuf != MAP_FAILED);
	p[0] = p[2 * MIB] = 1;
	of_dmabuf[0] = 77;
	CHECK(second[0] == 1 && p[MIB] == 77);
	if (card) {
		WORKS(card_map(fd, a.handle, BOTH, segs, &count, &mapping));
		WORKS(query(fd, a.handle, &q));
		CHECK(q.mappings == 1 && q.cpu_views == 3 && q.exports == 1);
	}
	CHECK(events(fd, &event) == 0 && gen[a.slot] == a.generation);

	CHECK(!cu.MemFree(va));

	CHECK(gen[a.slot] != a.generation);
	CHECK(signal_of_read(p) == SIGBUS && signal_of_write(p + 2 * MIB, 1) == SIGBUS);
	CHECK(signal_of_read(p + 3 * MIB) == SIGBUS);
	CHECK(signal_of_read(second) == SIGBUS && signal_of_write(of_dmabuf, 1) == SIGBUS);
	CHECK(events(fd, &event) == 1);
	CHECK(event.type == PEERDMA_EVENT_REVOKED && event.handle == a.handle &&
	      event.slot == a.slot && event.generation == a.generation && event.addr == va &&
	      event.length == 4 * MIB);
	CHECK(events(fd, &event) == 0);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED && q.mappings == 0 && q.exports == 1);
	CHECK(debugfs_field(a.handle, "state", value, sizeof(value)) && !strcmp(value, "revoked"));
	FAILS(ESTALE, export(fd, a.handle, 0, 0));
	CHECK(view(fd, a.handle, MIB, PROT_READ) == MAP_FAILED && errno == ESTALE);
	CHECK(mmap(NULL, MIB, PROT_READ, MAP_SHARED, dmabuf, 0) == MAP_FAILED && errno == ESTALE);
	if (card) {
		count = 64;
		FAILS(ESTALE, card_map(fd, a.handle, BOTH, segs, &count, &count));
		/* The mapping's handle stays taken, too. */
		WORKS(unmap(fd, mapping));
		FAILS(ENOENT, unmap(fd, mapping));
	}
	WORKS(unpin(fd, a.handle));
	FAILS(ENOENT, unpin(fd, a.handle));
	munmap(p, 4 * MIB);
	munmap(second, MIB);
	munmap(of_dmabuf, MIB);
	munmap((void *)gen, PEERDMA_MMAP_GENERATIONS_SIZE);
	close(dmabuf);
	close(fd);
}

static void event_order(void)
{
	struct peerdma_pin_args a[5];
	struct peerdma_event event[5];
	uint64_t va[5];
	int fd = dev_open();

	for (int i = 0; i < 5; i++) {
		va[i] = gpu_alloc(MIB);
		WORKS(pin_va(fd, va[i], MIB, PEERDMA_PIN_DEVICE, &a[i]));
	}
	for (int i = 4; i >= 0; i--)
		CHECK(!cu.MemFree(va[i]));
	/* Unpinned unread: its event goes with it. */
	WORKS(unpin(fd, a[3].handle));
	CHECK(read(fd, event, 2 * sizeof(*event) + 7) == 2 * sizeof(*event));
	CHECK(event[0].handle == a[4].handle && event[1].handle == a[2].handle);
	/* Not lost when it cannot be delivered. */
	FAILS(EFAULT, read(fd, (void *)PAGE, sizeof(*event)));
	CHECK(read(fd, event, sizeof(event)) == 2 * sizeof(*event));
	CHECK(event[0].handle == a[1].handle && event[1].handle == a[0].handle);
	FAILS(EAGAIN, read(fd, event, sizeof(event)));
	close(fd);
	fd = dev_open();
	CHECK(live_pins(fd) == 0);
	close(fd);
}

static void context_ends(void)
{
	struct peerdma_pin_args a, b;
	struct peerdma_event event;
	int fd = dev_open(), dev;
	uint64_t va;
	void *ctx = NULL;

	CHECK(!cu.DeviceGet(&dev, 0) && !cu.CtxCreate(&ctx, 0, dev));
	va = gpu_alloc(MIB);
	WORKS(pin_va(fd, va, MIB, PEERDMA_PIN_DEVICE, &a));
	WORKS(pin_va(fd, va, GPU_PAGE, PEERDMA_PIN_DEVICE, &b));
	CHECK(!cu.CtxDestroy(ctx));
	CHECK(events(fd, &event) == 2);
	/* The other order: the pin ends, then the memory. */
	close(fd);
	fd = dev_open();
	CHECK(live_pins(fd) == 0);
	va = gpu_alloc(MIB);
	WORKS(pin_va(fd, va, MIB, PEERDMA_PIN_DEVICE, &a));
	close(fd);
	CHECK(!cu.MemFree(va));
}

static void persistent(void)
{
	uint64_t va = gpu_alloc(2 * MIB);
	struct peerdma_segment segs[64];
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	struct peerdma_event event;
	uint32_t count = 64, mapping;
	int fd = dev_open();
	char *p;

	WORKS(pin_va(fd, va, 2 * MIB, PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT, &a));
	p = view(fd, a.handle, 2 * MIB, PROT_READ | PROT_WRITE);
	p[5] = 55;
	CHECK(!cu.MemFree(va));
	CHECK(events(fd, &event) == 0);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_LIVE &&
	      q.flags == (PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT));
	CHECK(signal_of_read(p) == 0 && p[5] == 55);
	if (card_open()) {
		WORKS(card_map(fd, a.handle, BOTH, segs, &count, &mapping));
		CHECK(mapping);
	}
	WORKS(unpin(fd, a.handle));
	CHECK(signal_of_read(p) == SIGBUS);
	munmap(p, 2 * MIB);
	close(fd);
}

static void card_to_gpu(void)
{
	uint64_t va_a = gpu_alloc(MIB), va_b = gpu_alloc(MIB);
	struct peerdma_segment from[16], to[16];
	char *there = host_memory(MIB), *back = host_memory(MIB);
	struct peerdma_pin_args a, b;
	uint32_t na = 16, nb = 16, m;
	int fd = dev_open();

	if (!card_open()) {
		close(fd);
		return;
	}
	for (size_t i = 0; i < MIB; i++)
		there[i] = (char)(i * 31 + 7);
	CHECK(!cu.MemcpyHtoD(va_a, there, MIB) && !cu.CtxSynchronize());
	WORKS(pin_va(fd, va_a, MIB, PEERDMA_PIN_DEVICE, &a));
	WORKS(pin_va(fd, va_b, MIB, PEERDMA_PIN_DEVICE | (gpu_facts->can_persist ? PEERDMA_PIN_PERSISTENT : 0), &b));
	WORKS(card_map(fd, a.handle, BOTH, from, &na, &m));
	WORKS(card_map(fd, b.handle, BOTH, to, &nb, &m));
	CHECK(na >= 1 && nb >= 1 && from[0].length >= GPU_PAGE && to[0].length >= GPU_PAGE);
	card_copy(from[0].dma_addr + 4096, to[0].dma_addr + 8192, 4092);
	CHECK(!cu.MemcpyDtoH(back, va_b, MIB));
	CHECK(!memcmp(back + 8192, there + 4096, 4092));
	close(fd);
	CHECK(!cu.MemFree(va_a) && !cu.MemFree(va_b));
	munmap(there, MIB);
	munmap(back, MIB);
}

bool test_gpu(void)
{
	const char *why;

	if (!cuda_open(&why)) {
		skip("GPU memory", why);
		return false;
	}
	run("GPU: pin and unpin", life);
	run("GPU: CPU view", cpu_view);
	run("GPU: memory freed under views, a mapping and a dma-buf", revoked);
	run("GPU: events", event_order);
	if (gpu_facts->has_contexts)
		run("GPU: context destroyed, close before free", context_ends);
	if (gpu_facts->can_persist)
		run("GPU: persistent pin", persistent);
	run("GPU: DMA from GPU memory to GPU memory", card_to_gpu);
	test_gpu_processes();
	return true;
}
