// SPDX-License-Identifier: MIT
/*
 * bench_outputs.c - prints what `peerdma bench` makes of measurements that are the same everywhere: its clock goes on by
 * what each call of a made-up case takes, and the machine is made up. test_outputs.py compares it with bench.txt.
 *
 *   bench_outputs FOLDER       the drawing goes there, too: the commands for gnuplot, whose place cat takes
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "peerdma_copy.h"

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
time_t __wrap_time(time_t *t);
int __wrap_uname(struct utsname *u);
long __wrap_sysconf(int name);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);

#define LOOK	7	/* ns that a look at the clock takes */

static uint64_t now = 1000000000;
static long processors = 8;
static const char cpuinfo[] = "processor\t: 0\nvendor_id\t: X\nmodel name\t: A processor & <more> of many words, so that what is said of "
			      "the machine takes more than one line of the drawing\nmodel name\t: another\n";

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	now += LOOK;
	*t = (struct timespec){ (time_t)(now / 1000000000), (long)(now % 1000000000) };
	return 0;
}

time_t __wrap_time(time_t *t)
{
	if (t)
		*t = 1700000000;
	return 1700000000;
}

int __wrap_uname(struct utsname *u)
{
	memset(u, 0, sizeof(*u));
	strcpy(u->sysname, "Linux");
	strcpy(u->release, "6.1.0");
	return 0;
}

long __wrap_sysconf(int name)
{
	return name == _SC_NPROCESSORS_ONLN ? processors : -1;
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
	return strcmp(path, "/proc/cpuinfo") ? __real_fopen(path, mode) : fmemopen((void *)(uintptr_t)cpuinfo, strlen(cpuinfo), "r");
}

FILE *__wrap_fopen64(const char *path, const char *mode)
{
	return strcmp(path, "/proc/cpuinfo") ? __real_fopen64(path, mode) : fmemopen((void *)(uintptr_t)cpuinfo, strlen(cpuinfo), "r");
}

const char *peerdma_copy_method(void)
{
	return "plain";
}

const char *peerdma_last_error(void)
{
	return "the library's text";
}

/* ---- made-up cases: each call takes longer than the one before, and every tenth much longer ---- */

static struct {
	uint64_t ns;		/* of a call, the least */
	unsigned int made, fails_at, begun, ended;
} made_up;

static int begin(void *arg, unsigned int thread, void **state)
{
	if (thread || arg != &made_up)
		return -EINVAL;
	made_up.begun++;
	*state = &made_up;
	return 0;
}

static int calls(void *state, unsigned int n)
{
	if (state != &made_up || (made_up.fails_at && made_up.made + 1 == made_up.fails_at))
		return -EIO;
	made_up.made++;
	now += n * (made_up.ns + made_up.made * made_up.ns / 50 + (made_up.made % 10 ? 0 : 20 * made_up.ns));
	return 0;
}

static void end(void *state)
{
	if (state == &made_up)
		made_up.ended++;
}

static int no_begin(void *arg, unsigned int thread, void **state)
{
	return -ENOMEM;
}

static void measured(struct bench *b, const char *what, const char *name, const char *of, uint64_t size, unsigned int batch,
		     uint64_t ns, bool moves)
{
	made_up.ns = ns;
	made_up.made = 0;
	bench_measure(b, &(struct bench_case){ .what = what, .name = name, .of = of, .size = size, .batch = batch, .moves = moves,
					       .arg = &made_up, .begin = begin, .calls = calls, .end = end });
}

/* What another number of threads would have been. */
static void also(struct bench *b, unsigned int threads, double times)
{
	struct bench_result *r = &b->results[b->count++];

	*r = r[-1];
	r->threads = threads;
	r->samples *= threads;
	r->times.min *= times;
	r->times.median *= times;
	r->times.p90 *= times;
	r->times.p99 *= times;
	r->times.max *= times;
	r->rate *= threads / times;
}

