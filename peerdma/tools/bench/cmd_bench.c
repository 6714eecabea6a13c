// SPDX-License-Identifier: MIT
/*
 * cmd_bench.c - `peerdma bench`: what libpeerdma's calls cost on this machine.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"
#include "base/json.h"
#include "peerdma_copy.h"
#include "base/table.h"

static const char usage[] =
	"Usage: peerdma bench [OPTIONS] [cache|query|pin|map|copy]\n"
	"\n"
	"Measures libpeerdma's calls with what this machine has, and says what that is.\n"
	"All of them take about a minute.\n"
	"\n"
	"  --sizes N,...    bytes, or regions of a cache: 4096, 64K, 16M\n"
	"  --threads N,...  at a time (1, and as many as there are processors, up to 4)\n"
	"  --count N        samples of each thread, at most (10000)\n"
	"  --seconds N      for each case, at most (0.5)\n"
	"  --pci ADDRESS    map also for this device; needs root\n"
	"  --json           one JSON object, schema peerdma-bench/1\n"
	"  --svg FILE       also draws to FILE, by gnuplot\n"
	"  --ascii, --color the picture in the terminal\n"
	"\n"
	"Exit code: 0 measured, 1 wrong usage or an error, 2 this machine lacks what was asked for.\n";

static const struct {
	const char *name;
	void (*run)(struct bench *b);
} whats[] = {
	{ "cache", bench_cache }, { "query", bench_query }, { "pin", bench_pin },
	{ "map", bench_map }, { "copy", bench_copy },
};
#define WHATS (sizeof(whats) / sizeof(whats[0]))

/* ---- options ---- */

/* "64K": a number and perhaps a power of 1024. */
static bool parse_size(const char *s, size_t length, uint64_t *out)
{
	static const char units[] = "KMG";
	const char *unit = length ? memchr(units, s[length - 1], 3) : NULL;
	unsigned int shift = unit ? 10 * (unsigned int)(unit - units + 1) : 0;

	return text_u64(s, length - !!unit, out) && *out && *out <= (1ULL << 40) >> shift &&
	       (*out <<= shift);
}

/* Commas between; 0: too many, or one is no number from 1 to max. */
static size_t parse_list(const char *s, uint64_t *out, size_t room, uint64_t max)
{
	size_t n = 0;

	for (;;) {
		size_t length = strcspn(s, ",");

		if (n == room || !parse_size(s, length, &out[n]) || out[n] > max)
			return 0;
		n++;
		if (!s[length])
			return n;
		s += length + 1;
	}
}

static bool parse_seconds(const char *s, double *out)
{
	char *end;

	*out = strtod(s, &end);
	return end != s && !*end && *s >= '0' && *s <= '9' && *out > 0 && *out <= 3600;
}

static void usual_threads(struct bench_options *o)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	o->threads[o->thread_count++] = 1;
	if (cpus > 1)
		o->threads[o->thread_count++] = cpus < 4 ? (unsigned int)cpus : 4;
}

static int refuse(const char *option, const char *value, const char *wanted)
{
	warn("bench: %s %s: %s", option, value, wanted);
	return EXIT_ERROR;
}

static int parse(struct bench_options *o, const char *sizes, const char *threads, const char *count,
		 const char *seconds)
{
	uint64_t numbers[BENCH_SIZES_MAX];

	*o = (struct bench_options){ .count = 10000, .seconds = 0.5, .pci = o->pci };
	if (sizes && !(o->size_count = parse_list(sizes, o->sizes, BENCH_SIZES_MAX, 1ULL << 36)))
		return refuse("--sizes", sizes, "up to 32 of 1 to 64G, commas between");
	if (threads) {
		o->thread_count = parse_list(threads, numbers, BENCH_SIZES_MAX, BENCH_THREADS_MAX);
		if (!o->thread_count)
			return refuse("--threads", threads, "up to 32 of 1 to 64, commas between");
		for (size_t i = 0; i < o->thread_count; i++)
			o->threads[i] = (unsigned int)numbers[i];
	} else {
		usual_threads(o);
	}
	if (count && (!text_u64(count, strlen(count), &o->count) || !o->count ||
		      o->count > 10000000))
		return refuse("--count", count, "from 1 to 10000000");
	if (seconds && !parse_seconds(seconds, &o->seconds))
		return refuse("--seconds", seconds, "above 0, up to 3600");
	return -1;
}

