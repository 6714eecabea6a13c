// SPDX-License-Identifier: MIT
/*
 * Steps 1 to 5: allocate, pin, copy, validate, and the same with a bounce buffer.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"
#include "sysfs.h"

#define SHORT_SUM	16	/* digits of a SHA-256 that are shown */
#define PINNED_WAIT_MS	3000
#define BAR1_SHIFT	16	/* page size of the aperture, which may differ from a pin's */

static void surface_show(const char *name, const struct surface *s, const char *filled)
{
	char bytes[SCREEN_CELL];

	if (s->gpu->make != &make_nvidia)
		screen_row(name, "%#" PRIx64 ", %s on GPU %d, by %s, %s", s->addr,
			   screen_bytes(bytes, s->length), s->gpu->index, s->gpu->make->alloc, filled);
	else
		screen_row(name, "%#" PRIx64 ", %s on GPU %d, buffer id %" PRIu64 ", %s", s->addr,
			   screen_bytes(bytes, s->length), s->gpu->index, gpu_buffer_id(s->addr), filled);
}

bool demo_allocate(struct demo *demo)
{
	bool one = demo->make_a == demo->make_b;

	screen_step(1, "Allocate", "%s%s%s: two surfaces in GPU memory", demo->make_a->alloc, one ? "" : " and ",
		    one ? "" : demo->make_b->alloc);
	demo->expected = malloc(demo->size);
	demo->found = calloc(1, demo->size);
	if (!demo->expected || !demo->found) {
		why_set(&demo->why, "no memory for twice %" PRIu64 " bytes", demo->size);
		return false;
	}
	pattern_fill(demo->expected, demo->size, 1);
	if (!surface_new(&demo->a, demo->gpu_a, demo->size, &demo->why) ||
	    !surface_new(&demo->b, demo->gpu_b, demo->size, &demo->why) ||
	    !surface_write(&demo->a, demo->expected, &demo->why) ||
	    !gpu_set(demo->gpu_b, demo->b.addr, 0, demo->size, &demo->why))
		return false;
	surface_show("A", &demo->a, "filled with a pattern");
	surface_show("B", &demo->b, "zeroed");
	return true;
}

/* Waits until all parts of the copy hold their pins and mappings, or have ended. */
static bool wait_pinned(struct demo *demo)
{
	struct card_totals totals;

	for (int ms = 0; ms < PINNED_WAIT_MS; ms += 10) {
		if (!cards_totals(demo->cards, demo->card_count, &totals, &demo->why))
			return false;
		if (totals.mappings == 2 * (uint64_t)demo->job.count || !job_running(&demo->job))
			break;
		sleep_ms(10);
	}
	return true;
}

/* Bytes of the pages that two ranges touch; a page that both touch counts once. */
static uint64_t pages_bytes(const struct surface *a, const struct surface *b, unsigned int shift)
{
	uint64_t first_a = a->addr >> shift, last_a = (a->addr + a->length - 1) >> shift;
	uint64_t first_b = b->addr >> shift, last_b = (b->addr + b->length - 1) >> shift;
	uint64_t pages = last_a - first_a + 1 + last_b - first_b + 1;

	if (a->gpu == b->gpu && first_b <= last_a && first_a <= last_b)
		pages--;	/* two allocations can only share the page where they meet */
	return pages << shift;
}

static uint64_t pages_of(const struct surface *s, unsigned int shift)
{
	return (((s->addr + s->length - 1) >> shift) - (s->addr >> shift) + 1) << shift;
}

/* Only VRAM uses BAR1. */
static bool takes_bar1(const struct surface *s)
{
	return s->gpu->make->in_bar;
}

/* Aperture bytes used by the pins of both surfaces. */
static uint64_t bar1_bytes(const struct surface *a, const struct surface *b)
{
	bool in_a = takes_bar1(a), in_b = takes_bar1(b);

	if (in_a && in_b)
		return pages_bytes(a, b, BAR1_SHIFT);
	return in_a ? pages_of(a, BAR1_SHIFT) : in_b ? pages_of(b, BAR1_SHIFT) : 0;
}

