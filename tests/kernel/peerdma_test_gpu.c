// SPDX-License-Identifier: MIT
/* peerdma_test_gpu.c - pins of GPU memory, and what becomes of them when it is freed. */
#include <poll.h>

#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

/* Of memory whose pages are each somewhere. */
#define SEGMENTS 1024

static void life(void)
{
	const unsigned int page_shift = gpu_facts->page_shift ? gpu_facts->page_shift : PAGE_SHIFT;
	const uint64_t page = 1ULL << page_shift;
	uint64_t va = gpu_alloc(2 * MIB);
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	char value[4096];
	int fd = dev_open();

	WORKS(gpu_pin(fd, va + 100, GPU_PAGE, 0, &a));
	CHECK(a.page_shift == page_shift && a.offset == 100 && a.pinned_length == GPU_PAGE + page);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.flags == gpu_facts->kind && !strcmp(q.provider, gpu_facts->provider));
	CHECK(debugfs_field(a.handle, "provider", value, sizeof(value)) && !strcmp(value, gpu_facts->provider));
	CHECK(!gpu_facts->has_address || (debugfs_field(a.handle, "first_phys", value, sizeof(value)) &&
	      strtoull(value, NULL, 0) % page == 0 && strtoull(value, NULL, 0)));
	WORKS(unpin(fd, a.handle));
	/* No flags: the provider that knows the address. */
	if (gpu_facts->has_address) {
		WORKS(pin_va(fd, va, 2 * MIB, 0, &a));
		WORKS(query(fd, a.handle, &q));
		CHECK(q.flags == gpu_facts->kind && !strcmp(q.provider, gpu_facts->provider));
		WORKS(unpin(fd, a.handle));
		FAILS(EINVAL, gpu_pin(fd, UINT64_MAX - PAGE, 100, 0, &a));
	}

	/* Where the provider's pages are small, an allocation ends with its last one. */
	if (page == PAGE && gpu_facts->pins != STAY && !gpu_facts->any_memory) {
		uint64_t small = gpu_alloc(3 * PAGE);

		WORKS(gpu_pin(fd, small, 3 * PAGE, 0, &a));
		WORKS(unpin(fd, a.handle));
		FAILS(ENXIO, gpu_pin(fd, small, 3 * PAGE + 1, 0, &a));
		CHECK(!cu.MemFree(small));
	}

	/* Not one allocation, not the host's, not the GPU's, not there any more. */
	FAILS(gpu_facts->too_long, gpu_pin(fd, va, 1UL << 32, 0, &a));
	if (!(gpu_facts->kind & PEERDMA_PIN_HOST))
		FAILS(ENXIO, gpu_pin(fd, va, 1UL << 44, 0, &a));
	if (!gpu_facts->in_host)
		FAILS(EFAULT, pin_va(fd, va, MIB, PEERDMA_PIN_HOST, &a));
	if (!gpu_facts->any_memory)
		FAILS(ENXIO, pin(fd, &a, sizeof(a), PEERDMA_PIN_DEVICE, &a));
	CHECK(!cu.MemFree(va));
	FAILS(gpu_facts->gone, gpu_pin(fd, va, MIB, 0, &a));
	if (!gpu_facts->gone)
		WORKS(unpin(fd, a.handle));
	if (gpu_facts->can_persist)
		FAILS(ENXIO, gpu_pin(fd, va, MIB, PEERDMA_PIN_PERSISTENT, &a));
	else
		CHECK(gpu_pin(fd, va, MIB, PEERDMA_PIN_PERSISTENT, &a) < 0);
	CHECK(live_pins(fd) == 0);
	close(fd);
}

