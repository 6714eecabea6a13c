// SPDX-License-Identifier: MIT
/*
 * plot.c - a drawing of the results, by gnuplot: for each thing measured a chart, time over size, both by powers; a line
 * for the median of each case and number of threads, in a band up to its 99th percentile.  A colour is a case, dashes
 * and points are a number of threads.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define WIDTH		1000
#define HEADING_HEIGHT	70
#define CHART_HEIGHT	340
#define KEY_HEIGHT	18	/* of a line */
#define COLORS		8
#define DASHES		5
#define POINTS		7	/* kinds for the cases that have a colour first */
#define DRAWING_MAX	(256U << 20)
#define NS_LEAST	0.01	/* shorter ones have no logarithm, or a useless one */

/* The results of one chart: they follow each other. */
struct chart {
	const struct bench_result *results;
	size_t count;
};

/* ---- the program ---- */

/* Starts gnuplot on `commands`; what it draws goes to `out`. */
static int start(int commands, int out, pid_t *pid)
{
	char *argv[] = { "gnuplot", "-d", "-", NULL };
	posix_spawn_file_actions_t actions;
	int ret;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, commands, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	ret = -posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return ret;
}

/* 0, or -ECANCELED it has failed, or -errno. */
static int finish(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return status ? -ECANCELED : 0;
}

bool bench_can_plot(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid;
	int ret = null < 0 ? -errno : start(null, null, &pid);

	if (!ret)
		ret = finish(pid);
	if (null >= 0)
		close(null);
	return !ret;
}

/* The whole drawing, through a pipe: gnuplot's exit code does not say that it could not write to a file. */
static int draw(int commands, char **text, size_t *length)
{
	int pipes[2], ret, ended;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return -errno;
	ret = start(commands, pipes[1], &pid);
	close(pipes[1]);
	if (ret) {
		close(pipes[0]);
		return ret;
	}
	ret = file_read_all(pipes[0], DRAWING_MAX, text, length);
	close(pipes[0]);
	ended = finish(pid);
	if (!ret && ended)
		free(*text);
	return ret ? ret : ended;
}

/* ---- the file ---- */

/* *made: there was none.  A descriptor or -errno. */
static int open_file(const char *path, bool *made)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	*made = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int bench_can_write(const char *path)
{
	bool made;
	int fd = open_file(path, &made);

	if (fd < 0)
		return fd;
	close(fd);
	return made && unlink(path) ? -errno : 0;
}

/* A new file is there as a whole or not at all. */
static int write_file(const char *path, const char *text, size_t length)
{
	struct stat st;
	bool made;
	int fd = open_file(path, &made), ret;

	if (fd < 0)
		return fd;
	ret = fstat(fd, &st) || (S_ISREG(st.st_mode) && ftruncate(fd, 0)) ? -errno : 0;
	if (!ret)
		ret = file_write_all(fd, text, length);
	if (close(fd) && !ret)
		ret = -errno;
	if (ret && made)
		unlink(path);
	return ret;
}

/* ---- its commands ---- */

/* As a string in single quotes, in which gnuplot takes nothing else for special. */
static void put_quoted(FILE *f, const char *s)
{
	putc('\'', f);
	for (; *s; s++) {
		if (*s == '\'')
			putc('\'', f);
		putc(*s, f);
	}
	putc('\'', f);
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
static void put_heading(FILE *f, const struct bench *b)
{
	char lines[3][384], when[32] = "", model[160];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	time_t now = time(NULL);
	struct utsname u;
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &tm);
	processor(model, sizeof(model));
	if (uname(&u))
		memset(&u, 0, sizeof(u));
	snprintf(lines[0], sizeof(lines[0]), "peerdma bench " TOOL_VERSION ", %s", when);
	snprintf(lines[1], sizeof(lines[1]), "%s %s, %ld processor%s%s", u.sysname, u.release, cpus,
		 cpus == 1 ? "" : "s", model);
	snprintf(lines[2], sizeof(lines[2]),
		 "GPU: %s%s. Lines are medians; bands reach up to the 99th percentile.",
		 b->gpu ? b->gpu_name : "none",
		 b->software ? ", software: its figures say nothing about hardware" : "");
	for (int i = 0; i < 3; i++) {
		fputs(i ? ".\"\\n\"." : "", f);
		put_quoted(f, lines[i]);
	}
}

static bool same(const struct bench_result *a, const struct bench_result *b)
{
	return !strcmp(a->name, b->name) && a->threads == b->threads;
}

/* The first of its chart's results with the same case and threads. */
static bool is_new(const struct chart *c, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (same(&c->results[k], &c->results[i]))
			return false;
	}
	return true;
}

static size_t lines_in(const struct chart *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->count; i++)
		n += is_new(c, i);
	return n;
}

static int by_size(const void *a, const void *b)
{
	const struct bench_result *x = *(const struct bench_result *const *)a,
		*y = *(const struct bench_result *const *)b;

	return (x->size > y->size) - (x->size < y->size);
}

static double seconds(double ns)
{
	return (ns > NS_LEAST ? ns : NS_LEAST) / 1e9;
}

/* The points of a line, by size: the user may have given sizes in any order. */
static void put_points(FILE *f, const struct chart *c, size_t of, const struct bench_result **room)
{
	size_t n = 0;

	for (size_t i = 0; i < c->count; i++) {
		if (same(&c->results[i], &c->results[of]))
			room[n++] = &c->results[i];
	}
	qsort(room, n, sizeof(*room), by_size);
	fprintf(f, "$line%zu << end\n", of);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%" PRIu64 " %.5g %.5g\n", room[i]->size, seconds(room[i]->times.median),
			seconds(room[i]->times.p99));
	fputs("end\n", f);
}

