// SPDX-License-Identifier: MIT
/*
 * nulls.c - each public function with each of its pointers NULL: -EINVAL and a text that names the pointer, or nothing at
 * all; and nothing is changed.
 *
 * usage: nulls HEADER...     each function that they declare must be in the table
 */
#include <ctype.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "peerdma_cache.h"
#include "peerdma_copy.h"
#include "peerdma_file.h"
#include "peerdma_ipc.h"
#include "peerdma_monitor.h"
#include "peerdma_verbs.h"
#include "checks.h"
#include "counted.h"

#define LENGTH 65536UL

static struct peerdma *ctx;
static struct peerdma_region *region;
static struct peerdma_cache *cache;
static struct peerdma_cached *hold;
static struct ibv_pd *const domain = (struct ibv_pd *)0x1000;
static char *memory;
static struct peerdma_ipc_signal *shared_signal;

/* What calls would write to. */
static struct peerdma *new_ctx;
static struct peerdma_region *new_region;
static struct peerdma_mapping *new_mapping;
static struct peerdma_cache *new_cache;
static struct peerdma_cached *new_hold;
static const struct peerdma_mr *new_mr;
static struct peerdma_memory out = { .size = sizeof(out) };
static struct peerdma_component part = { .size = sizeof(part) };
static struct peerdma_status status = { .size = sizeof(status) };
static struct peerdma_notice notice = { .size = sizeof(notice) };
static struct peerdma_cache_counters counters = { .size = sizeof(counters) };
static struct peerdma_cache_entry entry = { .size = sizeof(entry) };
static struct peerdma_cache_request request = { .size = sizeof(request) };
static struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = counted_add, .remove = counted_remove };
static struct peerdma_ipc_memory *new_import;
static struct peerdma_ipc_signal *new_signal;
static struct peerdma_ipc_handle handle;
static struct peerdma_ipc_info info = { .size = sizeof(info) };
static struct peerdma_ipc_transfer transfer = { .size = sizeof(transfer) };
static struct peerdma_ipc_counters ipc_counters = { .size = sizeof(ipc_counters) };
static struct peerdma_file *open_file, *new_file;
static struct peerdma_file_queue *queue, *new_queue;
static struct peerdma_file_io *ios[1];
static struct peerdma_file_counters file_counters = { .size = sizeof(file_counters) };
static void *new_memory;
static size_t count;
static void *view;
static int fd;

/* The pointer number i of a call, unless it is the one that is to be NULL. */
#define P(i, p) (null == (i) ? NULL : (p))
#define TRY(name, call) static intptr_t try_##name(int null) { (void)null; return (intptr_t)(call); }
#define TRY_VOID(name, call) static intptr_t try_##name(int null) { call; return 0; }

static void note(void *arg, const struct peerdma_hook_event *event)
{
}

