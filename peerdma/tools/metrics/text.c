// SPDX-License-Identifier: MIT
/*
 * text.c - samples, and the text that Prometheus reads.
 *
 * Both formats have the same samples. In OpenMetrics a counter's metadata leaves out the
 * suffix _total, there are units, and "# EOF" ends the text. The node exporter's textfile collector
 * reads the older format: what it does not know there, it takes for comments.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

static void write_escaped(FILE *to, const char *s)
{
	for (; *s; s++) {
		if (*s == '\n')
			fputs("\\n", to);
		else if (*s == '"' || *s == '\\')
			fprintf(to, "\\%c", *s);
		else
			putc(*s, to);
	}
}

static char *labels_text(va_list args)
{
	const char *name, *comma = "{";
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);

	if (!to)
		return NULL;
	while ((name = va_arg(args, const char *))) {
		fprintf(to, "%s%s=\"", comma, name);
		write_escaped(to, va_arg(args, const char *));
		putc('"', to);
		comma = ",";
	}
	if (*comma == ',')
		putc('}', to);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

void metric_add(struct metrics *m, enum metric which, uint64_t value, ...)
{
	struct metric_samples *all = &m->of[which];
	struct metric_sample *bigger;
	va_list args;
	char *labels;

	if (all->count == all->room) {
		size_t room = all->room ? 2 * all->room : 8;

		bigger = reallocarray(all->samples, room, sizeof(*bigger));
		if (!bigger) {
			m->no_memory = true;
			return;
		}
		all->samples = bigger;
		all->room = room;
	}
	va_start(args, value);
	labels = labels_text(args);
	va_end(args);
	if (!labels)
		m->no_memory = true;
	else
		all->samples[all->count++] = (struct metric_sample){ labels, value };
}

static int by_labels(const void *a, const void *b)
{
	return strcmp(((const struct metric_sample *)a)->labels,
		      ((const struct metric_sample *)b)->labels);
}

static uint64_t joined(const struct metric_family *family, uint64_t a, uint64_t b)
{
	uint64_t sum;

	if (family->worst)
		return a > b ? a : b;
	return __builtin_add_overflow(a, b, &sum) ? METRIC_UNLIMITED : sum;
}

/* Two samples of the same labels are an error in both formats. */
static void join(const struct metric_family *family, struct metric_samples *all)
{
	size_t n = 0;

	if (all->count)
		qsort(all->samples, all->count, sizeof(all->samples[0]), by_labels);
	for (size_t i = 1; i < all->count; i++) {
		if (strcmp(all->samples[i].labels, all->samples[n].labels)) {
			all->samples[++n] = all->samples[i];
		} else {
			all->samples[n].value = joined(family, all->samples[n].value,
						       all->samples[i].value);
			free(all->samples[i].labels);
		}
	}
	all->count = all->count ? n + 1 : 0;
}

static void print_family(const struct metric_family *family, const struct metric_samples *all,
			 enum metrics_format format, FILE *to)
{
	const char *total = family->counter ? "_total" : "",
		*suffix = format == METRICS_PROMETHEUS ? total : "";

	fprintf(to, "# HELP %s%s %s\n# TYPE %s%s %s\n", family->name, suffix, family->help,
		family->name, suffix, family->counter ? "counter" : "gauge");
	if (family->unit && format == METRICS_OPENMETRICS)
		fprintf(to, "# UNIT %s %s\n", family->name, family->unit);
	for (size_t i = 0; i < all->count; i++) {
		fprintf(to, "%s%s%s ", family->name, total, all->samples[i].labels);
		if (all->samples[i].value == METRIC_UNLIMITED)
			fputs("+Inf\n", to);
		else
			fprintf(to, "%" PRIu64 "\n", all->samples[i].value);
	}
}

void metrics_print(struct metrics *m, enum metrics_format format, FILE *to)
{
	for (int i = 0; i < METRICS; i++) {
		join(&metric_families[i], &m->of[i]);
		if (m->of[i].count)
			print_family(&metric_families[i], &m->of[i], format, to);
	}
	if (format == METRICS_OPENMETRICS)
		fputs("# EOF\n", to);
}

void metrics_free(struct metrics *m)
{
	for (int i = 0; i < METRICS; i++) {
		for (size_t k = 0; k < m->of[i].count; k++)
			free(m->of[i].samples[k].labels);
		free(m->of[i].samples);
	}
	memset(m, 0, sizeof(*m));
}
