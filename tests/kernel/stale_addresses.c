// SPDX-License-Identifier: MIT
/*
 * stale_addresses.c - addresses of a device whose memory was revoked.  Until the owner of
 * the mapping ends it, the device gets them for nothing else, and an access by them faults.
 * After that they can be used again, and nothing is left of them.
 *
 * The owners are a program, a driver, and a dma-buf importer that does not unmap in time.
 * Each has mappings whose memory is freed.  After each, the card gets other memory, and none
 * of its addresses may be one of those.
 */
#include "peerdma_client.h"
#include "importer.h"
#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

#define SMALL		(4 * GPU_PAGE)
/* Where it does not begin at a large page, the IOMMU's driver frees page tables with it. */
#define LARGE		((2UL << 20) + GPU_PAGE)
#define REVOKED		12	/* mappings of each owner, at most; half of them large */
#define OTHERS		8	/* mappings of other memory, after each of those */
/* Memory that may be gone after them; a page lost with each large mapping makes more. */
#define GROWN_KIB	(3L << 10)

enum owner_kind { PROGRAM, DRIVER, IMPORTER, OWNERS };

static const char *const names[OWNERS] = { "a program", "a driver", "an importer that is late" };

struct mapping {
	enum owner_kind owner;
	uint64_t va, dma, length;
	int file;		/* of /dev/peerdma; of the driver, which has one mapping for each */
	uint32_t handle, mapping;
	int importer, dmabuf;
};

static uint64_t source;		/* the card's address of what it writes */
static struct mapping revoked[REVOKED];
static unsigned int nrevoked;

static uint64_t map_for_card(int fd, uint32_t handle, uint32_t *mapping)
{
	struct peerdma_segment segs[64] = { 0 };
	uint32_t count = 64;

	WORKS(card_map(fd, handle, BOTH, segs, &count, mapping));
	return segs[0].dma_addr;
}

/* ---- the owners ---- */

static void map_by_program(struct mapping *m)
{
	struct peerdma_pin_args a;

	WORKS(pin_va(m->file, m->va, m->length, PEERDMA_PIN_DEVICE, &a));
	m->handle = a.handle;
	m->dma = map_for_card(m->file, a.handle, &m->mapping);
}

static void map_by_driver(struct mapping *m)
{
	struct client_pin a = { .addr = m->va, .length = m->length };
	struct client_map c = { 0 };

	WORKS(ioctl(m->file, CLIENT_PIN, &a));
	WORKS(ioctl(m->file, CLIENT_MAP, &c));
	CHECK(c.length == m->length);
	m->dma = c.dma_addr;
}

static void map_by_importer(struct mapping *m)
{
	struct importer_map i;
	struct peerdma_pin_args p;

	WORKS(pin_va(m->file, m->va, m->length, PEERDMA_PIN_DEVICE, &p));
	m->handle = p.handle;
	m->dmabuf = export(m->file, p.handle, 0, m->length);
	m->importer = importer_up(m->dmabuf, IMPORTER_LAZY, &i);
	m->dma = i.dma_addr;
}

static int file_of(enum owner_kind owner)
{
	return owner == DRIVER ? open("/dev/peerdma_client", O_RDWR | O_CLOEXEC) : dev_open();
}

static void map(struct mapping *m, enum owner_kind owner, int file, uint64_t length)
{
	static void (*const maps[OWNERS])(struct mapping *m) = { map_by_program, map_by_driver, map_by_importer };

	*m = (struct mapping){ .owner = owner, .file = file, .va = gpu_alloc(length), .length = length };
	maps[owner](m);
}

/* The mapping ends, and its pin. */
static void end(struct mapping *m)
{
	switch (m->owner) {
	case PROGRAM:
		WORKS(unmap(m->file, m->mapping));
		WORKS(unpin(m->file, m->handle));
		break;
	case DRIVER:
		WORKS(ioctl(m->file, CLIENT_UNMAP));
		WORKS(ioctl(m->file, CLIENT_UNPIN));
		break;
	default:
		WORKS(importer_unmap(m->importer));
		close(m->importer);
		close(m->dmabuf);
		WORKS(unpin(m->file, m->handle));
		break;
	}
}

/* ---- other memory ---- */