static void cpu_view(void)
{
	const size_t length = 8 * MIB, table = PAGE / sizeof(uint64_t) * PAGE;
	const long long at_least = (length + table - 1) / table;
	char *there = host_memory(length), *back = host_memory(length), *p;
	uint64_t va = gpu_alloc(length);
	struct peerdma_pin_args a;
	int fd = dev_open();
	long long faults;

	for (size_t i = 0; i < length; i++)
		there[i] = (char)(i * 13 + i / 4096);
	CHECK(!cu.MemcpyHtoD(va, there, length) && !cu.CtxSynchronize());
	WORKS(gpu_pin(fd, va, length, 0, &a));
	p = view(fd, a.handle, length, PROT_READ | PROT_WRITE);
	CHECK(p != MAP_FAILED);
	faults = debugfs_stat("faults");
	CHECK(!memcmp(p, there, length));
	/* What a table of the CPU's covers at a time, 2 MiB with pages of 4 KiB. */
	faults = debugfs_stat("faults") - faults;
	CHECK(faults >= at_least && faults <= at_least + 1);

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

/* How many ranges the processor's memory types are reserved for; -1: this kernel does not tell. */
static int reserved_ranges(void)
{
	FILE *file = fopen("/sys/kernel/debug/x86/pat_memtype_list", "r");
	char line[256];
	int n = 0;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		n++;
	fclose(file);
	return n;
}

/*
 * Views of every range of an allocation's pages: the kernel has one tree of reservations for all users.  Where a kernel warns of
 * so many pins of a page, since a provider maps each for its GPU: of one page only.
 */
static void overlapping_views(void)
{
	enum { PAGES = 12, VIEWS = PAGES * (PAGES + 1) / 2 };
	const int views = (int)times_mapped(VIEWS), pages = views == VIEWS ? PAGES : 1;
	uint64_t va = gpu_alloc(PAGES * GPU_PAGE), lengths[VIEWS];
	int fd = dev_open(), before = reserved_ranges(), begin = 0, end = 1, added;
	struct peerdma_pin_args a;
	uint32_t handles[VIEWS];
	char *shown[VIEWS];

	for (int i = 0; i < views; i++) {
		WORKS(gpu_pin(fd, va + begin * GPU_PAGE, (end - begin) * GPU_PAGE, 0, &a));
		handles[i] = a.handle;
		lengths[i] = a.pinned_length;
		shown[i] = view(fd, a.handle, a.pinned_length, PROT_READ | PROT_WRITE);
		CHECK(shown[i] != MAP_FAILED);
		if (++end > pages)
			end = (begin = (begin + 1) % pages) + 1;
	}
	shown[0][0] = 12;
	CHECK(shown[1][0] == 12);
	added = reserved_ranges() - before;
	/* Blocks of 2^n pages, each once: fewer than two for each page. */
	CHECK(before < 0 || (added < 2 * pages && (added > 0 || gpu_facts->in_host)));
	/* What is left needs what it shares with what ended. */
	for (int i = 1; i < views; i++)
		WORKS(unpin(fd, handles[i]));
	CHECK(before < 0 || gpu_facts->in_host || reserved_ranges() == before + 1);
	CHECK(shown[0][0] == 12 && signal_of_read(shown[1]) == SIGBUS);
	for (int i = 0; i < views; i++)
		munmap(shown[i], lengths[i]);
	close(fd);
	CHECK(before < 0 || reserved_ranges() == before);
	CHECK(!cu.MemFree(va));
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

/* What a pin that may lose its memory has, and what it has not. */
struct made {
	char *view, *second, *of_dmabuf;
	int dmabuf;
	uint32_t mapping;	/* 0: no card */
};

static void make_all(int fd, const struct peerdma_pin_args *a, struct made *m)
{
	struct peerdma_segment segs[SEGMENTS];
	struct peerdma_query_args q;
	uint32_t count = SEGMENTS;

	*m = (struct made){ .dmabuf = -1 };
	if (gpu_facts->has_view) {
		m->view = view(fd, a->handle, 4 * MIB, PROT_READ | PROT_WRITE);
		m->second = view(fd, a->handle, MIB, PROT_READ);
		m->dmabuf = export(fd, a->handle, MIB, MIB);
		m->of_dmabuf = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, m->dmabuf, 0);
		CHECK(m->view != MAP_FAILED && m->second != MAP_FAILED && m->of_dmabuf != MAP_FAILED);
		m->view[0] = m->view[2 * MIB] = 1;
		m->of_dmabuf[0] = 77;
		CHECK(m->second[0] == 1 && m->view[MIB] == 77);
	} else {
		CHECK(view(fd, a->handle, MIB, PROT_READ) == MAP_FAILED && errno == EOPNOTSUPP);
		FAILS(EOPNOTSUPP, export(fd, a->handle, 0, 0));
	}
	if (!card_open())
		return;
	WORKS(card_map(fd, a->handle, BOTH, segs, &count, &m->mapping));
	WORKS(query(fd, a->handle, &q));
	CHECK(q.mappings == 1 && q.cpu_views == (gpu_facts->has_view ? 3 : 0) && q.exports == gpu_facts->has_view);
}

static void unmake(struct made *m)
{
	if (!gpu_facts->has_view)
		return;
	munmap(m->view, 4 * MIB);
	munmap(m->second, MIB);
	munmap(m->of_dmabuf, MIB);
	close(m->dmabuf);
}

/* Nothing that was made leads anywhere, and nothing new is to be had. */
static void check_over(int fd, const struct peerdma_pin_args *a, const struct made *m)
{
	struct peerdma_segment segs[SEGMENTS];
	struct peerdma_query_args q;
	uint32_t count = SEGMENTS;

	WORKS(query(fd, a->handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED && q.mappings == 0 && q.exports == gpu_facts->has_view);
	CHECK(debugfs_is(a->handle, "state", "revoked"));
	if (gpu_facts->has_view) {
		CHECK(signal_of_read(m->view) == SIGBUS && signal_of_write(m->view + 2 * MIB, 1) == SIGBUS);
		CHECK(signal_of_read(m->view + 3 * MIB) == SIGBUS);
		CHECK(signal_of_read(m->second) == SIGBUS && signal_of_write(m->of_dmabuf, 1) == SIGBUS);
		FAILS(ESTALE, export(fd, a->handle, 0, 0));
		CHECK(view(fd, a->handle, MIB, PROT_READ) == MAP_FAILED && errno == ESTALE);
		CHECK(mmap(NULL, MIB, PROT_READ, MAP_SHARED, m->dmabuf, 0) == MAP_FAILED && errno == ESTALE);
	}
	if (m->mapping) {
		FAILS(ESTALE, card_map(fd, a->handle, BOTH, segs, &count, &count));
		/* The mapping's handle stays taken, too. */
		WORKS(unmap(fd, m->mapping));
		FAILS(ENOENT, unmap(fd, m->mapping));
	}
}

/* The memory is the pin's, whatever became of the program's own way to it. */
static void check_stays(int fd, const struct peerdma_pin_args *a, const struct made *m)
{
	struct peerdma_query_args q;

	WORKS(query(fd, a->handle, &q));
	CHECK(q.state == PEERDMA_STATE_LIVE && q.mappings == !!m->mapping);
	CHECK(signal_of_read(m->view + 3 * MIB) == 0 && m->second[0] == 1 && m->of_dmabuf[0] == 77);
}

static void taken_away(void)
{
	uint64_t va = gpu_alloc(4 * MIB);
	struct peerdma_event event;
	struct peerdma_pin_args a;
	int fd = dev_open();
	const volatile uint32_t *gen = generations(fd);
	struct made m;
	bool over;

	WORKS(gpu_pin(fd, va, 4 * MIB, 0, &a));
	make_all(fd, &a, &m);
	over = gpu_facts->pins == ENDED_BY_FREE || (gpu_facts->pins == ENDED_IF_MAPPED && m.mapping);
	CHECK(events(fd, &event) == 0 && gen[a.slot] == a.generation);

	CHECK(!cu.MemFree(va));

	CHECK((gen[a.slot] != a.generation) == (over || gpu_facts->pins == STAY));
	CHECK(events(fd, &event) == over);
	if (over) {
		CHECK(event.type == PEERDMA_EVENT_REVOKED && event.handle == a.handle && event.slot == a.slot &&
		      event.generation == a.generation && event.addr == (gpu_facts->has_address ? va : 0) &&
		      event.length == 4 * MIB);
		CHECK(events(fd, &event) == 0);
		check_over(fd, &a, &m);
	} else if (gpu_facts->has_view) {
		check_stays(fd, &a, &m);
	}
	WORKS(unpin(fd, a.handle));
	FAILS(ENOENT, unpin(fd, a.handle));
	if (gpu_facts->has_view)
		CHECK(signal_of_read(m.view) == SIGBUS && signal_of_read(m.of_dmabuf) == SIGBUS);
	unmake(&m);
	munmap((void *)gen, PEERDMA_MMAP_GENERATIONS_SIZE);
	close(fd);
}

static void event_order(void)
{
	struct peerdma_segment segs[SEGMENTS];
	struct peerdma_pin_args a[5];
	struct peerdma_event event[5];
	uint64_t va[5];
	uint32_t count, mapping;
	int fd = dev_open();

	for (int i = 0; i < 5; i++) {
		va[i] = gpu_alloc(MIB);
		WORKS(gpu_pin(fd, va[i], MIB, 0, &a[i]));
		count = SEGMENTS;
		if (gpu_facts->pins == ENDED_IF_MAPPED)
			WORKS(card_map(fd, a[i].handle, BOTH, segs, &count, &mapping));
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
	check_none_left();
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
	WORKS(gpu_pin(fd, va, MIB, 0, &a));
	WORKS(gpu_pin(fd, va, GPU_PAGE, 0, &b));
	CHECK(!cu.CtxDestroy(ctx));
	gpu_settle();
	CHECK(events(fd, &event) == 2);
	/* The other order: the pin ends, then the memory. */
	close(fd);
	fd = dev_open();
	CHECK(live_pins(fd) == 0);
	va = gpu_alloc(MIB);
	WORKS(gpu_pin(fd, va, MIB, 0, &a));
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

	WORKS(gpu_pin(fd, va, 2 * MIB, PEERDMA_PIN_PERSISTENT, &a));
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

static uint64_t address_at(const struct peerdma_segment *segs, uint64_t offset)
{
	for (; offset >= segs->length; segs++)
		offset -= segs->length;
	return segs->dma_addr + offset;
}

static void card_to_gpu(void)
{
	uint64_t va_a = gpu_alloc(MIB), va_b = gpu_alloc(MIB);
	static struct peerdma_segment from[SEGMENTS], to[SEGMENTS];
	char *there = host_memory(MIB), *back = host_memory(MIB);
	struct peerdma_pin_args a, b;
	uint32_t na = SEGMENTS, nb = SEGMENTS, m;
	int fd = dev_open();

	if (!card_open()) {
		close(fd);
		return;
	}
	for (size_t i = 0; i < MIB; i++)
		there[i] = (char)(i * 31 + 7);
	CHECK(!cu.MemcpyHtoD(va_a, there, MIB) && !cu.CtxSynchronize());
	WORKS(gpu_pin(fd, va_a, MIB, 0, &a));
	WORKS(gpu_pin(fd, va_b, MIB, (gpu_facts->can_persist ? PEERDMA_PIN_PERSISTENT : 0), &b));
	WORKS(card_map(fd, a.handle, BOTH, from, &na, &m));
	WORKS(card_map(fd, b.handle, BOTH, to, &nb, &m));
	CHECK(na >= 1 && nb >= 1);
	CHECK(gpu_facts->in_host || (from[0].length >= GPU_PAGE && to[0].length >= GPU_PAGE));
	card_copy(address_at(from, 4096), address_at(to, 8192), 4092);
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

	if (!memory_open(&why)) {
		skip(getenv("PEERDMA_TEST_PROVIDER"), why);
		return false;
	}
	printf("== %s\n", gpu_facts->provider);
	run("pin and unpin", life);
	if (gpu_facts->has_view)
		run("CPU view", cpu_view);
	if (gpu_facts->has_view)
		run("views of overlapping pins", overlapping_views);
	run("memory taken away under views, a mapping and a dma-buf", taken_away);
	if (gpu_facts->pins == ENDED_BY_FREE || (gpu_facts->pins == ENDED_IF_MAPPED && card_open()))
		run("events", event_order);
	if (gpu_facts->pins == ENDED_BY_FREE)
		run("events for two threads", two_readers);
	if (gpu_facts->has_contexts)
		run("context destroyed, close before free", context_ends);
	if (gpu_facts->can_persist)
		run("persistent pin", persistent);
	run("DMA from this memory to this memory", card_to_gpu);
	test_gpu_processes();
	return true;
}
