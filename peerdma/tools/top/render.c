// SPDX-License-Identifier: MIT
/*
 * render.c - a look as text.  A figure that is not known is "-": none is made up.
 */
#include <inttypes.h>

#include "base/table.h"
#include "top.h"

#define CELL 40

static const char *number(uint64_t n, char buf[CELL])
{
	snprintf(buf, CELL, "%" PRIu64, n);
	return buf;
}

/* "0", "0.5", "12", "3.4k": three digits, or so. */
static const char *per_second(double rate, char buf[CELL])
{
	static const char *const units[] = { "", "k", "M", "G", "T" };
	int u = 0;

	while (rate >= 9999.5 && u < 4) {
		rate /= 1000;
		u++;
	}
	snprintf(buf, CELL, "%.*f%s", rate > 0 && rate < 9.95, rate, units[u]);
	return buf;
}

static const char *rate(const struct top_counts *c, enum top_counter which, char buf[CELL])
{
	return top_rated(c, which) ? per_second(c->rate[which], buf) : "-";
}

static const char *bytes_rate(bool known, double rate, char buf[CELL])
{
	char size[32];

	if (!known)
		return "-";
	if (rate < 1024)
		snprintf(buf, CELL, "%.0f B/s", rate);
	else
		snprintf(buf, CELL, "%s/s", text_size(rate < 0x1p64 ? (uint64_t)rate : UINT64_MAX,
						      size));
	return buf;
}

static const char *total(const struct top_counts *c, enum top_counter which, char buf[CELL])
{
	return top_known(c, which) ? number(c->value[which], buf) : "-";
}

static const char *total_bytes(const struct top_counts *c, enum top_counter which, char buf[CELL])
{
	return top_known(c, which) ? text_size(c->value[which], buf) : "-";
}

/* Rounded down: 100 % is all of them. */
static const char *percent(bool known, uint64_t part, uint64_t whole, char buf[CELL])
{
	if (!known || !whole)
		return "-";
	snprintf(buf, CELL, "%.1f%%", (double)(int)(1000.0 * (double)part / (double)whole) / 10);
	return buf;
}

static void module(const struct top_sample *s, FILE *to)
{
	const struct top_counts *m = &s->module;
	char a[CELL], b[CELL], c[CELL], d[CELL], e[CELL], f[CELL];

	if (!s->has_module)
		return;
	fprintf(to, "peerdma.ko  %" PRIu64 " pin%s (+%s/s -%s/s)  mapped %s/s  revoked %s (%s/s)  dma-bufs %s  CPU faults %s/s\n",
		s->live, s->live == 1 ? "" : "s", rate(m, TOP_PINS, a), rate(m, TOP_UNPINS, b),
		rate(m, TOP_MAPS, c), total(m, TOP_REVOCATIONS, d), rate(m, TOP_REVOCATIONS, e),
		total(m, TOP_EXPORTS, f), rate(m, TOP_FAULTS, (char[CELL]){ 0 }));
}

#define BAR 20

static void gpu(const struct tool *tool, const struct top_gpu *g, FILE *to)
{
	char used[32], total_text[32], a[CELL], b[CELL];
	const struct top_counts *c = &g->counts;

	fprintf(to, "GPU %" PRIu64 "  %s %s", g->index, *g->pci ? g->pci : "(no PCI address)",
		g->name);
	if (g->has_bar1 && g->total) {
		/* One that is hardly used is not shown as empty, nor a nearly full one as full. */
		int full = g->used >= g->total ? BAR :
			(int)((double)g->used / (double)g->total * (BAR - 1)) + !!g->used;

		fputs("  BAR1 [", to);
		for (int i = 0; i < BAR; i++)
			fputs(i >= full ? tool->ascii ? "." : "·" : tool->ascii ? "#" : "█", to);
		fprintf(to, "] %s of %s (%.0f%%)", text_size(g->used, used),
			text_size(g->total, total_text),
			100.0 * (double)g->used / (double)g->total);
	} else {
		fputs("  BAR1 not reported", to);
	}
	if (top_known(c, TOP_REVOCATIONS))
		fprintf(to, "  revoked %s (%s/s)", total(c, TOP_REVOCATIONS, a),
			rate(c, TOP_REVOCATIONS, b));
	if (top_known(c, TOP_COPIED))
		fprintf(to, "  own copies %s/s, %s", rate(c, TOP_COPIES, a),
			bytes_rate(top_rated(c, TOP_COPIED), c->rate[TOP_COPIED], b));
	fputc('\n', to);
}