static bool overlap(uint64_t a, uint64_t a_length, uint64_t b, uint64_t b_length)
{
	return a < b + b_length && b < a + a_length;
}

static bool is_revoked(uint64_t dma, uint64_t length)
{
	for (unsigned int i = 0; i < nrevoked; i++)
		if (overlap(dma, length, revoked[i].dma, revoked[i].length))
			return true;
	return false;
}

/* How many of the card's mappings of other memory have a revoked address. */
static unsigned int reused(uint64_t length)
{
	struct mapping others[OTHERS];
	int file = file_of(PROGRAM);
	unsigned int n = 0;

	for (unsigned int i = 0; i < OTHERS; i++) {
		map(&others[i], PROGRAM, file, length);
		n += is_revoked(others[i].dma, length);
	}
	for (unsigned int i = 0; i < OTHERS; i++) {
		end(&others[i]);
		CHECK(!cu.MemFree(others[i].va));
	}
	close(file);
	return n;
}

/* ---- the card ---- */

/* A line of the kernel's log says that the IOMMU refused this address. */
static bool refused_at(int log, uint64_t dma)
{
	char address[32];

	snprintf(address, sizeof(address), "fault addr %#llx ", (unsigned long long)dma);
	return UNTIL(log_records(log, address, ""));
}

/* The card goes on with the address: it must reach neither the new memory nor anything else. */
static void access_faults(const struct mapping *m)
{
	static unsigned char back[SMALL];
	int log = log_open(), file = file_of(PROGRAM);
	struct mapping other;
	size_t reached = 0;

	map(&other, PROGRAM, file, SMALL);
	card_copy(source, m->dma, 4092);
	CHECK(refused_at(log, m->dma));
	CHECK(!cu.MemcpyDtoH(back, other.va, SMALL));
	for (size_t i = 0; i < SMALL; i++)
		reached += back[i] != 0;
	CHECK(!reached);
	end(&other);
	CHECK(!cu.MemFree(other.va));
	close(file);
	close(log);
}

/* ---- revoked, and not let go ---- */

static void revoke_one(enum owner_kind owner, unsigned int i)
{
	struct mapping *m = &revoked[i];

	map(m, owner, file_of(owner), i % 2 ? LARGE : SMALL);
	CHECK(!is_revoked(m->dma, m->length));
	CHECK(!cu.MemFree(m->va));
	nrevoked = i + 1;
}

static void end_revoked(void)
{
	for (; nrevoked; nrevoked--) {
		end(&revoked[nrevoked - 1]);
		close(revoked[nrevoked - 1].file);
	}
}

static void stay_reserved(enum owner_kind owner)
{
	/* The same memory is mapped for others meanwhile. */
	unsigned int revocations = times_mapped(2 * REVOKED) / 2, n = 0;

	nrevoked = 0;
	for (unsigned int i = 0; i < revocations; i++) {
		revoke_one(owner, i);
		n += reused(i % 2 ? SMALL : GPU_PAGE) + reused(SMALL);
		/* Once for each owner: the kernel does not log many faults in a row. */
		if (i == owner)
			access_faults(&revoked[i]);
	}
	if (n)
		printf("  %u of %u mappings have an address that %s has not let go of\n", n, 2 * revocations * OTHERS, names[owner]);
	CHECK(!n);
	end_revoked();
	CHECK(debugfs_stat("maps") == debugfs_stat("unmaps") + 1);
}

static void program(void)
{
	stay_reserved(PROGRAM);
}

static void driver(void)
{
	stay_reserved(DRIVER);
}

static void importer(void)
{
	stay_reserved(IMPORTER);
}

/* ---- let go ---- */

/* Free memory of the machine, in KiB, or what of it can be freed. */
static long available(void)
{
	return (long)line_number("/proc/meminfo", "MemAvailable");
}

/* The lowest of many addresses at once.  The kernel gives the highest that are free. */
static uint64_t lowest_of_many(void)
{
	unsigned int n = times_mapped(32);
	uint64_t va = gpu_alloc(LARGE), lowest = UINT64_MAX, dma;
	struct peerdma_pin_args a;
	int file = dev_open();
	uint32_t mapping;

	WORKS(pin_va(file, va, LARGE, PEERDMA_PIN_DEVICE, &a));
	while (n--) {
		dma = map_for_card(file, a.handle, &mapping);
		if (dma < lowest)
			lowest = dma;
	}
	close(file);
	CHECK(!cu.MemFree(va));
	return lowest;
}

