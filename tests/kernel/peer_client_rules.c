// SPDX-License-Identifier: MIT
/*
 * peer_client_rules.c - the contract of peer-memory clients, as a core and a program see it; peer_client_test.ko is the
 * core.
 *
 *   peer_client_rules PROVIDER	nvidia, amd, tegra or dmabuf: whose memory; see peerdma_test_gpu.h
 *   peer_client_rules persistent	the second client, of pins that stay
 */
#include "peer_client_util.h"
#include "peerdma_test_gpu.h"
#include "peerdma_test_users.h"

#define WORD	0x1122334455667788ULL

const char *which;

/* ---- what is not the client's ---- */

static int acquire_at(uint64_t va, size_t size)
{
	int fd = region_open(0), ret = region_acquire(fd, va, size);

	close(fd);
	return ret;
}

static void not_ours(void)
{
	void *host = host_memory(PAGE);
	uint64_t pins = pins_now();

	CHECK(acquire_at((uintptr_t)host, PAGE) == gpu_facts->any_memory);
	CHECK(acquire_at(0, PAGE) == 0);
	CHECK(acquire_at(PAGE, 0) == 0);
	CHECK(acquire_at(~0ULL - 100, 200) == 0);
	CHECK(acquire_at(~0ULL - 100, 100) == 0);
	CHECK(acquire_at(1ULL << 60, PAGE) == 0);
	CHECK(pins_now() == pins);
	munmap(host, PAGE);
}

static void past_the_end(void)
{
	uint64_t va = memory_get(2 * MIB), pins = pins_now();

	CHECK(acquire_at(va, 1ULL << 40) <= 0);
	CHECK(acquire_at(va + MIB, 64 * MIB) <= 0);
	CHECK(pins_now() == pins);
	memory_free(va);
	CHECK(acquire_at(va, PAGE) <= 0);
}

static int another(void *arg)
{
	uint64_t va = *(uint64_t *)arg;

	return acquire_at(va, 64 * KIB) == 0 ? 0 : 1;
}

/* The same address in another process: of a dma-buf, and of a Tegra's, the child has the mapping, too. */
static void another_process(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();

	if (strcmp(gpu_facts->provider, "dmabuf") && !gpu_facts->any_memory)
		CHECK(!check_in_child(another, &va));
	CHECK(pins_now() == pins);
	memory_free(va);
}

/* Adapters write to what is registered. */
static void read_only(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	void *map = (void *)(uintptr_t)va;

	if (!strcmp(gpu_facts->provider, "dmabuf")) {
		CHECK(!mprotect(map, MIB, PROT_READ));
		CHECK(acquire_at(va, PAGE) == -EPERM);
		CHECK(!mprotect(map, MIB, PROT_READ | PROT_WRITE));
		CHECK(acquire_at(va, PAGE) == 1);
	}
	PINS_BACK(pins);
	memory_free(va);
}

/* ---- the order of a registration ---- */

static void only_acquired(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	int fd = region_open(0);

	CHECK(region_acquire(fd, va + 5, 100) == 1);
	CHECK(pins_now() == pins + 1);
	CHECK(!peer(fd, P_RELEASE, 0));
	PINS_BACK(pins);
	close(fd);
	memory_free(va);
}

static void never_mapped(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	int fd = region_open(0);

	CHECK(region_acquire(fd, va, MIB) == 1);
	CHECK(!region_get(fd, va, MIB));
	CHECK(!peer(fd, P_PUT_PAGES, 0));
	CHECK(!peer(fd, P_RELEASE, 0));
	PINS_BACK(pins);
	close(fd);
	memory_free(va);
}

