// SPDX-License-Identifier: MIT
/*
 * bars.c - a bar for each result, on a scale by powers of ten: solid up to the median,
 * light up to the 99th percentile.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "bench.h"

#define FIGURE	9

const char *bench_label(const struct bench_result *r, char buf[96])
{
	char size[48], threads[32] = "";

	if (!strcmp(r->of, "bytes"))
		text_size(r->size, size);
	else
		snprintf(size, sizeof(size), "%" PRIu64 " %s", r->size, r->of);
	if (r->threads > 1)
		snprintf(threads, sizeof(threads), ", %u threads", r->threads);
	snprintf(buf, 96, "%s, %s%s", r->name, size, threads);
	return buf;
}

const char *bench_time(double ns, char buf[32])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	int u = 0;

	while (ns >= 1000 && u < 3) {
		ns /= 1000;
		u++;
	}
	snprintf(buf, 32, "%.*f %s", ns < 10 ? 2 : ns < 100 ? 1 : 0, ns, units[u]);
	return buf;
}

/* Where a time is on the scale, in cells. */
static int place(double ns, double low, double high, int cells)
{
	double at = 1;

	if (high > low)
		at = (log10(ns < low ? low : ns) - log10(low)) / (log10(high) - log10(low));
	return (int)(at * cells + 0.5);
}

static void put(const struct tool *tool, int n, const char *ascii, const char *wide, int color)
{
	if (n > 0 && tool->color)
		printf("\033[%dm", color);
	for (int i = 0; i < n; i++)
		fputs(tool->ascii ? ascii : wide, stdout);
	if (n > 0 && tool->color)
		fputs("\033[0m", stdout);
}

static void bars_of(const struct bench *b, const char *what)
{
	double low = 0, high = 0;
	char from[32], to[32], label[96];
	int cells, labels = 0;

	for (size_t i = 0; i < b->count; i++) {
		const struct bench_result *r = &b->results[i];

		if (strcmp(r->what, what))
			continue;
		if ((int)text_width(bench_label(r, label)) > labels)
			labels = (int)text_width(label);
		low = !low || r->times.median < low ? r->times.median : low;
		high = r->times.p99 > high ? r->times.p99 : high;
	}
	cells = (int)b->tool->columns - labels - FIGURE - 3;
	if (cells < 10)
		cells = 10;
	if (low <= 0)
		low = 0.1;
	low /= 2;	/* the shortest can be seen */
	printf("\n%s: from %s to %s, by powers of ten; %s median, %s 99th percentile\n", what,
	       bench_time(low, from), bench_time(high, to), b->tool->ascii ? "#" : "█",
	       b->tool->ascii ? "-" : "░");
	for (size_t i = 0; i < b->count; i++) {
		const struct bench_result *r = &b->results[i];
		int solid = place(r->times.median, low, high, cells),
			whole = place(r->times.p99, low, high, cells);

		if (strcmp(r->what, what))
			continue;
		printf("%*s ", FIGURE, bench_time(r->times.median, from));
		text_pad(bench_label(r, label), labels);
		putchar(' ');
		put(b->tool, solid, "#", "█", 36);
		put(b->tool, whole - solid, "-", "░", 36);
		putchar('\n');
	}
}

void bench_bars(const struct bench *b)
{
	for (size_t i = 0; i < b->count; i++) {
		if (!i || strcmp(b->results[i].what, b->results[i - 1].what))
			bars_of(b, b->results[i].what);
	}
}