/* Which of the chart's cases a result's is, as they come; and which number of threads. */
static size_t number_of(const struct chart *c, size_t of, bool threads)
{
	size_t number = 0;

	for (size_t i = 0; i < of; i++) {
		const struct bench_result *r = &c->results[i];
		bool first = true, own = threads ? r->threads == c->results[of].threads :
			!strcmp(r->name, c->results[of].name);

		if (own)
			return number;
		for (size_t k = 0; k < i; k++)
			first &= threads ? c->results[k].threads != r->threads :
				!!strcmp(c->results[k].name, r->name);
		number += first;
	}
	return number;
}

static void put_line(FILE *f, const struct chart *c, size_t i)
{
	const struct bench_result *r = &c->results[i];
	size_t number = number_of(c, i, false), color = number % COLORS + 1,
		threads = number_of(c, i, true);
	char title[96];

	fprintf(f, "%s \\\n$line%zu using 1:2:3 with filledcurves fillstyle transparent solid 0.13 linecolor %zu notitle, \\\n",
		i ? "," : "plot", i, color);
	fprintf(f, "$line%zu using 1:2 with linespoints linewidth 2 linecolor %zu dashtype %zu pointtype %zu title ", i, color,
		threads % DASHES + 1, number / COLORS * POINTS + threads + 1);
	snprintf(title, sizeof(title), "%s, %u thread%s", r->name, r->threads,
		 r->threads == 1 ? "" : "s");
	put_quoted(f, title);
}

static void put_chart(FILE *f, const struct chart *c, const struct bench_result **room)
{
	uint64_t first = UINT64_MAX, last = 0;
	double low = 1, high = 0;
	bool bytes = !strcmp(c->results->of, "bytes");

	for (size_t i = 0; i < c->count; i++) {
		const struct bench_result *r = &c->results[i];

		first = r->size < first ? r->size : first;
		last = r->size > last ? r->size : last;
		low = seconds(r->times.median) < low ? seconds(r->times.median) : low;
		high = seconds(r->times.p99) > high ? seconds(r->times.p99) : high;
		if (is_new(c, i))
			put_points(f, c, i, room);
	}
	fprintf(f, "set title '%s: time of one call'\n", c->results->what);
	fprintf(f, "set xlabel '%s (powers of two)'\n",
		bytes ? "size, bytes" : "size of the cache, regions");
	/* Wider than what is drawn: one size, or one time, would be no range. */
	fprintf(f, "set xrange [%g:%g]\nset yrange [%g:%g]\n", (double)first / 1.5,
		(double)last * 1.5, pow(10, floor(log10(low / 1.01))),
		pow(10, ceil(log10(high * 1.01))));
	for (size_t i = 0; i < c->count; i++) {
		if (is_new(c, i))
			put_line(f, c, i);
	}
	putc('\n', f);
}

/* The chart from this result on. */
static struct chart chart_at(const struct bench *b, size_t from)
{
	struct chart c = { &b->results[from], 0 };

	while (from + c.count < b->count && !strcmp(c.results[c.count].what, c.results->what))
		c.count++;
	return c;
}

static void put_commands(FILE *f, const struct bench *b, const struct bench_result **room)
{
	size_t charts = 0, lines = 0, height;
	struct chart c;

	for (size_t i = 0; i < b->count; i += c.count) {
		c = chart_at(b, i);
		charts++;
		lines = lines_in(&c) > lines ? lines_in(&c) : lines;
	}
	height = lines * KEY_HEIGHT + 100 > CHART_HEIGHT ? lines * KEY_HEIGHT + 100 : CHART_HEIGHT;
	fprintf(f, "set terminal svg size %d,%zu noenhanced font 'sans-serif,12' background '#ffffff'\n", WIDTH,
		HEADING_HEIGHT + charts * height);
	fputs("set encoding utf8\nset logscale x 2\nset logscale y 10\nset format x '%.0b %B'\nset format y '%.0s %cs'\n"
	      "set ylabel 'time (powers of ten)'\nset grid\nset key outside right top Left reverse\n"
	      "set lmargin at screen 0.1\nset rmargin at screen 0.68\n", f);
	fprintf(f, "set multiplot layout %zu,1 title ", charts);
	put_heading(f, b);
	putc('\n', f);
	for (size_t i = 0; i < b->count; i += c.count) {
		c = chart_at(b, i);
		put_chart(f, &c, room);
	}
	fputs("unset multiplot\n", f);
}

int bench_plot(const struct bench *b, const char *path)
{
	const struct bench_result **room = calloc(b->count + 1, sizeof(*room));
	FILE *commands = tmpfile();
	char *text = NULL;
	size_t length;
	int ret = !room ? -ENOMEM : !commands ? -errno : 0;

	if (!ret) {
		put_commands(commands, b, room);
		if (fflush(commands) || lseek(fileno(commands), 0, SEEK_SET))
			ret = -errno;
		else
			ret = ferror(commands) ? -EIO : draw(fileno(commands), &text, &length);
	}
	if (!ret) {
		ret = write_file(path, text, length);
		free(text);
	}
	if (commands)
		fclose(commands);
	free(room);
	return ret;
}