/* Of a range of any address and length the table has the pages. */
static void tables(void)
{
	static const struct {
		uint64_t at, size;
	} ranges[] = {
		{ 0, 1 }, { 0, 64 * KIB }, { 0, 2 * MIB }, { 5, 100 }, { 4095, 2 }, { 64 * KIB - 8, 16 },
		{ 200 * KIB + 8, 900 * KIB }, { 2 * MIB - 8, 8 }, { MIB - 4096, 8192 },
	};
	uint64_t va = memory_get(2 * MIB), pins = pins_now();

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint64_t at = ranges[i].at, size = ranges[i].size, first = (at + 7) / 8 * 8;
		int fd = region_up(0, va + at, size, i % ncards);

		if (first + 8 <= at + size) {
			memory_write(va + first, WORD + i);
			CHECK(peek(fd, first - at) == WORD + i);
			memory_write(va + (at + size) / 8 * 8 - 8, WORD - i);
			CHECK(peek(fd, (at + size) / 8 * 8 - 8 - at) == WORD - i);
		}
		CHECK(!peer(fd, P_DMA_UNMAP, 0));
		CHECK(!peer(fd, P_PUT_PAGES, 0));
		CHECK(!peer(fd, P_RELEASE, 0));
		close(fd);
	}
	PINS_BACK(pins);
	memory_free(va);
}

static void wrong_calls(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	int fd = region_open(0);

	CHECK(region_acquire(fd, va, 128 * KIB) == 1);
	CHECK(region_map(fd, 0, NULL) == -EINVAL);
	CHECK(region_get(fd, va + MIB / 2, PAGE) == -EINVAL);
	CHECK(region_get(fd, va, MIB) == -EINVAL);
	CHECK(region_get(fd, va - 1, 2) == -EINVAL);
	CHECK(region_get(fd, va, ~0ULL) == -EINVAL);
	CHECK(!region_get(fd, va, 128 * KIB));
	CHECK(region_get(fd, va, 128 * KIB) == -EBUSY);
	CHECK(peer(fd, P_DMA_MAP, P_NO_DEVICE) == -EINVAL);
	CHECK(peer(fd, P_DMA_MAP, P_NO_BUS) == -EOPNOTSUPP);
	CHECK(!region_map(fd, 0, NULL));
	CHECK(region_map(fd, 0, NULL) == -EINVAL);
	region_down(fd);
	/* dma_map has failed: put_pages and release. */
	fd = region_open(0);
	CHECK(region_acquire(fd, va, MIB) == 1);
	CHECK(!region_get(fd, va, MIB));
	CHECK(peer(fd, P_DMA_MAP, P_NO_BUS) == -EOPNOTSUPP);
	region_down(fd);
	PINS_BACK(pins);
	memory_free(va);
}

/* What the kernel has allocated in small pieces, in KiB. */
static unsigned long slabs(void)
{
	long long kib = line_number("/proc/meminfo", "SUnreclaim");

	CHECK(kib > 0);
	return (unsigned long)kib;
}

/* A core may map and unmap again and again before it calls put_pages; only the last table is left then. */
static void mapped_again(void)
{
	uint64_t va = memory_get(256 * KIB), pins = pins_now();
	struct peer_client_call c = { .op = P_DMA_MAP, .arg = cards[0] };
	int fd = region_open(0), rounds = 1000;
	unsigned long before, left;

	CHECK(region_acquire(fd, va, 256 * KIB) == 1);
	CHECK(!region_get(fd, va, 256 * KIB));
	memory_write(va + 128 * KIB, WORD);
	before = slabs();
	for (int i = 0; i < rounds; i++) {
		CHECK(!peer_call(fd, &c) && c.value);
		CHECK(i % 100 || peek(fd, 128 * KIB) == WORD);
		CHECK(!peer(fd, P_DMA_UNMAP, 0));
	}
	left = slabs();
	/* Of a table with one entry there is nothing to leave behind. */
	printf("  %u entries, %lu KiB then %lu\n", c.nmap, before, left);
	/* A kernel with KASAN keeps what is freed for a while, so the two figures cannot be compared there. */
	if (patience() > 1)
		printf("  not compared: a debug kernel\n");
	CHECK(c.nmap < 2 || patience() > 1 || left < before + (unsigned long)rounds * c.nmap * 32 / KIB / 2);
	region_down(fd);
	PINS_BACK(pins);
	memory_free(va);
}

/* ---- the memory goes away ---- */

/* A pin of a dma-buf that nothing is mapped of follows the buffer, and is not revoked. */
static bool early_is_seen(void)
{
	return strcmp(gpu_facts->provider, "dmabuf");
}

