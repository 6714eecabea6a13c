// SPDX-License-Identifier: MIT
/*
 * cmd_cache.c - `peerdma cache`: the registration caches of running processes.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "remote_cache.h"
#include "base/table.h"
#include "base/tool.h"

static const char usage[] =
	"Usage: peerdma cache [--json] [--regions N] [PID]\n"
	"\n"
	"Reads the counters of the registration caches (libpeerdma's) that a process has,\n"
	"while it runs, and their regions; it is not stopped, and nothing in it is changed.\n"
	"Without PID: which processes have one. Needs the right to debug the process.\n"
	"\n"
	"  --json        one JSON object, schema peerdma-cache/1\n"
	"  --regions N   so many regions of each cache, the most used first (20; all)\n"
	"\n"
	"Exit code: 0 shown, 1 wrong usage or invalid data in the process, 2 cannot be read.\n";

#define REGIONS_DEFAULT 20

static const struct {
	uint32_t bit;
	const char *name, *words;
} monitors[] = {
	{ PEERDMA_MONITOR_WORD, "word", "a word in memory" },
	{ PEERDMA_MONITOR_CHECK, "check", "a check at each hit" },
	{ PEERDMA_MONITOR_HOOKS, "hooks", "libpeerdma-hooks" },
	{ PEERDMA_MONITOR_HOST, "host", "a monitor of host memory" },
	{ PEERDMA_MONITOR_CALLS, "calls", "peerdma_cache_invalidate()" },
};
#define MONITORS (sizeof(monitors) / sizeof(monitors[0]))

/* What guards a region, and why not what would be better. */
static const char *const guards[] = {
	[GUARD_WORD] = "word", [GUARD_HOOKS] = "hooks", [GUARD_CHECK] = "check",
	[GUARD_CALLS] = "calls",
};

/* A monitor of host memory guards what nothing better does. */
static bool by_host(enum remote_guard guard, uint32_t monitors)
{
	return monitors & PEERDMA_MONITOR_HOST && guard == GUARD_CALLS;
}

static const char *guard_name(enum remote_guard guard, uint32_t monitors)
{
	return by_host(guard, monitors) ? "host" : guards[guard];
}

static const char *guard_why(enum remote_guard guard, uint32_t monitors)
{
	if (by_host(guard, monitors))
		return "a monitor of host memory ends the registration when the memory goes away";
	switch (guard) {
	case GUARD_WORD:
		return "a word changes when the registration ends, and each hit looks at it";
	case GUARD_HOOKS:
		return "the registration has no word; libpeerdma-hooks sees every way by which this process frees such memory";
	case GUARD_CHECK:
		return monitors & PEERDMA_MONITOR_HOOKS ?
		       "the registration has no word, and libpeerdma-hooks does not see every free: each hit asks whose memory it is" :
		       "the registration has no word, and libpeerdma-hooks is not there: each hit asks whose memory it is";
	case GUARD_CALLS:
		return "the registration has no word, and the cache has nothing to ask: the program must call peerdma_cache_invalidate()";
	}
	return "";
}

static const char *number(uint64_t n, char buf[24])
{
	snprintf(buf, 24, "%" PRIu64, n);
	return buf;
}

static const char *address(uint64_t n, char buf[24])
{
	snprintf(buf, 24, "0x%" PRIx64, n);
	return buf;
}

/* Rounded down: 100 % is all of them. */
static const char *share(uint64_t part, uint64_t whole, char buf[24])
{
	double percent = whole ? 100.0 * (double)part / (double)whole : 0;

	snprintf(buf, 24, "%.1f%%", floor(percent * 10) / 10);
	return buf;
}

/* ---- for people ---- */