TRY(open, peerdma_open(P(0, &new_ctx), 0))
TRY_VOID(close, peerdma_close(P(0, NULL)))
TRY(query, peerdma_query(ctx, memory, P(0, &out)))
TRY(query_range, peerdma_query_range(ctx, memory, 100, P(0, &out), 1, P(1, &count)))
TRY(components, peerdma_components(ctx, P(0, &part), 1, P(1, &count)))
TRY(pin, peerdma_pin(P(0, ctx), memory, 100, 0, NULL, P(1, &new_region)))
TRY(pin_dmabuf, peerdma_pin_dmabuf(P(0, ctx), 0, 0, 0, 0, NULL, P(1, &new_region)))
TRY(unpin, peerdma_unpin(P(0, NULL)))
TRY(status, peerdma_status(P(0, region), P(1, &status)))
TRY(why, *peerdma_why(P(0, region)))
TRY(segments, peerdma_segments(P(0, region), &count))
TRY(map, peerdma_map(P(0, region), P(1, "0000:03:00.0"), PEERDMA_TO_DEVICE, P(2, &new_mapping)))
TRY(ranges, peerdma_ranges(P(0, NULL), &count))
TRY(unmap, peerdma_unmap(P(0, NULL)))
TRY(cpu_view, peerdma_cpu_view(P(0, region), P(1, &view)))
TRY(cpu_view_end, peerdma_cpu_view_end(P(0, region), NULL))
TRY(sync, peerdma_sync(P(0, region), 0, 0, PEERDMA_TO_DEVICE))
TRY(export_dmabuf, peerdma_export_dmabuf(P(0, region), 0, 0, P(1, &fd)))
TRY(segments_valid, peerdma_segments_valid(P(0, region)))
TRY(next_event, peerdma_next_event(P(0, ctx), P(1, &notice), 0))
TRY(event_fd, peerdma_event_fd(P(0, ctx)))
TRY(cache_create, peerdma_cache_create(P(0, &ops), NULL, NULL, P(1, &new_cache)))
TRY(cache_open, peerdma_cache_open(P(0, ctx), NULL, P(1, &new_cache)))
TRY_VOID(cache_close, peerdma_cache_close(P(0, NULL)))
TRY(cache_get, peerdma_cache_get(P(0, cache), memory, 100, P(1, &new_hold)))
TRY(cache_get_with, peerdma_cache_get_with(P(0, cache), memory, 100, P(1, &request), P(2, &new_hold)))
TRY(cache_payload, peerdma_cache_payload(P(0, cache), P(1, hold)))
TRY_VOID(cache_put, peerdma_cache_put(P(0, cache), P(1, hold)))
TRY(cache_invalidate, peerdma_cache_invalidate(P(0, cache), memory, 100))
TRY(cache_drain, peerdma_cache_drain(P(0, cache)))
TRY(cache_trim, peerdma_cache_trim(P(0, cache), 1))
TRY(cache_map, peerdma_cache_map(P(0, cache), P(1, hold), P(2, "0000:03:00.0"), PEERDMA_TO_DEVICE, P(3, &new_mapping)))
TRY(cache_counters, peerdma_cache_counters(P(0, cache), P(1, &counters)))
TRY(cache_list, peerdma_cache_list(P(0, cache), 0, P(1, &entry), 1))
TRY(cache_mr, peerdma_cache_mr(P(0, cache), P(1, hold), P(2, domain), 0, P(3, &new_mr)))
TRY(verbs_mr, peerdma_verbs_mr(P(0, region), P(1, domain), 0, P(2, &new_mr)))
TRY(verbs_end, peerdma_verbs_end(P(0, ctx), NULL))
TRY(monitor_start, peerdma_monitor_start(PEERDMA_MEMORY_HOST, P(0, "mine")))
TRY(monitor_subscribe, peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, P(0, note), NULL))
TRY_VOID(monitor_unsubscribe, peerdma_monitor_unsubscribe(PEERDMA_MEMORY_HOST, P(0, note), NULL))
TRY_VOID(monitor_notify, peerdma_monitor_notify(PEERDMA_MEMORY_HOST, P(0, NULL), 0, 0))
TRY(ipc_alloc, peerdma_ipc_alloc(100, 0, P(0, &new_memory)))
TRY(ipc_free, peerdma_ipc_free(P(0, NULL)))
TRY(ipc_export, peerdma_ipc_export(memory, 100, 0, P(0, &handle)))
TRY(ipc_unexport, peerdma_ipc_unexport(P(0, &handle)))
TRY(ipc_open, peerdma_ipc_open(P(0, &handle), sizeof(handle), 0, P(1, &new_import)))
TRY(ipc_close, peerdma_ipc_close(P(0, NULL)))
TRY(ipc_query, peerdma_ipc_query(memory, P(0, &info)))
TRY(ipc_copy, peerdma_ipc_copy(P(0, &transfer), 1, NULL, 0))
TRY(ipc_counters, peerdma_ipc_counters(P(0, &ipc_counters)))
TRY(ipc_signal_create, peerdma_ipc_signal_create(0, 0, P(0, &new_signal)))
TRY(ipc_signal_export, peerdma_ipc_signal_export(P(0, shared_signal), P(1, &handle)))
TRY(ipc_signal_open, peerdma_ipc_signal_open(P(0, &handle), sizeof(handle), P(1, &new_signal)))
TRY(ipc_signal_close, peerdma_ipc_signal_close(P(0, NULL)))
TRY(ipc_signal_get, peerdma_ipc_signal_get(P(0, shared_signal)))
TRY(ipc_signal_set, peerdma_ipc_signal_set(P(0, shared_signal), 1))
TRY(ipc_signal_add, peerdma_ipc_signal_add(P(0, shared_signal), 1))
TRY(ipc_signal_wait, peerdma_ipc_signal_wait(P(0, shared_signal), PEERDMA_IPC_NE, 5, 0, NULL))
TRY(ipc_signal_stream_wait, peerdma_ipc_signal_stream_wait(P(0, shared_signal), NULL, PEERDMA_IPC_EQ, 5))
TRY(ipc_signal_stream_set, peerdma_ipc_signal_stream_set(P(0, shared_signal), NULL, 1))
TRY(page_view, peerdma_page_view(P(0, region), 0, 0, 0, NULL, P(1, &fd)))
TRY(file_open, peerdma_file_open(P(0, cache), fd, 0, P(1, &new_file)))
TRY_VOID(file_close, peerdma_file_close(P(0, open_file)))
TRY(file_read, peerdma_file_read(P(0, open_file), P(1, memory), 1, 0))
TRY(file_write, peerdma_file_write(P(0, open_file), P(1, memory), 1, 0))
TRY(file_counters, peerdma_file_counters(P(0, open_file), P(1, &file_counters)))
TRY(file_queue_open, peerdma_file_queue_open(1, 0, P(0, &new_queue)))
TRY_VOID(file_queue_close, peerdma_file_queue_close(P(0, NULL)))
TRY(file_submit, peerdma_file_submit(P(0, queue), P(1, ios), 1))
TRY(file_wait, peerdma_file_wait(P(0, queue), P(1, ios), 0, 1, 0))
TRY(file_cancel, peerdma_file_cancel(P(0, queue)))
TRY(ipc_signal_hsa, peerdma_ipc_signal_hsa(P(0, shared_signal)))

