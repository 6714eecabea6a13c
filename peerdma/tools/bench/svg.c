// SPDX-License-Identifier: MIT
/*
 * svg.c - a drawing of the results: for each thing measured a chart, time over size,
 * both by powers; a line for the median of each case and number of threads, in a
 * band up to its 99th percentile. A colour is a case, dashes are a number of threads.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "base/svg.h"

#define WIDTH	1000
#define MARGIN	20
#define LEFT	96
#define TOP	36
#define PLOT_W	540
#define PLOT_H	240
#define BELOW	62		/* the plot: sizes, their title, and a gap */
#define KEY_X	(LEFT + PLOT_W + 28)
#define KEY_W	48		/* of a sample of a line */
#define KEY_H	18
#define LINE	16		/* of text */

static const char style[] =
	".grid{stroke:#d0d7de} .axis{stroke:#59636e;fill:none} .line{fill:none;stroke-width:2} .band{fill-opacity:.13}\n"
	".s0{stroke:#0969da} .s1{stroke:#bc4c00} .s2{stroke:#1a7f37} .s3{stroke:#8250df}\n"
	".s4{stroke:#bf3989} .s5{stroke:#7d5b00} .s6{stroke:#0f7c86} .s7{stroke:#424a53}\n"
	".f0{fill:#0969da} .f1{fill:#bc4c00} .f2{fill:#1a7f37} .f3{fill:#8250df}\n"
	".f4{fill:#bf3989} .f5{fill:#7d5b00} .f6{fill:#0f7c86} .f7{fill:#424a53}\n";
static const char dark[] =
	".grid{stroke:#30363d} .axis{stroke:#9aa4af} .band{fill-opacity:.2}\n"
	".s0{stroke:#58a6ff} .s1{stroke:#f0883e} .s2{stroke:#3fb950} .s3{stroke:#bc8cff}\n"
	".s4{stroke:#f778ba} .s5{stroke:#d9b02c} .s6{stroke:#39c5cf} .s7{stroke:#c9d1d9}\n"
	".f0{fill:#58a6ff} .f1{fill:#f0883e} .f2{fill:#3fb950} .f3{fill:#bc8cff}\n"
	".f4{fill:#f778ba} .f5{fill:#d9b02c} .f6{fill:#39c5cf} .f7{fill:#c9d1d9}\n";
#define COLORS	8
static const char *const dashes[] = { "", "8 4", "2 3", "10 3 2 3" };
#define DASHES	(sizeof(dashes) / sizeof(dashes[0]))
/* What is drawn at each size: where there are more cases or numbers of threads than colours and dashes, it differs. */
static const char *const marks[] = {
	"m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z", "m-3 -3h6v6h-6z", "m0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z", "m0 -4l4 7h-8z",
	"m0 4l4 -7h-8z", "m-5 -1.5h10v3h-10z", "m-1.5 -5h3v10h-3z", "m-4 -4h8l-8 8h8z",
};
#define MARKS	(sizeof(marks) / sizeof(marks[0]))

struct chart {
	FILE *f;
	const struct bench *b;
	const char *what, *of;
	int y;			/* of its top */
	double low, high;	/* times: powers of ten */
	double first, last;	/* sizes: powers of two */
};