/* One surface's three addresses: in the program, on the bus, for the card. */
static void addresses_row(const char *name, const struct surface *s, const struct fpga_end *end)
{
	static const int widths[] = { 14, 18, 38, 0 };
	char va[32], phys[64], dma[64];
	uint64_t offset = 0;
	int bar = pci_bar_of(s->gpu->pci, end->phys_addr, &offset);
	const char *cells[] = { name, va, phys, dma };

	if (s->exported.dmabuf)
		snprintf(phys, sizeof(phys), "chosen by the exporter");
	else if (bar >= 0)
		snprintf(phys, sizeof(phys), "%#" PRIx64 " (BAR %d + %#" PRIx64 ")",
			 (uint64_t)end->phys_addr, bar, offset);
	else
		snprintf(phys, sizeof(phys), "%#" PRIx64, (uint64_t)end->phys_addr);
	snprintf(va, sizeof(va), "%#" PRIx64, s->addr);
	snprintf(dma, sizeof(dma), "%#" PRIx64, (uint64_t)end->dma_addr);
	screen_columns(false, cells, widths, 4);
}

/*
 * Does the card use the memory's bus address? That is its physical address. The importer of
 * a dma-buf does not know it, but VRAM's bus address lies in the GPU's BAR.
 */
static bool is_on_bus(const struct surface *s, const struct fpga_end *end)
{
	uint64_t offset;

	return s->exported.dmabuf ? pci_bar_of(s->gpu->pci, end->dma_addr, &offset) >= 0 : end->dma_addr == end->phys_addr;
}

/* Is the memory that the card accesses in the GPU's BAR? */
static bool is_in_bar(const struct surface *s, const struct fpga_end *end)
{
	uint64_t offset;

	return pci_bar_of(s->gpu->pci, end->phys_addr, &offset) >= 0;
}

static void addresses_show(struct demo *demo)
{
	static const int widths[] = { 14, 18, 38, 0 };
	const struct part *part = &demo->job.parts[0];
	const struct fpga_end *from = &part->copy.from, *to = &part->copy.to;
	char head[32];
	const char *cells[] = { "", "the program's", demo->make_a->in_bar ? "physical, in the GPU's BAR" : "physical", head };
	bool translating = part->card->info.iommu == FPGA_IOMMU_TRANSLATING;
	bool from_on_bus = is_on_bus(&demo->a, from), to_on_bus = is_on_bus(&demo->b, to);

	snprintf(head, sizeof(head), "%s's DMA address", part->card->node + strlen("/dev/"));
	screen_columns(true, cells, widths, 4);
	addresses_row("A", &demo->a, from);
	addresses_row("B", &demo->b, to);
	if (strcmp(from->provider, to->provider))
		screen_check(!strcmp(from->provider, demo->make_a->provider) &&
			     !strcmp(to->provider, demo->make_b->provider), "pages", "A's pinned through the provider '%s', B's through '%s'",
			     from->provider, to->provider);
	else
		screen_check(!strcmp(from->provider, demo->make_a->provider), "pages",
			     "%" PRIu64 " of %u KiB, pinned by peerdma through its provider '%s'",
			     pages_bytes(&demo->a, &demo->b, from->page_shift) >> from->page_shift,
			     1u << (from->page_shift - 10), from->provider);
	if (pci_present(demo->gpu_a->pci) && demo->make_a->in_bar && demo->make_b->in_bar &&
	    !demo->a.exported.dmabuf && !demo->b.exported.dmabuf)
		screen_check(is_in_bar(&demo->a, from) && is_in_bar(&demo->b, to), "in the BAR",
			     "what the card reads and writes is the GPU's own memory");
	if (translating)
		screen_check(!from_on_bus && !to_on_bus, "IOMMU", "translates: the card's addresses are its own, not the bus's");
	else
		screen_check(from_on_bus && to_on_bus, "IOMMU", "does not translate: the card's addresses are the bus's");
}

static void bar1_show(const struct counts *before, const struct counts *during,
		      const struct counts *after, uint64_t expected)
{
	char was[SCREEN_CELL], is[SCREEN_CELL], again[SCREEN_CELL];

	if (!before->nvml) {
		screen_check(false, "BAR1 used", "NVML does not say");
		return;
	}
	screen_check(during->bar1 - before->bar1 == expected && after->bar1 == before->bar1,
		     "BAR1 used", "%s before, %s while the cards work, %s after",
		     screen_bytes(was, before->bar1), screen_bytes(is, during->bar1),
		     screen_bytes(again, after->bar1));
}