static void freed_before_get(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	int fd = region_open(0), ret;

	CHECK(region_acquire(fd, va, MIB) == 1);
	memory_free(va);
	ret = region_get(fd, va, MIB);
	CHECK(ret == (early_is_seen() ? -EFAULT : 0));
	CHECK(begun(fd) == 0);
	region_down(fd);
	PINS_BACK(pins);
}

static void freed_before_map(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	int fd = region_open(0);

	CHECK(region_acquire(fd, va, MIB) == 1);
	CHECK(!region_get(fd, va, MIB));
	memory_free(va);
	CHECK(region_map(fd, 0, NULL) == -EFAULT);
	CHECK(begun(fd) == 0);
	region_down(fd);
	PINS_BACK(pins);
}

static void freed_when_mapped(uint32_t on)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	struct peer_client_call c = { .op = P_STATE };
	int fd = region_up(on, va, MIB, 0);

	memory_write(va, WORD);
	memory_free(va);
	CHECK(!peer_call(fd, &c));
	CHECK(c.bytes == 1 && c.dma == 1);
	/* The adapter reached the memory until it had stopped. */
	CHECK(c.value == WORD);
	region_down(fd);
	PINS_BACK(pins);
}

/* In each way that a core and its adapter have. */
static void freed(void)
{
	static const struct {
		const char *core;
		uint32_t on;
	} ways[] = {
		{ "does nothing", 0 }, { "stops its adapter slowly", P_ON_SLOW }, { "unmaps in the invalidation", P_ON_UNMAP },
		{ "unmaps and releases in it", P_ON_UNMAP | P_ON_RELEASE }, { "releases in it", P_ON_RELEASE },
		{ "has a lock", P_CORE_LOCK | P_ON_SLOW },
	};

	for (size_t i = 0; i < CHECK_COUNT(ways); i++) {
		unsigned long before = check_counts.failures;

		freed_when_mapped(ways[i].on);
		if (check_counts.failures > before)
			printf("  a core that %s\n", ways[i].core);
	}
}

static bool comes(int fd)
{
	return UNTIL(begun(fd)) && begun(fd) == 1;
}

/* The free waits for the core, and the core for the program that deregisters the region. */
static void deregistered_meanwhile(void)
{
	for (unsigned int i = 0; i < 3; i++) {
		uint64_t va = memory_get(MIB), pins = pins_now();
		int fd = region_up(P_ON_WAIT | (i == 1 ? P_ON_UNMAP : 0) | (i == 2 ? P_LATE : 0), va, MIB, 0);
		struct freer f;

		free_begin(&f, va);
		CHECK(comes(fd));
		usleep(20000);
		CHECK(!f.task.over && !done(fd));
		CHECK(!peer(fd, P_DEREGISTER, 0));
		free_end(&f);
		CHECK(done(fd) == 1);
		close(fd);
		PINS_BACK(pins);
	}
}

/* A core that holds a lock from get_pages to where it activates, and takes it to invalidate. */
static void freed_before_activation(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	int fd = region_open(P_CORE_LOCK);
	struct freer f;

	CHECK(region_acquire(fd, va, MIB) == 1);
	CHECK(!region_get(fd, va, MIB));
	CHECK(!region_map(fd, 0, NULL));
	free_begin(&f, va);
	CHECK(comes(fd));
	usleep(20000);
	CHECK(!f.task.over && !done(fd));
	CHECK(!peer(fd, P_ACTIVATE, 0));
	free_end(&f);
	CHECK(done(fd) == 1);
	region_down(fd);
	PINS_BACK(pins);
}

static void two_devices(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	int a = region_up(0, va, MIB, 0), b = region_up(P_ON_SLOW, va + 100, 64 * KIB, ncards - 1);

	memory_write(va + 104, WORD);
	CHECK(peek(a, 104) == WORD && peek(b, 4) == WORD);
	region_down(a);
	CHECK(peek(b, 4) == WORD);
	a = region_up(0, va, MIB, 0);
	memory_free(va);
	CHECK(done(a) == 1 && done(b) == 1);
	region_down(b);
	region_down(a);
	PINS_BACK(pins);
}

