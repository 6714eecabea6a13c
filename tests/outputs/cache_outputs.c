// SPDX-License-Identifier: MIT
/*
 * cache_outputs.c - prints what `peerdma cache` tells of made-up processes, and what `peerdma top` takes from them.
 * test_outputs.py compares it with caches.txt.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "remote_cache.h"
#include "base/tool.h"
#include "metrics/metrics.h"
#include "top/top.h"

static int error, count;
static uid_t user = 1000;

/* Who runs the command: what is missing differs. */
uid_t geteuid(void)
{
	return user;
}

static size_t refused, unread, asked;

/* A cache whose numbers all differ. */
static void fill(struct remote_cache *c, uint64_t n, uint32_t monitors)
{
	memset(c, 0, sizeof(*c));
	c->serial = n;
	c->counters = (struct peerdma_cache_counters){
		.size = sizeof(c->counters), .gets = 1000 * n, .hits = 999 * n, .hits_front = 500 * n, .misses = n, .failures = 3 + n,
		.merges = 4 + n, .evictions = 5 + n, .retries = 6 + n, .invalidations = 7 + n, .stale = 8 + n, .regions = n, .dead = 10 + n,
		.bytes = n << 20, .host = 11 << 20, .device = 12 << 20, .aperture = n << 16, .threads = n, .fences = 15 + n,
		.monitors = monitors,
	};
}

static void regions(struct remote_cache *c)
{
	static const char *const why[] = { "merged", "evicted", "invalidated", "stale" };

	c->region_count = 6;
	c->regions = calloc(c->region_count, sizeof(*c->regions));
	for (size_t i = 0; i < c->region_count; i++)
		c->regions[i] = (struct remote_region){
			.addr = 0x7f0000000000 + (i << 24), .length = 4096 << i, .gets = 100 - i, .hits = 99 - 2 * i, .holds = (int64_t)i - 1,
			.dead = i == 2, .aperture = i % 2, .guard = (enum remote_guard)(i % 4) };
	for (size_t i = 0; i < 4; i++)
		c->ended[i] = (struct remote_ended){ .addr = 0x7e0000000000 + (i << 16), .length = 65536 + i, .gets = i, .why = why[i] };
	c->ended_count = 4;
	c->left_out = 7;
}

static void make(struct remote_process *p, uint64_t pid)
{
	*p = (struct remote_process){ .pid = pid };
	if (asprintf(&p->comm, "program%d", (int)pid) < 0)
		exit(1);
	p->caches.count = pid % 3;
	p->caches.caches = calloc(3, sizeof(*p->caches.caches));
	fill(&p->caches.caches[0], 1, PEERDMA_MONITOR_WORD | PEERDMA_MONITOR_CALLS);
	fill(&p->caches.caches[1], 2, PEERDMA_MONITOR_HOST | PEERDMA_MONITOR_HOOKS | PEERDMA_MONITOR_CHECK);
	regions(&p->caches.caches[0]);
	if (pid > 100)
		regions(&p->caches.caches[1]);
}

int remote_process_read(uint64_t pid, size_t most, struct remote_process *out)
{
	asked = most;
	if (!error)
		make(out, pid);
	return error;
}

void remote_process_free(struct remote_process *p)
{
	for (size_t i = 0; i < 3; i++)
		free(p->caches.caches[i].regions);
	free(p->caches.caches);
	free(p->comm);
}

int remote_processes_read(size_t most, struct remote_processes *out)
{
	asked = most;
	*out = (struct remote_processes){ .refused = refused };
	if (error)
		return error;
	out->unread = calloc(2, sizeof(*out->unread));
	for (; out->unread_count < unread; out->unread_count++)
		out->unread[out->unread_count] = 200 + out->unread_count;
	out->processes = calloc(4, sizeof(*out->processes));
	for (; out->count < (size_t)count; out->count++)
		make(&out->processes[out->count], 100 + out->count);
	return 0;
}

void remote_processes_free(struct remote_processes *all)
{
	for (size_t i = 0; i < all->count; i++)
		remote_process_free(&all->processes[i]);
	free(all->processes);
	free(all->unread);
}

static void run(const char *line)
{
	char copy[128], *argv[8], *save;
	struct tool tool = { .root = "", .columns = 80 };
	int argc = 0, ret;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	argv[argc] = NULL;
	asked = 12345;
	printf("$ %s\n", line);
	ret = cmd_cache(&tool, argc, argv);
	fflush(stdout);
	printf("[%d]", ret);
	if (asked != 12345)
		printf("  regions asked for: %zd", (ssize_t)asked);
	printf("\n");
}

/* Whether all caches could be read, as `peerdma metrics` says. */
static void readable(const struct tool *tool)
{
	struct metrics m;

	if (metrics_collect(tool, true, false, &m))
		exit(1);
	for (size_t i = 0; i < m.of[METRIC_SOURCE_READABLE].count; i++) {
		const struct metric_sample *s = &m.of[METRIC_SOURCE_READABLE].samples[i];

		if (strstr(s->labels, "caches"))
			printf("%zu not permitted, %zu not readable: source %s is %d\n", refused, unread, s->labels, (int)s->value);
	}
	metrics_free(&m);
}

int main(void)
{
	static const int errors[] = { -ESRCH, -EACCES, -ENODATA, -EPROTO, -EFBIG, -E2BIG, -EAGAIN, -ENOMEM, -EBADMSG };
	struct tool tool = { .root = "" };
	struct top_sample s = { 0 };

	run("cache 1");
	run("cache 2 --regions 0");
	run("cache --json 101");
	run("cache --regions all 3");
	run("cache --regions 7 --json 3");
	run("cache");
	refused = 1;
	run("cache --json");
	unread = 1;
	run("cache");
	count = 3;
	unread = 0;
	run("cache");
	unread = 2;
	run("cache");
	unread = 0;
	run("cache --regions 4");
	refused = 2;
	unread = 2;
	run("cache --json --regions 4");
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		error = errors[i];
		run("cache 17");
	}
	run("cache");
	error = -ENOMEM;
	run("cache");
	user = 0;
	error = -EACCES;
	run("cache 17");
	error = 0;
	run("cache");
	user = 1000;
	error = -ENOMEM;
	printf("%d\n", top_read_caches(&tool, &s));
	error = -EIO;
	printf("%d\n", top_read_caches(&tool, &s));
	error = 0;
	printf("%d %zu\n", top_read_caches(&tool, &s), asked);
	top_text(&tool, &s, TOP_BY_PID, 1000, stdout);
	top_json(&s);
	top_free(&s);
	for (refused = 0; refused < 2; refused++) {
		for (unread = 0; unread < 2; unread++)
			readable(&tool);
	}
	refused = unread = 0;
	tool.root = "/tmp";
	printf("%d %zu\n", top_read_caches(&tool, &s), s.process_count);
	return 0;
}