/* How a line looks: which of its chart's cases, and of the numbers of threads. */
struct look {
	size_t color, dash, mark;
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
		double low = floor(log10(r->times.median > 0.01 ? r->times.median : 0.01)), high = ceil(log10(r->times.p99 > 0.1 ? r->times.p99 : 0.1));
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

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* A mark for each size, and its figure where there is room for it. */
static void size_axis(const struct chart *c)
{
	uint64_t *sizes = calloc(c->b->count, sizeof(*sizes));
	int bottom = c->y + TOP + PLOT_H;
	double end = 0;
	size_t n = 0;

	if (!sizes)
		return;
	for (size_t i = 0; i < c->b->count; i++) {
		if (!strcmp(c->b->results[i].what, c->what))
			sizes[n++] = c->b->results[i].size;
	}
	qsort(sizes, n, sizeof(*sizes), by_size);
	for (size_t i = 0; i < n; i++) {
		double x = x_of(c, sizes[i]), half;
		char text[32];

		if (i && sizes[i] == sizes[i - 1])
			continue;
		if (!strcmp(c->of, "bytes"))
			text_size(sizes[i], text);
		else
			snprintf(text, sizeof(text), "%" PRIu64, sizes[i]);
		half = svg_width(text, strlen(text), SVG_SMALL, false) / 2;
		fprintf(c->f, "<path d=\"M%.1f %dv4\" class=\"axis\"/>\n", x, bottom);
		if (x - half < end)
			continue;
		fprintf(c->f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" class=\"small\">%s</text>\n", x, bottom + 17, text);
		end = x + half + 8;
	}
	free(sizes);
}

static void axes(const struct chart *c)
{
	char title[96], text[32];

	snprintf(title, sizeof(title), "%s: time of one call", c->what);
	svg_text(c->f, LEFT, c->y + 20, "name", title);
	for (double p = c->low; p <= c->high; p++) {
		double y = y_of(c, pow(10, p)), power = pow(10, p), unit = power < 1e3 ? 1 : power < 1e6 ? 1e3 : power < 1e9 ? 1e6 : 1e9;

		snprintf(text, sizeof(text), "%g %s", power / unit, unit < 1e3 ? "ns" : unit < 1e6 ? "us" : unit < 1e9 ? "ms" : "s");
		fprintf(c->f, "<path d=\"M%d %.1fh%d\" class=\"grid\"/>\n"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" class=\"small\">%s</text>\n",
			LEFT, y, PLOT_W, LEFT - 6, y + 4, text);
	}
	fprintf(c->f, "<path d=\"M%d %dv%dh%d\" class=\"axis\"/>\n", LEFT, c->y + TOP, PLOT_H, PLOT_W);
	fprintf(c->f, "<text transform=\"translate(%d %d) rotate(-90)\" text-anchor=\"middle\">time, ns to s (powers of ten)</text>\n",
		LEFT - 62, c->y + TOP + PLOT_H / 2);
	fprintf(c->f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s (powers of two)</text>\n", LEFT + PLOT_W / 2,
		c->y + TOP + PLOT_H + 36, !strcmp(c->of, "bytes") ? "size, bytes" : "size of the cache, regions");
	size_axis(c);
}

/* The points of all results like `r`, by their medians or 99th percentiles. */
static void points(const struct chart *c, const struct bench_result *r, bool band)
{
	const struct bench_result *all = c->b->results;
	size_t n = c->b->count;

	for (size_t i = 0; i < n; i++) {
		if (same(&all[i], r))
			fprintf(c->f, "%.1f,%.1f ", x_of(c, all[i].size), y_of(c, all[i].times.median));
	}
	for (size_t i = n; band && i--;) {
		if (same(&all[i], r))
			fprintf(c->f, "%.1f,%.1f ", x_of(c, all[i].size), y_of(c, all[i].times.p99));
	}
}

static bool in_chart(const struct chart *c, size_t i)
{
	return !strcmp(c->b->results[i].what, c->what);
}

/* The first of its chart's results with the same case and threads. */
static bool is_new(const struct chart *c, size_t i)
{
	if (!in_chart(c, i))
		return false;
	for (size_t k = 0; k < i; k++) {
		if (same(&c->b->results[k], &c->b->results[i]))
			return false;
	}
	return true;
}

/* Which of the chart's cases it is, and which of the numbers of threads, as they come. */
static struct look look_of(const struct chart *c, size_t of)
{
	const struct bench_result *all = c->b->results, *r = &all[of];
	size_t cases = 0, threads = 0;
	bool case_found = false, threads_found = false;