static void print_regions(const struct remote_cache *cache)
{
	static const char *const titles[] = { "ADDRESS", "SIZE>", "GETS>", "HITS>", "HOLDS>",
					      "STATE", "BAR1", "MONITOR" };
	struct table *table;
	char addr[24], size[32], gets[24], hits[24], holds[24];
	bool used[sizeof(guards) / sizeof(guards[0])] = { false };

	if (!cache->region_count)
		return;
	puts("");
	table = table_new(titles, sizeof(titles) / sizeof(titles[0]));
	for (size_t i = 0; i < cache->region_count; i++) {
		const struct remote_region *r = &cache->regions[i];

		snprintf(holds, sizeof(holds), "%" PRId64, r->holds);
		table_add(table, (const char *[]){
			address(r->addr, addr), text_size(r->length, size), number(r->gets, gets),
			number(r->hits, hits), holds, r->dead ? "ended" : "live",
			r->aperture ? "yes" : "", guard_name(r->guard, cache->counters.monitors) });
		used[r->guard] = true;
	}
	table_print(table, "  ");
	for (enum remote_guard g = GUARD_WORD; g <= GUARD_CALLS; g++) {
		if (used[g])
			printf("  %s: %s\n", guard_name(g, cache->counters.monitors),
			       guard_why(g, cache->counters.monitors));
	}
	if (cache->left_out)
		printf("  and %" PRIu64 " more ('--regions all' lists them)\n", cache->left_out);
}

static void print_ended(const struct remote_cache *cache)
{
	static const char *const titles[] = { "ENDED LATELY", "SIZE>", "GETS>", "WHY" };
	struct table *table;
	char addr[24], size[32], gets[24];

	if (!cache->ended_count)
		return;
	puts("");
	table = table_new(titles, sizeof(titles) / sizeof(titles[0]));
	for (size_t i = 0; i < cache->ended_count; i++) {
		const struct remote_ended *e = &cache->ended[i];

		table_add(table, (const char *[]){
			address(e->addr, addr), text_size(e->length, size), number(e->gets, gets),
			e->why });
	}
	table_print(table, "  ");
}

static void print_cache(const struct remote_cache *cache)
{
	const struct peerdma_cache_counters *c = &cache->counters;
	char hits[24], front[24], bytes[32], aperture[32];
	const char *comma = "";

	printf("\ncache %" PRIu64 ", notified of frees by ", cache->serial);
	for (size_t i = 0; i < MONITORS; i++) {
		if (c->monitors & monitors[i].bit) {
			printf("%s%s", comma, monitors[i].words);
			comma = ", ";
		}
	}
	printf("\n  %" PRIu64 " gets: %" PRIu64 " hits (%s; in threads' own tables %s), %" PRIu64
	       " misses (%" PRIu64 " failed)\n", c->gets, c->hits, share(c->hits, c->gets, hits),
	       share(c->hits_front, c->gets, front), c->misses, c->failures);
	printf("  ended: %" PRIu64 " merged, %" PRIu64 " evicted, %" PRIu64 " invalidated, %" PRIu64
	       " found stale\n", c->merges, c->evictions, c->invalidations, c->stale);
	printf("  %" PRIu64 " region%s of %s, BAR1 %s; %" PRIu64 " ended but held; ",
	       c->regions, c->regions == 1 ? "" : "s", text_size(c->bytes, bytes),
	       text_size(c->aperture, aperture), c->dead);
	printf("%" PRIu64 " thread%s; %" PRIu64 " fences, %" PRIu64 " retries\n",
	       c->threads, c->threads == 1 ? "" : "s", c->fences, c->retries);
	print_regions(cache);
	print_ended(cache);
}

static void print_process(const struct remote_process *p)
{
	printf("pid %" PRIu64 " %s: %zu cache%s\n", p->pid, p->comm, p->caches.count,
	       p->caches.count == 1 ? "" : "s");
	for (size_t i = 0; i < p->caches.count; i++)
		print_cache(&p->caches.caches[i]);
}

static void print_unread(const struct remote_processes *all)
{
	if (!all->unread_count)
		return;
	printf("The caches of %zu process%s cannot be read:", all->unread_count,
	       all->unread_count == 1 ? "" : "es");
	for (size_t i = 0; i < all->unread_count; i++)
		printf("%s %" PRIu64, i ? "," : "", all->unread[i]);
	puts("; 'peerdma cache PID' prints the reason.");
}