enum wanted {
	REFUSED,	/* -EINVAL, with a text that names it */
	SILENT,		/* the same without a text */
	NOTHING,	/* 0, NULL, "": nothing is done */
};

static const struct {
	const char *name;
	intptr_t (*call)(int null);
	enum wanted wanted;
	const char *pointers[5];
} table[] = {
	{ "peerdma_open", try_open, REFUSED, { "ctx" } },
	{ "peerdma_close", try_close, NOTHING, { "ctx" } },
	{ "peerdma_query", try_query, REFUSED, { "out" } },
	{ "peerdma_query_range", try_query_range, REFUSED, { "out", "count" } },
	{ "peerdma_components", try_components, REFUSED, { "out", "count" } },
	{ "peerdma_pin", try_pin, REFUSED, { "ctx", "region" } },
	{ "peerdma_pin_dmabuf", try_pin_dmabuf, REFUSED, { "ctx", "region" } },
	{ "peerdma_unpin", try_unpin, NOTHING, { "region" } },
	{ "peerdma_status", try_status, REFUSED, { "region", "out" } },
	{ "peerdma_why", try_why, NOTHING, { "region" } },
	{ "peerdma_segments", try_segments, NOTHING, { "region" } },
	{ "peerdma_map", try_map, REFUSED, { "region", "pci", "mapping" } },
	{ "peerdma_ranges", try_ranges, NOTHING, { "mapping" } },
	{ "peerdma_unmap", try_unmap, NOTHING, { "mapping" } },
	{ "peerdma_cpu_view", try_cpu_view, REFUSED, { "region", "addr" } },
	{ "peerdma_cpu_view_end", try_cpu_view_end, REFUSED, { "region" } },
	{ "peerdma_sync", try_sync, REFUSED, { "region" } },
	{ "peerdma_export_dmabuf", try_export_dmabuf, REFUSED, { "region", "fd" } },
	{ "peerdma_segments_valid", try_segments_valid, NOTHING, { "region" } },
	{ "peerdma_next_event", try_next_event, REFUSED, { "ctx", "out" } },
	{ "peerdma_event_fd", try_event_fd, REFUSED, { "ctx" } },
	{ "peerdma_cache_create", try_cache_create, REFUSED, { "ops", "cache" } },
	{ "peerdma_cache_open", try_cache_open, REFUSED, { "ctx", "cache" } },
	{ "peerdma_cache_close", try_cache_close, NOTHING, { "cache" } },
	{ "peerdma_cache_get", try_cache_get, REFUSED, { "cache", "hold" } },
	{ "peerdma_cache_get_with", try_cache_get_with, REFUSED, { "cache", "request", "hold" } },
	{ "peerdma_cache_payload", try_cache_payload, NOTHING, { "cache", "hold" } },
	{ "peerdma_cache_put", try_cache_put, NOTHING, { "cache", "hold" } },
	{ "peerdma_cache_invalidate", try_cache_invalidate, SILENT, { "cache" } },
	{ "peerdma_cache_drain", try_cache_drain, REFUSED, { "cache" } },
	{ "peerdma_cache_trim", try_cache_trim, REFUSED, { "cache" } },
	{ "peerdma_cache_map", try_cache_map, REFUSED, { "cache", "hold", "pci", "mapping" } },
	{ "peerdma_cache_counters", try_cache_counters, REFUSED, { "cache", "out" } },
	{ "peerdma_cache_list", try_cache_list, REFUSED, { "cache", "entries" } },
	{ "peerdma_cache_mr", try_cache_mr, REFUSED, { "cache", "hold", "pd", "mr" } },
	{ "peerdma_verbs_mr", try_verbs_mr, REFUSED, { "region", "pd", "mr" } },
	{ "peerdma_verbs_end", try_verbs_end, REFUSED, { "ctx" } },
	{ "peerdma_monitor_start", try_monitor_start, REFUSED, { "name" } },
	{ "peerdma_monitor_subscribe", try_monitor_subscribe, REFUSED, { "fn" } },
	{ "peerdma_monitor_unsubscribe", try_monitor_unsubscribe, NOTHING, { "fn" } },
	{ "peerdma_monitor_notify", try_monitor_notify, NOTHING, { "ptr" } },
	{ "peerdma_ipc_alloc", try_ipc_alloc, REFUSED, { "ptr" } },
	{ "peerdma_ipc_free", try_ipc_free, NOTHING, { "ptr" } },
	{ "peerdma_ipc_export", try_ipc_export, REFUSED, { "handle" } },
	{ "peerdma_ipc_unexport", try_ipc_unexport, REFUSED, { "handle" } },
	{ "peerdma_ipc_open", try_ipc_open, REFUSED, { "handle", "memory" } },
	{ "peerdma_ipc_close", try_ipc_close, NOTHING, { "memory" } },
	{ "peerdma_ipc_query", try_ipc_query, REFUSED, { "info" } },
	{ "peerdma_ipc_copy", try_ipc_copy, REFUSED, { "transfers" } },
	{ "peerdma_ipc_counters", try_ipc_counters, REFUSED, { "counters" } },
	{ "peerdma_ipc_signal_create", try_ipc_signal_create, REFUSED, { "signal" } },
	{ "peerdma_ipc_signal_export", try_ipc_signal_export, REFUSED, { "signal", "handle" } },
	{ "peerdma_ipc_signal_open", try_ipc_signal_open, REFUSED, { "handle", "signal" } },
	{ "peerdma_ipc_signal_close", try_ipc_signal_close, NOTHING, { "signal" } },
	{ "peerdma_ipc_signal_get", try_ipc_signal_get, NOTHING, { "signal" } },
	{ "peerdma_ipc_signal_set", try_ipc_signal_set, REFUSED, { "signal" } },
	{ "peerdma_ipc_signal_add", try_ipc_signal_add, REFUSED, { "signal" } },
	{ "peerdma_ipc_signal_wait", try_ipc_signal_wait, REFUSED, { "signal" } },
	{ "peerdma_ipc_signal_stream_wait", try_ipc_signal_stream_wait, REFUSED, { "signal" } },
	{ "peerdma_ipc_signal_stream_set", try_ipc_signal_stream_set, REFUSED, { "signal" } },
	{ "peerdma_page_view", try_page_view, REFUSED, { "region", "fd" } },
	{ "peerdma_file_open", try_file_open, REFUSED, { "cache", "file" } },
	{ "peerdma_file_close", try_file_close, NOTHING, { "file" } },
	{ "peerdma_file_read", try_file_read, REFUSED, { "file", "ptr" } },
	{ "peerdma_file_write", try_file_write, REFUSED, { "file", "ptr" } },
	{ "peerdma_file_counters", try_file_counters, REFUSED, { "file", "out" } },
	{ "peerdma_file_queue_open", try_file_queue_open, REFUSED, { "queue" } },
	{ "peerdma_file_queue_close", try_file_queue_close, NOTHING, { "queue" } },
	{ "peerdma_file_submit", try_file_submit, REFUSED, { "queue", "ios" } },
	{ "peerdma_file_wait", try_file_wait, REFUSED, { "queue", "done" } },
	{ "peerdma_file_cancel", try_file_cancel, REFUSED, { "queue" } },
	{ "peerdma_ipc_signal_hsa", try_ipc_signal_hsa, NOTHING, { "signal" } },
	/* These have no pointers; or dereference what they are given, as their headers say. */
	{ .name = "peerdma_last_error" }, { .name = "peerdma_version" }, { .name = "peerdma_valid" }, { .name = "peerdma_copy_to_view" },
	{ .name = "peerdma_copy_from_view" }, { .name = "peerdma_copy_method" }, { .name = "peerdma_view_fence" },
	{ .name = "peerdma_flush_inbound" }, { .name = "peerdma_monitor_start_ucm" }, { .name = "peerdma_monitor_name" },
	{ .name = "peerdma_ipc_valid" }, { .name = "peerdma_ipc_trim" }, { .name = "peerdma_ipc_trim_pools" },
};