#define MANY 100
static void many_regions(void)
{
	uint64_t va = memory_get(4 * MIB), pins = pins_now();
	unsigned int n = times_mapped(MANY);
	int fds[MANY];

	for (unsigned int i = 0; i < n; i++)
		fds[i] = region_up(0, va + i * 8 * KIB, 32 * KIB, i % ncards);
	CHECK(pins_now() == pins + n);
	memory_free(va);
	for (unsigned int i = 0; i < n; i++) {
		CHECK(done(fds[i]) == 1);
		region_down(fds[i]);
	}
	PINS_BACK(pins);
}

/* ---- how it registers; the client of pins that stay ---- */

static void registered(void)
{
	struct peer_client_call c = { .op = P_CLIENTS };
	int fd = region_open(0);

	CHECK(peer_call(fd, &c) == 1);
	/* PEER_MEM_INVALIDATE_UNMAPS */
	CHECK(c.value == 1);
	c = (struct peer_client_call){ .op = P_ACQUIRE, .arg = 1, .addr = PAGE, .size = PAGE };
	CHECK(peer_call(fd, &c) == -ENODEV);
	close(fd);
}

static int acquire_lasting(int fd, uint64_t va, size_t size)
{
	struct peer_client_call c = { .op = P_ACQUIRE, .arg = 1, .addr = va, .size = size };

	return peer_call(fd, &c);
}

static void lasting(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	int fd = region_open(0), host;

	CHECK(peer(fd, P_CLIENTS, 0) == 2);
	memory_write(va, WORD);
	CHECK(acquire_lasting(fd, va, MIB) == 1);
	CHECK(!region_get(fd, va, MIB) && !region_map(fd, 0, NULL));
	memory_free(va);
	CHECK(begun(fd) == 0);
	CHECK(peek(fd, 0) == WORD);
	region_down(fd);
	PINS_BACK(pins);
	host = region_open(0);
	CHECK(acquire_lasting(host, (uintptr_t)host_memory(PAGE), PAGE) == 0);
	close(host);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*test)(void);
	} all[] = {
		{ "how it registers", registered },
		{ "not the client's memory", not_ours },
		{ "past the end, and after a free", past_the_end },
		{ "another process's memory", another_process },
		{ "mappings that are read-only", read_only },
		{ "acquire and release", only_acquired },
		{ "acquire, get_pages, put_pages and release", never_mapped },
		{ "tables of ranges", tables },
		{ "calls that must fail", wrong_calls },
		{ "mapped again without put_pages", mapped_again },
		{ "freed before get_pages", freed_before_get },
		{ "freed before dma_map", freed_before_map },
		{ "freed when mapped, by every kind of core", freed },
		{ "an invalidation that waits for a deregistration", deregistered_meanwhile },
		{ "freed before the core activates", freed_before_activation },
		{ "two devices", two_devices },
		{ "many regions", many_regions },
		{ "a registration beside a free", race_plain },
		{ "the same, unmapped by the core", race_unmapping },
		{ "the same, of a core with a lock", race_with_a_lock },
		{ "unloading", unloading },
	};
	bool persistent = argc > 1 && !strcmp(argv[1], "persistent");
	const char *why;

	which = argc > 1 && !persistent ? argv[1] : "nvidia";
	if (!cards_find()) {
		printf("FAIL no card\n");
		return 1;
	}
	printf("-- %s\n", argv[1]);
	if (!persistent)
		run("owners that are killed", killed);
	/* Only root makes dma-bufs that move. */
	if (!persistent && strcmp(which, "dmabuf"))
		run("users are charged", charged);
	if (!memory_begin(which, &why)) {
		printf("FAIL no memory of %s: %s\n", which, why);
		return 1;
	}
	if (persistent)
		run("pins that stay", lasting);
	for (size_t i = 0; !persistent && i < sizeof(all) / sizeof(all[0]); i++)
		if (argc < 3 || strstr(all[i].name, argv[2]))
			run(all[i].name, all[i].test);
	return check_end("peer-memory clients");
}