static void options(const struct bench *b)
{
	const struct bench_options *o = &b->options;

	printf("  count %lu, seconds %g, pci %s, threads", o->count, o->seconds, o->pci ? o->pci : "-");
	for (size_t i = 0; i < o->thread_count; i++)
		printf(" %u", o->threads[i]);
	printf(", sizes");
	for (size_t i = 0; i < o->size_count; i++)
		printf(" %lu", o->sizes[i]);
	printf("\n");
}

static bool told, few, many, none;

void bench_cache(struct bench *b)
{
	static const uint64_t usual[] = { 16, 1024, 0 };
	const uint64_t *sizes;
	size_t n = bench_sizes(b, usual, &sizes);

	if (told)
		options(b);
	for (size_t i = 0; i < n && !none; i++) {
		measured(b, "cache", "hit", "regions", sizes[i], 64, 3, false);
		if (many)
			also(b, 4, 1.5);
		measured(b, "cache", "miss and end", "regions", sizes[i], 64, 800, false);
	}
}

void bench_query(struct bench *b)
{
	if (few || none)
		return;
	measured(b, "query", "stack", "bytes", 1, 16, 12, false);
	if (!many)
		return;
	/* As many lines as there are marks for, and in any order of sizes. */
	for (uint64_t i = 0; i < 20; i++) {
		static char names[20][32];

		snprintf(names[i], sizeof(names[i]), "case %c", (int)('a' + i / 2));
		measured(b, "query", names[i], "bytes", i % 2 ? 4096 : 1 << 20, 16, 100 << i / 2, false);
		if (i < 4)
			also(b, 2, 2);
		if (i < 2) {
			also(b, 3, 1.5);
			also(b, 5, 1.5);
			also(b, 6, 1.5);
		}
	}
}

void bench_pin(struct bench *b)
{
	bench_leave_out(b, "pin", "nothing pins");
	bench_leave_out(b, "pin", "nothing pins");
	bench_leave_out(b, "pin", "for another reason");
}

void bench_map(struct bench *b)
{
	if (few || none)
		return;
	measured(b, "map", "far", "bytes", 65536, 1, 30000000, false);
	made_up.fails_at = 9;
	measured(b, "map", "fails", "bytes", 4096, 1, 10, false);
	made_up.fails_at = 2;
	measured(b, "map", "fails at once", "bytes", 4096, 1, 10, false);
	made_up.fails_at = 0;
	bench_measure(b, &(struct bench_case){ .what = "map", .name = "none", .of = "bytes", .size = 1, .batch = 1, .begin = no_begin,
					       .calls = calls, .end = end });
}

void bench_copy(struct bench *b)
{
	if (few || none)
		return;
	measured(b, "copy", "memcpy", "bytes", 64, 16, 5, true);
	measured(b, "copy", "memcpy", "bytes", 1 << 20, 1, 50000, true);
	/* The clock's own cost is more than these take. */
	measured(b, "copy", "at once", "bytes", 64, 1, 0, true);
}

static bool has_gpu, has_pins;

void subjects_open(struct bench *b)
{
	b->gpu = has_gpu;
	b->software = has_gpu;
	strcpy(has_gpu ? b->gpu_name : b->why_no_gpu, has_gpu ? "softgpu 0" : "no library");
	if (has_pins) {
		b->ctx = (struct peerdma *)&made_up;
		strcpy(b->host_provider, "host");
		strcpy(b->device_provider, has_gpu ? "nvidia" : "");
	} else {
		strcpy(b->why_not, "no module");
	}
}

void subjects_close(struct bench *b)
{
	if (b->ctx)
		printf("  closed\n");
	b->ctx = NULL;
}

/* ---- runs ---- */

static struct tool tool = { .root = "", .columns = 80, .ascii = true };