static uint64_t lowest_before;	/* when the test began */

/* In lazy mode Linux frees addresses in batches, after a timer at the latest: 10 ms, or a second. */
static uint64_t lowest_after(void)
{
	uint64_t lowest = 0;

	for (int i = 0; i < 10 && lowest < lowest_before; i++) {
		sleep(2);
		lowest = lowest_of_many();
	}
	return lowest;
}

static void revoke_and_end(unsigned int rounds, enum owner_kind owners)
{
	int files[OWNERS] = { file_of(PROGRAM), file_of(DRIVER), file_of(IMPORTER) };
	struct mapping m;

	for (unsigned int i = 0; i < rounds && !check_counts.failures; i++) {
		map(&m, (enum owner_kind)(i % owners), files[i % owners], i / 2 % 2 ? SMALL : LARGE);
		CHECK(!cu.MemFree(m.va));
		end(&m);
	}
	for (int owner = 0; owner < OWNERS; owner++)
		close(files[owner]);
}

static unsigned int rounds;

/* All come again: none is lost, no memory either. */
static void come_again(void)
{
	long kib, grown;
	uint64_t lowest;

	revoke_and_end(1000, IMPORTER);
	kib = available();
	/* An importer that is late takes some time. */
	revoke_and_end(100, OWNERS);
	revoke_and_end(rounds, IMPORTER);
	grown = kib - available();
	lowest = lowest_after();
	printf("  %u rounds: the lowest address fell by %lld KiB, available memory by %ld KiB\n", rounds,
	       (long long)(lowest_before - lowest) / 1024, grown);
	CHECK(lowest >= lowest_before && grown < GROWN_KIB);
}

/* A pin that is revoked, and has many mappings: one flush then, one when all are let go of. */
static void flushes(void)
{
	unsigned int n = times_mapped(32);
	uint64_t va = gpu_alloc(SMALL);
	struct peerdma_pin_args a;
	uint32_t mapping;
	long long before;
	int fd = dev_open();

	WORKS(pin_va(fd, va, SMALL, PEERDMA_PIN_DEVICE, &a));
	for (unsigned int i = 0; i < n; i++)
		map_for_card(fd, a.handle, &mapping);
	before = debugfs_stat("flushes");
	CHECK(!cu.MemFree(va));
	CHECK(debugfs_stat("flushes") == before + 1);
	WORKS(unpin(fd, a.handle));
	CHECK(debugfs_stat("flushes") == before + 2);
	close(fd);
}

/* ---- the device goes first ---- */

/* The owners' mappings outlive the device, but not its addresses: peerdma logs those that are lost. */
static void removed(void)
{
	nrevoked = 0;
	for (enum owner_kind owner = 0; owner < OWNERS; owner++)
		revoke_one(owner, owner);
	card_remove();
	end_revoked();
	card_rescan();
	CHECK(reused(SMALL) == 0);
}

int main(int argc, char **argv)
{
	struct peerdma_pin_args a;
	uint32_t mapping;
	const char *why = "";
	char *memory;
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 3000;
	if (!card_open() || !card_behind_iommu() || !memory_open(&why))
		check_skip("a card behind an IOMMU and a GPU are needed %s", why);
	CHECK(module_set("peerdma", "export_timeout_ms", "10"));
	memory = host_memory(PAGE);
	memset(memory, 0x5a, PAGE);
	fd = dev_open();
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	source = map_for_card(fd, a.handle, &mapping);
	/* The pieces that are mapped after this begin at no large page. */
	CHECK(gpu_alloc(GPU_PAGE));
	lowest_before = lowest_of_many();
	run("revoked addresses of a program", program);
	run("revoked addresses of a driver", driver);
	run("revoked addresses of an importer that is late", importer);
	run("addresses come again", come_again);
	run("one flush for all mappings", flushes);
	close(fd);
	run("the device is removed first", removed);
	return check_end("addresses of revoked memory");
}
