// SPDX-License-Identifier: MIT
/* stale_race_rounds.c - see stale_race.h */
#include "fpga_ioctl.h"
#include "importer.h"
#include "nvp2p_client.h"
#include "peerdma_test_gpu.h"
#include "stale_race.h"

#define LENGTH	GPU_PAGE
#define HALF	2000		/* of a page that an IOMMU remembers; the card carries no more than CARD_MOST */

const char *const end_names[ENDS] = {
	"memory freed", "unpinned", "unmapped", "closed", "context destroyed", "a persistent pin unpinned",
	"memory freed, and a client of nvidia_p2p leaves its mapping", "put, and the client leaves its mapping",
	"unmapped by the client",
	"memory freed, and an importer of its dma-buf told",
	"memory freed, and an importer of its dma-buf late",
};

unsigned int phase_of(unsigned int round)
{
	/*
	 * Linux flushes by itself 10 ms after an unmapping: later than that nothing is seen. 14 is
	 * prime to 5, and 106 to 37.
	 */
	return round % 4 ? 88 + round * 5 % 14 : round / 4 * 37 % 106;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_until(uint64_t ms)
{
	struct timespec t = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * 1000000) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static size_t not_zero(uint64_t va, size_t length)
{
	static unsigned char back[LENGTH];
	size_t n = 0;

	CHECK(!cu.MemcpyDtoH(back, va, length));
	for (size_t i = 0; i < length; i++)
		n += back[i] != 0;
	return n;
}

/* A transfer that took so long; as the clock of a virtual machine sees it that is not always the same. */
static void sleep_until_phase(uint64_t began, uint64_t took, unsigned int round)
{
	sleep_until(began + took * phase_of(round) / 100);
}

/* ---- user space drives ---- */

struct target {
	enum end end;
	const struct racer *racer;
	void *ctx;
	uint64_t va, dma;
	int file, importer, dmabuf;
	uint32_t handle, mapping;
};

static uint64_t import(struct target *t)
{
	struct importer_map m;

	t->dmabuf = export(t->file, t->handle, 0, LENGTH);
	t->importer = importer_up(t->dmabuf, t->end == IMPORTER_LATE ? IMPORTER_LAZY : IMPORTER_DYNAMIC, &m);
	return m.dma_addr;
}

static bool by_client(enum end end)
{
	return end >= CLIENT_LEAVES && end <= CLIENT_UNMAPPED;
}

static uint32_t client_bdf(const struct target *t)
{
	const struct peerdma_map_args *at = &t->racer->card->at;

	return at->domain << 16 | at->bus << 8 | at->devfn;
}

/* nvp2p_test.ko, which never unmaps by itself. */
static uint64_t map_by_client(struct target *t)
{
	uint64_t dma = 0;

	EXPECT(t_get(0, t->va, LENGTH).ret, 0);
	EXPECT(T(.op = T_DMA_MAP, .bdf = client_bdf(t)).ret, 0);
	EXPECT(T(.op = T_DMA_ADDRESSES, .data = (uintptr_t)&dma, .length = 1).ret, 0);
	return dma;
}

static void target_make(struct target *t)
{
	uint32_t flags = t->end == UNPINNED_PERSISTENT ? PEERDMA_PIN_PERSISTENT : 0, count = 1;
	struct peerdma_segment seg = { 0 };
	struct peerdma_pin_args a;

	if (t->end == CONTEXT)
		CHECK(!cu.CtxCreate(&t->ctx, 0, 0));
	t->va = gpu_alloc(LENGTH);
	t->file = t->importer = t->dmabuf = -1;
	if (by_client(t->end)) {
		t->dma = map_by_client(t);
		return;
	}
	t->file = dev_open();
	WORKS(pin_va(t->file, t->va, LENGTH, PEERDMA_PIN_DEVICE | flags, &a));
	t->handle = a.handle;
	if (t->end >= IMPORTER_TOLD) {
		t->dma = import(t);
		return;
	}
	WORKS(card_map_for(t->racer->card, t->file, t->handle, PEERDMA_MAP_FROM_DEVICE, &seg, &count, &t->mapping));
	t->dma = seg.dma_addr;
}

/* The call whose return is the promise.  True: the memory was given back, and is another's anew. */
static bool target_end(struct target *t)
{
	switch (t->end) {
	case UNPINNED:
	case UNPINNED_PERSISTENT:
		WORKS(unpin(t->file, t->handle));
		return false;
	case UNMAPPED:
		WORKS(unmap(t->file, t->mapping));
		return false;
	case CLOSED:
		close(t->file);
		t->file = -1;
		return false;
	case CLIENT_PUT:
		EXPECT(t_put(0), 0);
		CHECK(!cu.MemFree(t->va));
		break;
	case CLIENT_UNMAPPED:
		EXPECT(T(.op = T_DMA_UNMAP, .bdf = client_bdf(t)).ret, 0);
		CHECK(!cu.MemFree(t->va));
		break;
	case CONTEXT:
		CHECK(!cu.CtxDestroy(t->ctx));
		break;
	default:
		CHECK(!cu.MemFree(t->va));
		break;
	}
	t->va = gpu_alloc(LENGTH);
	return true;
}

static void target_free(struct target *t)
{
	close(t->importer);
	close(t->dmabuf);
	close(t->file);
	CHECK(!cu.MemFree(t->va));
	if (by_client(t->end))
		t_reset();
}

/* Those that only one card can have at a time come last; AMD's has no more than these. */
static enum end end_of(const struct racer *racer, unsigned int round)
{
	static const enum end nvidia[] = { FREED, UNPINNED, UNMAPPED, CLOSED, CONTEXT, UNPINNED_PERSISTENT,
		CLIENT_LEAVES, CLIENT_PUT, CLIENT_UNMAPPED, IMPORTER_TOLD, IMPORTER_LATE };
	static const enum end amd[] = { FREED, UNPINNED, UNMAPPED, CLOSED, IMPORTER_TOLD, IMPORTER_LATE };
	const enum end *ends = racer->amd ? amd : nvidia;
	unsigned int any = racer->amd ? 4 : 6, all = racer->amd ? 6 : ENDS;

	if (racer->which == FOR_ONE)
		return ends[any + round % (all - any)];
	return ends[round % (racer->which == FOR_ANY ? any : all)];
}

void race_round(const struct racer *racer, unsigned int round, struct result *r)
{
	struct target t = { .racer = racer, .end = end_of(racer, round) };
	const struct dma_card *card = racer->card;
	uint64_t began, took;
	bool anew, under_way;
	size_t n;

	target_make(&t);
	/* After this the IOMMU remembers the address. */
	began = now_ms();
	card_begin(card, CARD_MEMORY, t.dma, HALF);
	card_wait(card);
	took = now_ms() - began;
	n = not_zero(t.va, LENGTH);
	CHECK(n == HALF);

	began = now_ms();
	card_begin(card, CARD_MEMORY, t.dma + HALF, HALF);
	/* So that no end meets the same phases only. */
	sleep_until_phase(t.end == IMPORTER_LATE ? began - LATE_MS : began, took, round + round / 4);
	anew = target_end(&t);
	under_way = card_busy(card);
	card_wait(card);
	/* Memory had anew is all zero; what was ours all the time is, unless the write had been before the call's end. */
	n = anew ? not_zero(t.va, LENGTH) : under_way ? not_zero(t.va + HALF, HALF) : 0;
	r->rounds++;
	r->under_way += under_way;
	r->landed += n != 0;
	r->by_end[t.end] += n != 0;
	target_free(&t);
}

/* ---- a driver drives ---- */

struct copy {
	int fpga;
	struct fpga_copy args;
};

static void copy(void *arg)
{
	struct copy *c = arg;

	ioctl(c->fpga, FPGA_COPY, &c->args);
}

static struct fpga_info info_of(int fpga)
{
	struct fpga_info info = { .size = sizeof(info) };

	WORKS(ioctl(fpga, FPGA_INFO, &info));
	return info;
}

static uint64_t when_begun(int fpga, uint64_t transfers)
{
	for (int i = 0; i < 5000 && info_of(fpga).transfers < transfers; i++)
		usleep(1000);
	return now_ms();
}

void driver_round(int fpga, unsigned int round, struct result *r)
{
	static unsigned char source[LENGTH] __attribute__((aligned(LENGTH)));
	uint64_t va = gpu_alloc(LENGTH), transfers = info_of(fpga).transfers;
	struct copy c = {
		.fpga = fpga,
		.args = { .size = sizeof(c.args), .src = (uintptr_t)source, .dst = va, .length = HALF },
	};
	uint64_t began, writes;
	struct task task;

	memset(source, 0x5a, sizeof(source));
	task_begin(&task, copy, &c);
	/* The first transfer of a copy is into the card; the second is the one that matters. */
	began = when_begun(fpga, transfers + 1);
	writes = when_begun(fpga, transfers + 2);
	sleep_until_phase(writes, writes - began, round);
	CHECK(!cu.MemFree(va));
	r->under_way += info_of(fpga).state == FPGA_STATE_BUSY;
	va = gpu_alloc(LENGTH);
	task_end(&task);
	r->rounds++;
	r->cut_short += !!(c.args.revoked & FPGA_REVOKED_DST);
	usleep(CARD_TAKES_MS * 1000);
	r->landed += not_zero(va, LENGTH) != 0;
	CHECK(!cu.MemFree(va));
}