static void devices(const struct top_sample *s, unsigned int columns, FILE *to)
{
	static const char *const titles[] = {
		"DEVICE", "DRIVER", "MAPPINGS>", "READS>", "WRITES>", "READ>", "WRITTEN>",
		"REVOKED>",
	};
	char mappings[CELL], reads[CELL], writes[CELL], read[CELL], written[CELL], revoked[CELL];
	struct table *table;

	if (!s->device_count)
		return;
	fputc('\n', to);
	table = table_new(titles, sizeof(titles) / sizeof(titles[0]));
	for (size_t i = 0; i < s->device_count; i++) {
		const struct top_device *d = &s->devices[i];
		const struct top_counts *c = &d->counts;

		table_add(table, (const char *[]){
			d->name, d->driver, number(d->mappings, mappings),
			bytes_rate(top_rated(c, TOP_READ), c->rate[TOP_READ], reads),
			bytes_rate(top_rated(c, TOP_WRITTEN), c->rate[TOP_WRITTEN], writes),
			total_bytes(c, TOP_READ, read), total_bytes(c, TOP_WRITTEN, written),
			total(c, TOP_REVOCATIONS, revoked) });
	}
	table_fold(table, 1, columns, to);
}

static void processes(const struct top_sample *s, unsigned int columns, FILE *to)
{
	static const char *const titles[] = {
		"PID>", "COMMAND", "PINS>", "HELD>", "MAPS>", "VIEWS>", "DMA-BUFS>", "REVOKED>",
		"GETS/s>", "HITS>", "HITS,ALL>",
		"ENDED>", "DMA>",
	};
	struct table *table;

	if (!s->process_count)
		return;
	fputc('\n', to);
	table = table_new(titles, sizeof(titles) / sizeof(titles[0]));
	for (size_t i = 0; i < s->process_count; i++) {
		const struct top_process *p = &s->processes[i];
		const struct top_counts *c = &p->counts;
		char pid[CELL], pins[CELL], held[CELL], maps[CELL], views[CELL], exports[CELL],
			revoked[CELL], gets[CELL],
		     hits[CELL], all[CELL], ended[CELL], dma[CELL];
		bool cached = top_rated(c, TOP_GETS) && top_rated(c, TOP_HITS);
		double bytes;
		bool moved = top_dma(c, &bytes);

		table_add(table, (const char *[]){
			number(p->pid, pid), p->comm, number(p->pins, pins),
			text_size(p->held, held), number(p->mappings, maps),
			number(p->views, views), number(p->exports, exports),
			number(top_revocations(p), revoked), rate(c, TOP_GETS, gets),
			percent(cached, c->change[TOP_HITS], c->change[TOP_GETS], hits),
			percent(top_known(c, TOP_GETS), c->value[TOP_HITS], c->value[TOP_GETS],
				all),
			total(c, TOP_ENDED, ended), bytes_rate(moved, bytes, dma) });
	}
	table_fold(table, 2, columns, to);
}

void top_text(const struct tool *tool, const struct top_sample *s, enum top_order order,
	      unsigned int columns, FILE *to)
{
	module(s, to);
	for (size_t i = 0; i < s->gpu_count; i++)
		gpu(tool, &s->gpus[i], to);
	devices(s, columns, to);
	processes(s, columns, to);
	if (s->process_count > 1)
		fprintf(to, "(by %s)\n", top_order_name(order));
	if (!top_sees_something(s))
		fputs("Nothing that counts pins or DMA can be seen here.\n", to);
	if (s->missing_count)
		fputc('\n', to);
	for (size_t i = 0; i < s->missing_count; i++)
		fprintf(to, "not shown: %s\n", s->missing[i]);
}
