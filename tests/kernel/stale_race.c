// SPDX-License-Identifier: MIT
/*
 * stale_race.c - a card's write is under way when its mapping ends, in each way that it
 * can and at every phase of the transfer: once the call that ends it has returned, not
 * one byte arrives.  QEMU's card does its DMA at the end of a transfer of 100 ms, and its
 * IOMMU remembers the addresses that were used once, until it is told.
 *
 * Each card has a process of its own.  This one takes all of VRAM but for a piece for
 * each of them, so that what one frees is given out again at once.
 *
 * Without an IOMMU, or when it lets everything through, nothing can stop a card that user
 * space has given an address: there it is a driver that has promised to stop its card.
 */
#include "nvp2p_client.h"
#include "peerdma_test_gpu.h"
#include "stale_race.h"

#define CARDS		4
#define PIECES		4096
#define MAPPINGS	32	/* of one card, or of all */
#define ENOUGH		4	/* one of so many planned rounds has a write under way */
#define MORE		8	/* times as many rounds, until that is so */
#define TEXT(x)		#x
#define STRING(x)	TEXT(x)

static struct dma_card cards[CARDS];
static unsigned int ncards;
static bool driver;		/* the cards have one: /dev/fpgaN */
static bool amd;		/* the memory is HIP's */
static struct result *results;	/* one for each card, shared */

static bool gpu_open(void)
{
	const char *why = amd ? hip_open() : nvidia_open();

	if (why)
		printf("%s\n", why);
	return !why;
}

/* ---- what an end costs ---- */

/*
 * Flushes that a free takes, of memory that is mapped so often for each of the cards.  As many
 * more end the mappings afterwards, when their addresses are given back.
 */
static long long flushes_of(unsigned int n, unsigned int times)
{
	struct peerdma_segment seg;
	struct peerdma_pin_args a;
	uint32_t count, mapping;
	uint64_t va = gpu_alloc(GPU_PAGE);
	long long before = debugfs_stat("flushes"), taken;
	int fd = dev_open();

	WORKS(pin_va(fd, va, GPU_PAGE, PEERDMA_PIN_DEVICE, &a));
	for (unsigned int i = 0; i < n * times; i++) {
		count = 1;
		WORKS(card_map_for(&cards[i % n], fd, a.handle, PEERDMA_MAP_FROM_DEVICE, &seg, &count, &mapping));
	}
	CHECK(debugfs_stat("flushes") == before);
	CHECK(!cu.MemFree(va));
	taken = debugfs_stat("flushes") - before;
	close(fd);
	CHECK(debugfs_stat("flushes") == before + 2 * taken);
	return taken;
}

static int cost(void *arg)
{
	unsigned int each;
	long long one, all;

	if (!gpu_open())
		return 1;
	each = times_mapped(MAPPINGS) / ncards;
	one = flushes_of(1, times_mapped(MAPPINGS));
	all = flushes_of(ncards, each);
	printf("flushes when memory is freed: %lld for %u mappings of a card, %lld for %u mappings of %u cards\n",
	       one, times_mapped(MAPPINGS), all, each * ncards, ncards);
	/* Cards may share a domain. */
	CHECK(one == 1 && all >= 1 && all <= ncards);
	return 0;
}

/* ---- the rounds ---- */

/* What the card will write is in its own memory from now on. */
static void load(const struct dma_card *card)
{
	struct peerdma_segment seg = { 0 };
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	uint32_t count = 1, mapping;
	int fd = dev_open();

	memset(memory, 0x5a, PAGE);
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(card_map_for(card, fd, a.handle, PEERDMA_MAP_TO_DEVICE, &seg, &count, &mapping));
	card_begin(card, seg.dma_addr, CARD_MEMORY, CARD_MOST);
	card_wait(card);
	close(fd);
}

/* The test modules have one card and one client: the first that there is. */
static bool is_first(unsigned int i)
{
	for (unsigned int j = 0; j < ncards; j++)
		if ((cards[j].at.bus << 8 | cards[j].at.devfn) < (cards[i].at.bus << 8 | cards[i].at.devfn))
			return false;
	return true;
}

/* Some writes must be under way when the call has returned, or nothing was seen. */
static bool few(unsigned int i, unsigned int rounds)
{
	return !driver && results[i].under_way < rounds / ncards / ENOUGH;
}