static void print_processes(const struct remote_processes *all)
{
	const struct remote_process *processes = all->processes;
	size_t count = all->count, refused = all->refused;
	static const char *const titles[] = {
		"PID>", "COMMAND", "CACHE>", "GETS>", "HITS>", "MISSES>", "STALE>", "REGIONS>",
		"SIZE>",
	};
	struct table *table;

	if (!count && !all->unread_count)
		puts("No process that this user may look at has a registration cache.");
	table = count ? table_new(titles, sizeof(titles) / sizeof(titles[0])) : NULL;
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < processes[i].caches.count; k++) {
			const struct remote_cache *cache = &processes[i].caches.caches[k];
			const struct peerdma_cache_counters *c = &cache->counters;
			char pid[24], serial[24], gets[24], hits[24], misses[24], stale[24];
			char regions[24], size[32];

			table_add(table, (const char *[]){
				number(processes[i].pid, pid), processes[i].comm,
				number(cache->serial, serial), number(c->gets, gets),
				share(c->hits, c->gets, hits), number(c->misses, misses),
				number(c->stale, stale), number(c->regions, regions),
				text_size(c->bytes, size) });
		}
	}
	if (table)
		table_print(table, "");
	print_unread(all);
	if (refused)
		printf("%zu process%s may not be looked at; %s.\n", refused,
		       refused == 1 ? "" : "es",
		       geteuid() ? "run as root to see all" :
		       "this root lacks CAP_SYS_PTRACE there, or a security module forbids it");
}

/* ---- for programs ---- */

static void json_cache(struct json_object *o, const struct remote_cache *cache)
{
	const struct peerdma_cache_counters *c = &cache->counters;
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
		{ "gets", c->gets }, { "hits", c->hits }, { "hits_front", c->hits_front },
		{ "misses", c->misses }, { "failures", c->failures }, { "merges", c->merges },
		{ "evictions", c->evictions }, { "retries", c->retries },
		{ "invalidations", c->invalidations }, { "stale", c->stale },
		{ "regions", c->regions }, { "dead", c->dead }, { "bytes", c->bytes },
		{ "host", c->host }, { "device", c->device }, { "aperture", c->aperture },
		{ "threads", c->threads }, { "fences", c->fences },
	};
	struct json_object *array, *item;

	json_number(o, "cache", cache->serial);
	item = json_object_in(o, "counters");
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		json_number(item, counters[i].name, counters[i].value);
	item = json_object_in(o, "monitors");
	for (size_t i = 0; i < MONITORS; i++)
		json_truth(item, monitors[i].name, c->monitors & monitors[i].bit);
	array = json_array_in(o, "regions");
	for (size_t i = 0; i < cache->region_count; i++) {
		const struct remote_region *r = &cache->regions[i];

		item = json_append(array);
		json_address(item, "addr", r->addr);
		json_number(item, "length", r->length);
		json_number(item, "gets", r->gets);
		json_number(item, "holds", r->holds > 0 ? (uint64_t)r->holds : 0);
		json_text(item, "state", r->dead ? "ended" : "live");
		json_truth(item, "aperture", r->aperture);
		json_number(item, "hits", r->hits);
		json_number(item, "misses", r->gets - r->hits);
		json_text(item, "monitor", guard_name(r->guard, c->monitors));
		json_text(item, "why", guard_why(r->guard, c->monitors));
	}
	json_number(o, "regions_left_out", cache->left_out);
	array = json_array_in(o, "ended");
	for (size_t i = 0; i < cache->ended_count; i++) {
		item = json_append(array);
		json_address(item, "addr", cache->ended[i].addr);
		json_number(item, "length", cache->ended[i].length);
		json_number(item, "gets", cache->ended[i].gets);
		json_text(item, "why", cache->ended[i].why);
	}
}

static int json_processes(const struct remote_processes *all)
{
	const struct remote_process *processes = all->processes;
	struct json_object *o = json_new("peerdma-cache/1"), *array, *item, *caches;

	json_number(o, "not_permitted", all->refused);
	json_number(o, "not_readable", all->unread_count);
	array = json_array_in(o, "processes");
	for (size_t i = 0; i < all->count; i++) {
		item = json_append(array);
		json_number(item, "pid", processes[i].pid);
		json_text(item, "comm", processes[i].comm);
		caches = json_array_in(item, "caches");
		for (size_t k = 0; k < processes[i].caches.count; k++)
			json_cache(json_append(caches), &processes[i].caches.caches[k]);
	}
	return json_print(o);
}