static void copy_show(struct demo *demo)
{
	const struct cost *cost = &demo->direct;
	char in[SCREEN_CELL], out[SCREEN_CELL], time[SCREEN_CELL];

	screen_step(3, "Copy A to B", "%d card%s in parallel, each a part, through a buffer of %u bytes",
		    demo->job.count, demo->job.count == 1 ? "" : "s",
		    demo->cards[0].info.buffer_size);
	screen_check(cost->dma_in == demo->size && cost->dma_out == demo->size, "by DMA",
		     "%s from A to the cards, %s from the cards to B, in %s",
		     screen_bytes(in, cost->dma_in), screen_bytes(out, cost->dma_out),
		     screen_time(time, cost->time_ns));
	screen_check(cost->interrupts == cost->transfers && cost->transfers, "transfers",
		     "%" PRIu64 ", of at most %u bytes; %" PRIu64 " interrupts", cost->transfers,
		     demo->cards[0].info.max_transfer, cost->interrupts);
	screen_check(!cost->cpu && !cost->engine && !cost->host, "otherwise",
		     "%" PRIu64 " bytes by the CPU, %" PRIu64 " by the GPU's engine; %" PRIu64
		     " bytes of host memory", cost->cpu, cost->engine, cost->host);
}

bool demo_pin_and_copy(struct demo *demo)
{
	struct counts before, during, after;
	bool ok;

	screen_step(2, "Pin and map", "%s%s%s: for as long as the copy lasts", demo->make_a->pin,
		    demo->make_a == demo->make_b ? "" : ", ",
		    demo->make_a == demo->make_b ? "" : demo->make_b->pin);
	if (!demo_counts(demo, &before) || !cost_begin(demo, &demo->direct) ||
	    !job_start(&demo->job, demo->cards, demo->card_count, surface_place(&demo->b),
		       surface_place(&demo->a), demo->size, &demo->why))
		return false;
	ok = wait_pinned(demo) && demo_counts(demo, &during);
	job_wait_shown(&demo->job, stderr);
	if (!ok || !cost_end(demo, &demo->direct) || !demo_counts(demo, &after))
		return false;
	if (demo->job.error) {
		job_why(&demo->job, &demo->why);
		return false;
	}
	addresses_show(demo);
	bar1_show(&before, &during, &after, bar1_bytes(&demo->a, &demo->b));
	copy_show(demo);
	return true;
}

static bool flip_a_byte(struct demo *demo)
{
	uint64_t at = demo->size / 2;
	unsigned char byte = demo->expected[at] ^ 1;

	return gpu_write(demo->gpu_b, demo->b.addr + at, &byte, 1, &demo->why);
}

static bool validate_file(struct demo *demo)
{
	char sum[DIGEST_HEX], arrived[DIGEST_HEX];
	struct surface host = { 0 }, gpu = { 0 };
	unsigned char *bytes, *back = NULL;
	size_t length;
	bool ok = false;

	bytes = read_file(demo->file, &length, &demo->why);
	if (!bytes)
		return false;
	back = calloc(1, length);
	if (!back) {
		why_set(&demo->why, "no memory for %zu bytes", length);
		goto out;
	}
	if (!surface_new(&host, NULL, length, &demo->why) ||
	    !surface_new(&gpu, demo->gpu_b, length, &demo->why) ||
	    !surface_write(&host, bytes, &demo->why) ||
	    !job_start(&demo->job, demo->cards, demo->card_count, surface_place(&gpu), surface_place(&host), length,
		       &demo->why))
		goto out;
	job_wait_shown(&demo->job, stderr);
	if (demo->job.error) {
		job_why(&demo->job, &demo->why);
		goto out;
	}
	if (!surface_read(&gpu, back, &demo->why))
		goto out;
	digest(bytes, length, sum);
	digest(back, length, arrived);
	screen_row("a file", "%.60s, %zu bytes, by DMA into the GPU", demo->file, length);
	screen_check(!strcmp(sum, arrived), "its SHA-256", "here %.*s...  in the GPU %.*s...",
		     SHORT_SUM, sum, SHORT_SUM, arrived);
	ok = true;
out:
	ok &= surface_end(&gpu, &demo->why) && surface_end(&host, &demo->why);
	free(back);
	free(bytes);
	return ok;
}