static int work(unsigned int i, unsigned int rounds, int gate)
{
	struct racer racer = {
		.card = &cards[i],
		.which = ncards == 1 ? FOR_ALL : is_first(i) ? FOR_ONE : FOR_ANY,
		.amd = amd,
	};
	char path[32];
	int fpga = -1;

	if (driver) {
		snprintf(path, sizeof(path), "/dev/fpga%u", i);
		fpga = open(path, O_RDWR | O_CLOEXEC);
		CHECK(fpga >= 0);
	} else {
		CHECK(amd || t_open());
		load(&cards[i]);
	}
	/* Until VRAM is taken. */
	CHECK(hear(gate));
	if (!gpu_open())
		return 1;
	/* On a busy machine many a write has ended before the call returns: then more rounds. */
	for (unsigned int round = i; !check_counts.failures && (round < rounds || (few(i, rounds) && round < MORE * rounds)); round += ncards) {
		if (driver)
			driver_round(fpga, round, &results[i]);
		else
			race_round(&racer, round / ncards + i, &results[i]);
	}
	return 0;
}

/* All of it, but for some pieces. */
static void take_vram(unsigned int but)
{
	static unsigned long long pieces[PIECES];
	unsigned int n = 0;

	if (!CHECK(gpu_open()))
		return;
	while (n < PIECES && !cu.MemAlloc(&pieces[n], GPU_PAGE))
		n++;
	CHECK(n > but && n < PIECES);
	/* The first ones: the driver maps the aperture's last page for no device. */
	while (but--)
		CHECK(!cu.MemFree(pieces[but]));
}

static int run_card(int gate, void *arg)
{
	const unsigned int *args = arg;		/* which, and the rounds */

	return work(args[0], args[1], gate);
}

static void race(unsigned int rounds)
{
	struct process cards_of[CARDS];

	for (unsigned int i = 0; i < ncards; i++)
		cards_of[i] = begin(run_card, (unsigned int[]){ i, rounds });
	take_vram(ncards);
	for (unsigned int i = 0; i < ncards; i++)
		say(cards_of[i].peer);
	for (unsigned int i = 0; i < ncards; i++)
		CHECK(finish(&cards_of[i]) == 0);
}

static void report(unsigned int rounds)
{
	struct result sum = { 0 };

	for (unsigned int i = 0; i < ncards; i++) {
		sum.rounds += results[i].rounds;
		sum.under_way += results[i].under_way;
		sum.landed += results[i].landed;
		sum.cut_short += results[i].cut_short;
		for (int end = 0; end < ENDS; end++)
			sum.by_end[end] += results[i].by_end[end];
	}
	if (driver) {
		printf("%lu rounds: %lu copies cut short, %lu writes under way when the memory had been freed, %lu landed\n",
		       sum.rounds, sum.cut_short, sum.under_way, sum.landed);
		CHECK(sum.cut_short && !sum.under_way && !sum.landed);
		return;
	}
	printf("%lu rounds: %lu writes under way when the call had returned, %lu landed, %lu refused by the IOMMU\n",
	       sum.rounds, sum.under_way, sum.landed, sum.under_way - sum.landed);
	for (int end = 0; end < ENDS; end++)
		if (sum.by_end[end])
			printf("NOT OK: %s: %lu landed\n", end_names[end], sum.by_end[end]);
	for (unsigned int i = 0; i < ncards; i++)
		CHECK(!few(i, rounds));
	CHECK(!sum.landed);
}

static unsigned int with_driver(void)
{
	unsigned int n = 0;
	char path[32];

	while (n < CARDS) {
		snprintf(path, sizeof(path), "/dev/fpga%u", n);
		if (access(path, F_OK))
			break;
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 60;

	setvbuf(stdout, NULL, _IOLBF, 0);
	amd = argc > 2 && !strcmp(argv[2], "amd");
	results = shared_memory(CARDS * sizeof(*results));
	driver = !access("/dev/fpga0", F_OK);
	ncards = driver ? with_driver() : cards_open(cards, CARDS);
	if (!ncards) {
		printf("skip: no DMA card (PCI 1234:11e8)\n");
		return 77;
	}
	if (!driver && !card_translated(&cards[0])) {
		printf("nothing holds a card back here that user space gave an address: no IOMMU translates for it\n");
		return 77;
	}
	if (!driver) {
		CHECK(module_set("peerdma", "export_timeout_ms", STRING(LATE_MS)));
		CHECK(check_in_child(cost, NULL) == 0);
	}
	race(rounds);
	report(rounds);
	return check_end("a write under way when its mapping ends");
}