/* ---- what came of it ---- */

static void print_machine(const struct bench *b)
{
	int (*active)(void);
	struct utsname u;

	if (!uname(&u))
		printf("machine    %s %s, %ld processors\n", u.sysname, u.release,
		       sysconf(_SC_NPROCESSORS_ONLN));
	if (!b->ctx)
		printf("pins       none: %s\n", b->why_not);
	else if (*b->host_provider)	/* of pins that were measured */
		printf("pins       host memory by '%s'%s%s%s\n", b->host_provider,
		       *b->device_provider ? ", a GPU's by '" : "", b->device_provider, *b->device_provider ? "'" : "");
	if (b->gpu)
		printf("GPU        %s\n", b->gpu_name);
	else
		printf("GPU        none: %s\n", b->why_no_gpu);
	printf("copies     %s\n", peerdma_copy_method());
	active = (int (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "peerdma_hooks_active");
	if (active && active())
		puts("hooks      in front of CUDA: queries of mapped memory may be remembered");
	if (b->software)
		puts("\nThe GPU is softgpu, a stand-in in software: figures of its memory and pins say nothing about hardware.");
}

static const char *bandwidth(const struct bench_result *r, char buf[32])
{
	snprintf(buf, 32, "%.2f GB/s", (double)r->size * r->rate / 1e9);
	return r->moves ? buf : "";
}

static void print_table(const struct bench *b)
{
	static const char *const titles[] = {
		"WHAT", "CASE", "SIZE>", "THREADS>", "MIN>", "P50>", "P90>", "P99>", "MAX>",
		"CALLS/S>", "MOVED>", "SAMPLES>",
	};
	struct table *table;

	if (!b->count)
		return;
	table = table_new(titles, sizeof(titles) / sizeof(titles[0]));
	for (size_t i = 0; i < b->count; i++) {
		const struct bench_result *r = &b->results[i];
		char size[48], threads[16], min[32], p50[32], p90[32], p99[32], max[32], rate[32],
			moved[32], samples[32];

		if (!strcmp(r->of, "bytes"))
			text_size(r->size, size);
		else
			snprintf(size, sizeof(size), "%" PRIu64 " %s", r->size, r->of);
		snprintf(threads, sizeof(threads), "%u", r->threads);
		snprintf(rate, sizeof(rate), "%.3g", r->rate);
		snprintf(samples, sizeof(samples), "%" PRIu64, r->samples);
		table_add(table, (const char *[]){
			r->what, r->name, size, threads, bench_time(r->times.min, min),
			bench_time(r->times.median, p50), bench_time(r->times.p90, p90),
			bench_time(r->times.p99, p99), bench_time(r->times.max, max), rate,
			bandwidth(r, moved), samples });
	}
	puts("");
	table_print(table, "");
	puts("\nTime of one call; under 65536 bytes copies, queries and the cache's are means of some calls in a row.");
}

static void json_result(struct json_object *o, const struct bench_result *r)
{
	json_text(o, "what", r->what);
	json_text(o, "case", r->name);
	json_number(o, "size", r->size);
	json_text(o, "size_of", r->of);
	json_number(o, "threads", r->threads);
	json_number(o, "samples", r->samples);
	json_number(o, "calls_per_sample", r->batch);
	json_real(o, "min_ns", r->times.min);
	json_real(o, "p50_ns", r->times.median);
	json_real(o, "p90_ns", r->times.p90);
	json_real(o, "p99_ns", r->times.p99);
	json_real(o, "max_ns", r->times.max);
	json_real(o, "calls_per_second", r->rate);
	if (r->moves)
		json_real(o, "bytes_per_second", (double)r->size * r->rate);
}

static int print_json(const struct bench *b)
{
	struct json_object *o = json_new("peerdma-bench/1"), *part;
	struct utsname u;

	part = json_object_in(o, "machine");
	json_text(part, "kernel", uname(&u) ? NULL : u.release);
	json_number(part, "processors", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	json_text(part, "copy_method", peerdma_copy_method());
	part = json_object_in(o, "pins");
	json_text(part, "host", *b->host_provider ? b->host_provider : NULL);
	json_text(part, "device", *b->device_provider ? b->device_provider : NULL);
	json_text(part, "why_none", b->ctx ? NULL : b->why_not);
	part = json_object_in(o, "gpu");
	json_text(part, "name", b->gpu ? b->gpu_name : NULL);
	json_truth(part, "software", b->software);
	json_text(part, "why_none", b->gpu ? NULL : b->why_no_gpu);
	part = json_array_in(o, "left_out");
	for (size_t i = 0; i < b->left_out_count; i++) {
		struct json_object *item = json_append(part);

		json_text(item, "what", b->left_out[i].what);
		json_text(item, "why", b->left_out[i].why);
	}
	part = json_array_in(o, "results");
	for (size_t i = 0; i < b->count; i++)
		json_result(json_append(part), &b->results[i]);
	return json_print(o);
}

static int print_all(const struct bench *b, const char *svg)
{
	int ret = EXIT_OK, error;

	if (b->tool->json) {
		ret = print_json(b);
	} else {
		print_machine(b);
		print_table(b);
		bench_bars(b);
		for (size_t i = 0; i < b->left_out_count; i++)
			printf("%s%s: not measured, or only in part: %s\n", i ? "" : "\n",
			       b->left_out[i].what, b->left_out[i].why);
	}
	error = svg && b->count ? bench_plot(b, svg) : 0;
	if (error) {
		warn("bench: %s: %s", svg,
		     error == -ECANCELED ? "gnuplot has failed" : strerror(-error));
		ret = EXIT_ERROR;
	}
	return ret == EXIT_OK && !b->count ? EXIT_UNKNOWN : ret;
}

int cmd_bench(struct tool *tool, int argc, char **argv)
{
	const char *sizes = NULL, *threads = NULL, *count = NULL, *seconds = NULL, *svg = NULL,
		*what = NULL;
	struct bench b = { .tool = tool };
	const struct tool_own own[] = {
		{ .name = "sizes", .value = &sizes }, { .name = "threads", .value = &threads },
		{ .name = "count", .value = &count }, { .name = "seconds", .value = &seconds },
		{ .name = "svg", .value = &svg, .path = true },
		{ .name = "pci", .value = &b.options.pci }, { .value = &what },
	};
	bool known = false;
	int ret = tool_options_own(tool, argc, argv, OPTION_JSON | OPTION_ASCII | OPTION_COLOR, own,
				   sizeof(own) / sizeof(own[0]), usage);

	if (ret < 0)
		ret = parse(&b.options, sizes, threads, count, seconds);
	if (ret >= 0)
		return ret;
	for (size_t i = 0; what && i < WHATS; i++)
		known |= !strcmp(what, whats[i].name);
	if (what && !known) {
		warn("bench: '%s' cannot be measured; choose one of cache, query, pin, map and copy", what);
		return EXIT_ERROR;
	}
	/* Before minutes are spent on what could not be written then. */
	ret = svg ? bench_can_write(svg) : 0;
	if (ret) {
		warn("bench: %s: %s", svg, strerror(-ret));
		return EXIT_ERROR;
	}
	if (svg && !bench_can_plot()) {
		warn("bench: --svg: gnuplot cannot be run; install it (Debian: gnuplot-nox, Fedora: gnuplot-minimal)");
		return EXIT_UNKNOWN;
	}
	subjects_open(&b);
	for (size_t i = 0; i < WHATS; i++) {
		if (!what || !strcmp(what, whats[i].name))
			whats[i].run(&b);
	}
	ret = print_all(&b, svg);
	if (ret == EXIT_UNKNOWN && b.left_out_count)
		warn("bench: nothing could be measured: %s", b.left_out[0].why);
	subjects_close(&b);
	free(b.results);
	return ret;
}