/* ---- the command ---- */

static int why(uint64_t pid, int error)
{
	switch (error) {
	case -ESRCH:
		warn("cache: there is no process %" PRIu64
		     "; 'peerdma cache' lists those that have a cache", pid);
		return EXIT_UNKNOWN;
	case -EACCES:
		if (geteuid())
			warn("cache: the memory of process %" PRIu64
			     " may not be read by this user; run as root or as its owner "
			     "(then kernel.yama.ptrace_scope must be 0)", pid);
		else
			warn("cache: the memory of process %" PRIu64 " may not be read, even by this root; run outside the container, or with "
			     "CAP_SYS_PTRACE in the process's user namespace, and see that kernel.yama.ptrace_scope is not 3", pid);
		return EXIT_UNKNOWN;
	case -ENODATA:
		warn("cache: process %" PRIu64
		     " has no registration cache: it does not use libpeerdma's, or has closed it, "
		     "or had no file descriptor free when it made its first", pid);
		return EXIT_UNKNOWN;
	case -EPROTO:
		warn("cache: process %" PRIu64
		     " uses a libpeerdma of another release; use the command of that release", pid);
		return EXIT_UNKNOWN;
	case -EFBIG:
		warn("cache: process %" PRIu64 " has more caches, threads or regions than are read at once, or changes them all "
		     "the time; ask for fewer with --regions", pid);
		return EXIT_UNKNOWN;
	case -E2BIG:
		warn("cache: process %" PRIu64 " has too many caches: at most %d, of at most %u threads each, are read",
		     pid, REMOTE_CACHES_MAX, REMOTE_THREADS_MAX);
		return EXIT_UNKNOWN;
	case -EAGAIN:
		warn("cache: process %" PRIu64
		     ": caches or threads came or went each time that it was looked at; try again",
		     pid);
		return EXIT_UNKNOWN;
	case -ENOMEM:
		warn("cache: out of memory; ask for fewer with --regions");
		return EXIT_ERROR;
	default:
		warn("cache: process %" PRIu64
		     ": its memory has invalid data (%s); it may have been overwritten", pid,
		     strerror(-error));
		return EXIT_ERROR;
	}
}

static int one(const struct tool *tool, uint64_t pid, size_t most)
{
	struct remote_process process;
	struct remote_processes all = { .processes = &process, .count = 1 };
	int ret = remote_process_read(pid, most, &process);

	if (ret)
		return why(pid, ret);
	ret = EXIT_OK;
	if (tool->json)
		ret = json_processes(&all);
	else
		print_process(&process);
	remote_process_free(&process);
	return ret;
}

static int everyone(const struct tool *tool, size_t most)
{
	struct remote_processes all;
	int ret = remote_processes_read(most, &all);

	if (ret == -ENOMEM)
		return why(0, ret);
	if (ret) {
		warn("cache: /proc: %s", strerror(-ret));
		return EXIT_UNKNOWN;
	}
	if (tool->json)
		ret = json_processes(&all);
	else
		print_processes(&all);
	remote_processes_free(&all);
	return ret;
}

int cmd_cache(struct tool *tool, int argc, char **argv)
{
	const char *regions = NULL, *operand = NULL;
	const struct tool_own own[] = { { .name = "regions", .value = &regions },
					{ .value = &operand } };
	uint64_t pid, most = REGIONS_DEFAULT;
	int ret = tool_options_own(tool, argc, argv, OPTION_JSON, own, 2, usage);

	if (ret >= 0)
		return ret;
	if (regions && !strcmp(regions, "all")) {
		most = SIZE_MAX;
	} else if (regions && !text_u64(regions, strlen(regions), &most)) {
		warn("cache: --regions %s: not a number, nor 'all'", regions);
		return EXIT_ERROR;
	}
	if (!operand)
		return everyone(tool, tool->json && regions ? most : 0);
	if (!text_u64(operand, strlen(operand), &pid) || !pid) {
		warn("cache: '%s' is no process number", operand);
		return EXIT_ERROR;
	}
	return one(tool, pid, most);
}