	for (size_t i = 0; i <= of; i++) {
		bool new_case = in_chart(c, i), new_threads = new_case;

		for (size_t k = 0; k < i; k++) {
			new_case &= !in_chart(c, k) || strcmp(all[k].name, all[i].name) != 0;
			new_threads &= !in_chart(c, k) || all[k].threads != all[i].threads;
		}
		if (!in_chart(c, i))
			continue;
		case_found |= !strcmp(all[i].name, r->name);
		threads_found |= all[i].threads == r->threads;
		cases += new_case && !case_found;
		threads += new_threads && !threads_found;
	}
	return (struct look){ cases % COLORS, threads % DASHES, (cases / COLORS + threads / DASHES) % MARKS };
}

static void mark(const struct chart *c, struct look look, double x, double y)
{
	fprintf(c->f, "<path d=\"M%.1f %.1f%s\" class=\"f%zu\"/>\n", x, y, marks[look.mark], look.color);
}

static void line(const struct chart *c, size_t i, size_t number)
{
	const struct bench_result *r = &c->b->results[i];
	struct look look = look_of(c, i);
	int y = c->y + TOP + 10 + (int)number * KEY_H;
	char dash[48] = "", text[128];

	if (*dashes[look.dash])
		snprintf(dash, sizeof(dash), " stroke-dasharray=\"%s\"", dashes[look.dash]);
	fputs("<polygon points=\"", c->f);
	points(c, r, true);
	fprintf(c->f, "\" class=\"band f%zu\"/>\n<polyline points=\"", look.color);
	points(c, r, false);
	fprintf(c->f, "\" class=\"line s%zu\"%s/>\n", look.color, dash);
	for (size_t k = 0; k < c->b->count; k++) {
		const struct bench_result *p = &c->b->results[k];

		if (same(p, r))
			mark(c, look, x_of(c, p->size), y_of(c, p->times.median));
	}
	fprintf(c->f, "<path d=\"M%d %dh%d\" class=\"key line s%zu\"%s/>\n", KEY_X, y, KEY_W, look.color, dash);
	mark(c, look, KEY_X + KEY_W / 2.0, y);
	snprintf(text, sizeof(text), "%s, %u thread%s", r->name, r->threads, r->threads == 1 ? "" : "s");
	svg_text(c->f, KEY_X + KEY_W + 8, y + 4, "small", text);
}

/* Returns the height. */
static int chart(FILE *f, const struct bench *b, const char *what, int y, bool print)
{
	struct chart c = { .f = f, .b = b, .what = what, .y = y };
	size_t number = 0;
	int keys;

	scale(&c);
	if (print)
		axes(&c);
	for (size_t i = 0; i < b->count; i++) {
		if (!is_new(&c, i))
			continue;
		if (print)
			line(&c, i, number);
		number++;
	}
	keys = (int)number * KEY_H + BELOW / 2;
	return TOP + (keys > PLOT_H + BELOW ? keys : PLOT_H + BELOW);
}

static int charts(FILE *f, const struct bench *b, int y, bool print)
{
	for (size_t i = 0; i < b->count; i++) {
		if (!i || strcmp(b->results[i].what, b->results[i - 1].what))
			y += chart(f, b, b->results[i].what, y, print);
	}
	return y;
}

/* The processor, as the kernel names it; "" not known. */
static void processor(char *out, size_t size)
{
	char row[256];
	FILE *f = fopen("/proc/cpuinfo", "re");

	*out = 0;
	while (f && fgets(row, sizeof(row), f)) {
		char *text = strstr(row, ": "), *clean;

		if (strncmp(row, "model name", 10) || !text)
			continue;
		clean = text_clean(text + 2, strcspn(text + 2, "\n"));
		snprintf(out, size, ", %s", clean ? clean : "");
		free(clean);
		break;
	}
	if (f)
		fclose(f);
}

/* What was measured where, and when. */
static void heading(const struct bench *b, char *out, size_t size)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char model[160], when[32] = "";
	time_t now = time(NULL);
	struct utsname u;
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &tm);
	processor(model, sizeof(model));
	if (uname(&u))
		memset(&u, 0, sizeof(u));
	snprintf(out, size, "%s. %s %s, %ld processor%s%s. GPU: %s%s. Lines are medians; bands reach up to the 99th percentile.",
		 when, u.sysname, u.release, cpus, cpus == 1 ? "" : "s", model, b->gpu ? b->gpu_name : "none",
		 b->software ? ", software: its figures say nothing about hardware" : "");
}

/* Its lines; returns where the last one is. f may be NULL. */
static int paragraph(FILE *f, const char *text, int y)
{
	while (*text) {
		size_t n = svg_fit(text, SVG_SMALL, false, WIDTH - 2 * MARGIN);

		y += LINE;
		if (f) {
			fprintf(f, "<text x=\"%d\" y=\"%d\" class=\"small\">", MARGIN, y);
			svg_put(f, text, n);
			fputs("</text>\n", f);
		}
		text += n;
		text += strspn(text, " ");
	}
	return y;
}

/* The points of a line by size: the user may have given sizes in any order. */
static void sort(struct bench_result *results, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < i; k++) {
			if (same(&results[k], &results[i]) && results[k].size > results[i].size) {
				struct bench_result other = results[k];

				results[k] = results[i];
				results[i] = other;
			}
		}
	}
}

static void draw(FILE *f, const struct bench *b)
{
	char text[512];
	int y;

	heading(b, text, sizeof(text));
	y = paragraph(NULL, text, MARGIN + LINE) + LINE;
	svg_begin(f, WIDTH, (unsigned int)charts(f, b, y, false), "peerdma bench: time of one call by size", style, dark);
	svg_text(f, MARGIN, MARGIN + LINE, "name", "peerdma bench " TOOL_VERSION);
	paragraph(f, text, MARGIN + LINE);
	charts(f, b, y, true);
	svg_end(f);
}

int bench_svg(const struct bench *b, const char *path)
{
	struct bench sorted = *b;
	int ret = 0;
	FILE *f;

	f = fopen(path, "we");
	if (!f)
		return -errno;
	sorted.results = malloc((b->count + 1) * sizeof(*sorted.results));
	if (sorted.results) {
		for (size_t i = 0; i < b->count; i++)
			sorted.results[i] = b->results[i];
		sort(sorted.results, b->count);
		draw(f, &sorted);
		free(sorted.results);
		if (ferror(f))
			ret = -EIO;
	} else {
		ret = -ENOMEM;
	}
	if (fclose(f) && !ret)
		ret = -errno;
	return ret;
}