#define CALLS (sizeof(table) / sizeof(table[0]))

static bool in_table(const char *name, size_t length)
{
	for (size_t i = 0; i < CALLS; i++) {
		if (strlen(table[i].name) == length && !strncmp(table[i].name, name, length))
			return true;
	}
	return false;
}

/* A declaration begins a line, and its name comes before the first bracket. */
static void header(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		char *bracket = strchr(line, '('), *name = bracket;

		if (!isalpha((unsigned char)*line) || !bracket || !strncmp(line, "typedef", 7))
			continue;
		while (name > line && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
			name--;
		if (strncmp(name, "peerdma_", 8))
			continue;
		n++;
		CHECK(in_table(name, (size_t)(bracket - name)), "%.*s is in the table", (int)(bracket - name), name);
	}
	CHECK(f && n, "%s declares %d functions", path, n);
	if (f)
		fclose(f);
}

static void one(size_t i, int null)
{
	const char *name = table[i].name, *pointer = table[i].pointers[null], *text;
	intptr_t ret;

	printf("# %s: %s\n", name, pointer);
	peerdma_sync(region, 1, 0, 0);	/* its text must be gone afterwards, or not */
	ret = table[i].call(null);
	text = peerdma_last_error();
	if (table[i].wanted == REFUSED)
		CHECK(ret == -EINVAL && !strncmp(text, name, strlen(name)) && text[strlen(name)] == ':' && strstr(text, pointer) &&
		      strstr(text, "NULL"), "%s without %s: -EINVAL, and the text says so", name, pointer);
	else
		CHECK(ret == (table[i].wanted == SILENT ? -EINVAL : 0) && !strncmp(text, "peerdma_sync: ", 14),
		      "%s without %s: %d", name, pointer, table[i].wanted == SILENT ? -EINVAL : 0);
}