bool demo_validate(struct demo *demo)
{
	char sum_a[DIGEST_HEX], sum_b[DIGEST_HEX];
	size_t differs;

	screen_step(4, "Validate", "B must be A, byte for byte; then a file through the cards into the GPU");
	if (demo->broken == BREAK_FLIP_BYTE && !flip_a_byte(demo))
		return false;
	if (!surface_read(&demo->a, demo->found, &demo->why))
		return false;
	digest(demo->found, demo->size, sum_a);
	if (!surface_read(&demo->b, demo->found, &demo->why))
		return false;
	digest(demo->found, demo->size, sum_b);
	differs = first_difference(demo->expected, demo->found, demo->size);
	if (differs == demo->size)
		screen_check(true, "compared", "%" PRIu64 " bytes, all equal", demo->size);
	else
		screen_check(false, "compared", "byte %zu of B is 0x%02x and should be 0x%02x", differs,
			     demo->found[differs], demo->expected[differs]);
	screen_check(!strcmp(sum_a, sum_b), "SHA-256", "A %.*s...  B %.*s...", SHORT_SUM, sum_a,
		     SHORT_SUM, sum_b);
	return validate_file(demo);
}

static void bounce_row(const char *label, const char *direct, const char *bounced)
{
	static const int widths[] = { 30, 22, 0 };
	const char *cells[] = { label, direct, bounced };

	screen_columns(!*label, cells, widths, 3);
}

static void bounce_show(const struct cost *direct, const struct cost *bounced)
{
	char left[SCREEN_CELL], right[SCREEN_CELL];

	bounce_row("", "direct", "bounced");
	bounce_row("moved by the cards' DMA",
		   screen_bytes(left, direct->dma_in + direct->dma_out),
		   screen_bytes(right, bounced->dma_in + bounced->dma_out));
	bounce_row("copied besides", screen_bytes(left, direct->engine + direct->cpu),
		   screen_bytes(right, bounced->engine + bounced->cpu));
	bounce_row("host memory besides", screen_bytes(left, direct->host),
		   screen_bytes(right, bounced->host));
	bounce_row("time, bound by the cards", screen_time(left, direct->time_ns), screen_time(right, bounced->time_ns));
}

bool demo_bounce(struct demo *demo)
{
	struct surface in = { 0 }, out = { 0 };
	struct cost cost;
	bool ok;

	screen_step(5, "Bounce buffer", "the same job without peer-to-peer: through host memory");
	ok = gpu_set(demo->gpu_b, demo->b.addr, 0, demo->size, &demo->why) &&
	     cost_begin(demo, &cost) &&
	     surface_new(&in, NULL, demo->size, &demo->why) &&
	     surface_new(&out, NULL, demo->size, &demo->why) &&
	     gpu_read(demo->gpu_a, (void *)(uintptr_t)in.addr, demo->a.addr, demo->size, &demo->why) &&
	     job_start(&demo->job, demo->cards, demo->card_count, surface_place(&out), surface_place(&in), demo->size,
		       &demo->why);
	if (ok) {
		job_wait_shown(&demo->job, stderr);
		if (demo->job.error)
			job_why(&demo->job, &demo->why);
		ok = !demo->job.error &&
		     gpu_write(demo->gpu_b, demo->b.addr, (void *)(uintptr_t)out.addr, demo->size,
			       &demo->why) &&
		     cost_end(demo, &cost);
	}
	surface_end(&in, &demo->why);
	surface_end(&out, &demo->why);
	if (!ok || !surface_read(&demo->b, demo->found, &demo->why))
		return false;
	bounce_show(&demo->direct, &cost);
	screen_check(first_difference(demo->expected, demo->found, demo->size) == demo->size,
		     "compared", "the result is the same, for %" PRIu64 " bytes copied more than needed",
		     cost.engine + cost.cpu);
	return true;
}
