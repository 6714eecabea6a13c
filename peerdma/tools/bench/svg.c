// SPDX-License-Identifier: MIT
/*
 * svg.c - a drawing of the results: for each thing measured a chart, time over size,
 * both by powers; a line for the median of each case and number of threads, in a
 * band up to its 99th percentile.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define WIDTH	900
#define HEIGHT	330		/* of a chart */
#define LEFT	70
#define TOP	40
#define PLOT_W	520
#define PLOT_H	240
#define SERIES_MAX 24

static const char *const colors[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#444444", "#8b0000" };
#define COLORS (sizeof(colors) / sizeof(colors[0]))

struct chart {
	FILE *f;
	const struct bench *b;
	const char *what, *of;
	int y;			/* of its top */
	double low, high;	/* times: powers of ten */
	double first, last;	/* sizes: powers of two */
};

static double x_of(const struct chart *c, uint64_t size)
{
	double span = c->last - c->first;

	return LEFT + (span > 0 ? (log2((double)size) - c->first) / span * PLOT_W : PLOT_W / 2.0);
}

static double y_of(const struct chart *c, double ns)
{
	double at = (log10(ns > 0.01 ? ns : 0.01) - c->low) / (c->high - c->low);

	return c->y + TOP + PLOT_H - (at < 0 ? 0 : at) * PLOT_H;
}

static bool same(const struct bench_result *a, const struct bench_result *b)
{
	return !strcmp(a->what, b->what) && !strcmp(a->name, b->name) && a->threads == b->threads;
}

static void scale(struct chart *c)
{
	bool first = true;

	for (size_t i = 0; i < c->b->count; i++) {
		const struct bench_result *r = &c->b->results[i];
		double low = floor(log10(r->p50 > 0.01 ? r->p50 : 0.01)), high = ceil(log10(r->p99 > 0.1 ? r->p99 : 0.1));
		double size = log2((double)r->size);

		if (strcmp(r->what, c->what))
			continue;
		c->of = r->of;
		c->low = first || low < c->low ? low : c->low;
		c->high = first || high > c->high ? high : c->high;
		c->first = first || size < c->first ? size : c->first;
		c->last = first || size > c->last ? size : c->last;
		first = false;
	}
	if (c->high <= c->low)
		c->high = c->low + 1;
}

static void axes(const struct chart *c)
{
	char text[32];

	fprintf(c->f, "<text x=\"%d\" y=\"%d\" font-size=\"16\" font-weight=\"bold\">%s: time of a call, by %s</text>\n",
		LEFT, c->y + 26, c->what, c->of);
	for (double p = c->low; p <= c->high; p++) {
		double y = y_of(c, pow(10, p));

		fprintf(c->f, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>\n"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
			LEFT, y, LEFT + PLOT_W, y, LEFT - 6, y + 4, bench_time(pow(10, p), text));
	}
	for (size_t i = 0; i < c->b->count; i++) {
		const struct bench_result *r = &c->b->results[i];

		/* Each size once: where it comes first. */
		for (size_t k = 0; k < i; k++) {
			if (!strcmp(c->b->results[k].what, c->what) && c->b->results[k].size == r->size)
				r = NULL;
			if (!r)
				break;
		}
		if (!r || strcmp(r->what, c->what))
			continue;
		if (!strcmp(r->of, "bytes"))
			text_size(r->size, text);
		else
			snprintf(text, sizeof(text), "%" PRIu64, r->size);
		fprintf(c->f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x_of(c, r->size),
			c->y + TOP + PLOT_H + 18, text);
	}
}

/* The points of all results like `r`, in the order measured, by their medians or 99th percentiles. */
static void points(const struct chart *c, const struct bench_result *r, bool band)
{
	const struct bench_result *all = c->b->results;
	size_t n = c->b->count;

	for (size_t i = 0; i < n; i++) {
		if (same(&all[i], r))
			fprintf(c->f, "%.1f,%.1f ", x_of(c, all[i].size), y_of(c, all[i].p50));
	}
	for (size_t i = n; band && i--;) {
		if (same(&all[i], r))
			fprintf(c->f, "%.1f,%.1f ", x_of(c, all[i].size), y_of(c, all[i].p99));
	}
}

static void line(const struct chart *c, const struct bench_result *r, size_t number)
{
	const char *color = colors[number % COLORS];
	int y = c->y + TOP + 10 + (int)number * 18;

	fputs("<polygon points=\"", c->f);
	points(c, r, true);
	fprintf(c->f, "\" fill=\"%s\" fill-opacity=\"0.12\"/>\n<polyline points=\"", color);
	points(c, r, false);
	fprintf(c->f, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", color,
		r->threads > 1 ? " stroke-dasharray=\"6 3\"" : "");
	for (size_t i = 0; i < c->b->count; i++) {
		const struct bench_result *p = &c->b->results[i];

		if (same(p, r))
			fprintf(c->f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x_of(c, p->size),
				y_of(c, p->p50), color);
	}
	fprintf(c->f, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>\n"
		"<text x=\"%d\" y=\"%d\">%s, threads: %u</text>\n", LEFT + PLOT_W + 20, y - 10, color, LEFT + PLOT_W + 38, y,
		r->name, r->threads);
}

static void chart(FILE *f, const struct bench *b, const char *what, int y)
{
	struct chart c = { .f = f, .b = b, .what = what, .y = y };
	size_t number = 0;

	scale(&c);
	axes(&c);
	for (size_t i = 0; i < b->count && number < SERIES_MAX; i++) {
		const struct bench_result *r = &b->results[i];
		bool first = true;

		for (size_t k = 0; k < i; k++)
			first &= !same(&b->results[k], r);
		if (first && !strcmp(r->what, what))
			line(&c, r, number++);
	}
}

int bench_svg(const struct bench *b, const char *path)
{
	int charts = 0, y = 30, ret;
	FILE *f;

	for (size_t i = 0; i < b->count; i++)
		charts += !i || strcmp(b->results[i].what, b->results[i - 1].what);
	f = fopen(path, "we");
	if (!f)
		return -errno;
	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
		"font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"%d\" y=\"22\">peerdma bench " TOOL_VERSION ": median, and a band up to the 99th percentile%s</text>\n",
		WIDTH, y + charts * HEIGHT, LEFT, b->software ? "; softgpu is software: its figures are no hardware's" : "");
	for (size_t i = 0; i < b->count; i++) {
		if (!i || strcmp(b->results[i].what, b->results[i - 1].what)) {
			chart(f, b, b->results[i].what, y);
			y += HEIGHT;
		}
	}
	fputs("</svg>\n", f);
	ret = ferror(f) ? -EIO : 0;
	if (fclose(f) && !ret)
		ret = -errno;
	return ret;
}