int main(int argc, char **argv)
{
	struct peerdma_ipc_counters before = { .size = sizeof(before) };

	setvbuf(stdout, NULL, _IOLBF, 0);
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (peerdma_open(&ctx, 0) || peerdma_pin(ctx, memory, LENGTH, 0, NULL, &region) || peerdma_cache_open(ctx, NULL, &cache) ||
	    peerdma_cache_get(cache, memory, LENGTH, &hold) || peerdma_ipc_signal_create(5, 0, &shared_signal) ||
	    peerdma_ipc_counters(&before) || peerdma_file_open(cache, fd, 0, &open_file) ||
	    peerdma_file_queue_open(1, 0, &queue)) {
		printf("not ok - %s\n", peerdma_last_error());
		return 1;
	}
	for (int i = 1; i < argc; i++)
		header(argv[i]);
	for (size_t i = 0; i < CALLS; i++) {
		for (int null = 0; null < 5 && table[i].pointers[null]; null++)
			one(i, null);
	}
	CHECK(!peerdma_status(region, &status) && !status.mappings && !status.views && !status.exports, "the region is as it was");
	CHECK(!peerdma_cache_counters(cache, &counters) && counters.misses == 1 && counters.regions == 1 && !counters.bad_puts,
	      "and the cache");
	CHECK(peerdma_ipc_signal_get(shared_signal) == 5, "and the signal");
	CHECK(!peerdma_ipc_counters(&ipc_counters) && !memcmp(&ipc_counters, &before, sizeof(before)), "and the counts of exports and opens");
	CHECK(!new_ctx && !new_region && !new_mapping && !new_cache && !new_hold && !new_mr && !new_memory && !new_import && !new_signal &&
	      !new_file && !new_queue,
	      "nothing was made");
	peerdma_ipc_signal_close(shared_signal);
	peerdma_file_queue_close(queue);
	peerdma_file_close(open_file);
	peerdma_cache_put(cache, hold);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	return check_end(NULL);
}