static void run(const char *line)
{
	char copy[256], *argv[16], *save;
	int argc = 0, ret;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	argv[argc] = NULL;
	printf("$ %s\n", line);
	made_up.begun = made_up.ended = 0;
	now = 1000000000;
	ret = cmd_bench(&tool, argc, argv);
	fflush(stdout);
	printf("[%d]  %u begun, %u ended\n", ret, made_up.begun, made_up.ended);
	tool.json = false;
}

static void figures(void)
{
	static const double times[] = { 0, 0.004, 1, 9.994, 9.996, 99.94, 99.96, 999.4, 999.6, 1000, 12345, 999999, 1e6, 9.5e8, 1e9, 7.25e12 };
	struct bench b = { .tool = &tool };
	char text[32], label[96];

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		printf("%g ns: %s\n", times[i], bench_time(times[i], text));
	for (unsigned int threads = 1; threads < 3; threads++)
		printf("%s; %s\n", bench_label(&(struct bench_result){ .name = "a", .of = "bytes", .size = 65536, .threads = threads }, label),
		       bench_label(&(struct bench_result){ .name = "b", .of = "regions", .size = 65536, .threads = threads }, (char[96]){ 0 }));
	for (int i = 0; i < 20; i++) {
		snprintf(text, sizeof(text), "reason %d", i % 17);
		bench_leave_out(&b, "map", text);
	}
	printf("%zu left out, the last: %s\n", b.left_out_count, b.left_out[b.left_out_count - 1].why);
}

/* What the command finds by the name of gnuplot. */
static void make_gnuplot(const char *folder, const char *does)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/gnuplot", folder);
	f = fopen(path, "w");
	fprintf(f, "#!/bin/sh\n%s\n", does);
	fclose(f);
	chmod(path, 0700);
	snprintf(path, sizeof(path), "%s:/usr/bin:/bin", folder);
	setenv("PATH", path, 1);
}

int main(int argc, char **argv)
{
	char line[256], path[128];
	FILE *drawn;
	int c;

	if (argc != 2)
		return 2;
	figures();
	told = true;
	few = true;
	run("bench cache");
	processors = 1;
	run("bench cache --sizes 1,2K,3M,64G --threads 1 --count 10000000 --seconds 0.001 --pci 0000:01:00.0");
	processors = 3;
	run("bench cache --count 1 --seconds 3600 --sizes 4");
	processors = 2;
	run("bench cache --threads 1 --count 100 --sizes 4");
	run("bench cache --threads 1 --count 100 --seconds 0.0005 --sizes 4");
	/* Longer than a look at progress. */
	run("bench cache --threads 1 --seconds 3 --count 1000000 --sizes 4,8");
	few = told = false;
	processors = 8;
	none = true;
	run("bench --threads 1");
	none = false;
	run("bench --threads 1 --count 20");
	has_pins = true;
	run("bench --threads 1 --count 20 copy");
	has_gpu = true;
	tool.color = true;
	tool.ascii = false;
	tool.columns = 50;
	run("bench --threads 1 --count 20");
	tool.color = false;
	run("bench --threads 1 --count 20 --json");
	many = true;
	snprintf(path, sizeof(path), "%s/bench.svg", argv[1]);
	snprintf(line, sizeof(line), "bench --threads 1 --count 20 --svg %s", path);
	setenv("PATH", "/none", 1);
	run(line);
	make_gnuplot(argv[1], "exit 1");
	run(line);
	make_gnuplot(argv[1], "read -r line || exit 0; exit 1");
	snprintf(line, sizeof(line), "bench copy --threads 1 --count 20 --svg %s", path);
	run(line);
	make_gnuplot(argv[1], "exec cat");
	for (int i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), "bench%s --threads 1 --count 20 --svg %s", i ? " cache --sizes 1000,1001,1015,1030,1100,1200,1400,1000" : "", path);
		run(line);
		drawn = fopen(path, "r");
		while (drawn && (c = fgetc(drawn)) != EOF)
			putchar(c);
		if (drawn)
			fclose(drawn);
		has_gpu = false;
		processors = 1;
		many = false;
	}
	return 0;
}
