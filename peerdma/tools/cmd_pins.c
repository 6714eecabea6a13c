// SPDX-License-Identifier: MIT
/*
 * cmd_pins.c - `peerdma pins`: who holds what.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "pins_table.h"
#include "table.h"
#include "tool.h"

static const char usage[] =
	"Usage: peerdma pins [--json] [--root DIR]\n"
	"\n"
	"Lists the memory that peerdma.ko holds: for whom, from which provider, and what\n"
	"was made from it. Needs root, since debugfs does.\n"
	"\n"
	"  --json        one JSON object, schema peerdma-pins/1\n"
	"  --root DIR    reads DIR" PINS_PATH " instead\n"
	"\n"
	"Exit code: 0 listed (perhaps nothing), 1 the table is malformed, 2 cannot be read.\n";

static void print_table(const struct pins_table *pins)
{
	static const char *const titles[] = {
		"PID>", "COMMAND", "CLIENT", "PROVIDER", "STATE", "FLAGS", "ADDRESS", "SIZE>", "PAGES>", "MAPPINGS>",
		"VIEWS>", "DMA-BUFS>",
	};
	struct table *table = table_new(titles, sizeof(titles) / sizeof(titles[0]));

	for (size_t i = 0; i < pins->count; i++) {
		const struct pin *p = &pins->pins[i];
		char pid[24], addr[24], size[32], pages[64] = "?", mappings[24], views[24], exports[24], page[32];

		snprintf(pid, sizeof(pid), "%" PRIu64, p->pid);
		snprintf(addr, sizeof(addr), "0x%" PRIx64, p->addr);
		if (p->page_shift)
			snprintf(pages, sizeof(pages), "%" PRIu64 " x %s", p->pinned_length >> p->page_shift,
				 text_size(1ULL << p->page_shift, page));
		snprintf(mappings, sizeof(mappings), "%" PRIu64, p->mappings);
		snprintf(views, sizeof(views), "%" PRIu64, p->views);
		snprintf(exports, sizeof(exports), "%" PRIu64, p->exports);
		table_add(table, (const char *[]){
			pid, p->comm, p->client, p->provider, p->state, p->flags, addr, text_size(p->length, size), pages,
			mappings, views, exports });
	}
	table_print(table, "");
}

static int by_pid(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static size_t processes(const struct pins_table *table)
{
	uint64_t *pids = calloc(table->count + 1, sizeof(*pids));
	size_t n = 0;

	if (!pids)
		return 0;
	for (size_t i = 0; i < table->count; i++)
		pids[i] = table->pins[i].pid;
	qsort(pids, table->count, sizeof(*pids), by_pid);
	for (size_t i = 0; i < table->count; i++)
		n += !i || pids[i] != pids[i - 1];
	free(pids);
	return n;
}

static void print_people(const struct pins_table *table)
{
	uint64_t bytes = 0;
	size_t revoked = 0, n = processes(table);
	char size[32];

	if (!table->count) {
		puts("No pins: peerdma.ko holds no memory.");
		return;
	}
	for (size_t i = 0; i < table->count; i++) {
		if (strcmp(table->pins[i].state, "revoked"))
			bytes += table->pins[i].pinned_length;
		else
			revoked++;
	}
	print_table(table);
	printf("\n%zu pin%s of %zu process%s hold%s %s", table->count, table->count == 1 ? "" : "s",
	       n, n == 1 ? "" : "es", table->count == 1 ? "s" : "", text_size(bytes, size));
	if (revoked)
		printf("; %zu revoked, hold%s nothing, and wait%s to be unpinned", revoked,
		       revoked == 1 ? "s" : "", revoked == 1 ? "s" : "");
	puts(".");
}

static int print_json(const struct pins_table *table)
{
	struct json_object *o = json_new("peerdma-pins/1"), *pins;

	json_number(o, "malformed_lines", table->malformed);
	pins = json_array_in(o, "pins");
	for (size_t i = 0; i < table->count; i++)
		json_pin(json_append(pins), &table->pins[i]);
	return json_print(o);
}

int cmd_pins(struct tool *tool, int argc, char **argv)
{
	struct pins_table table;
	int ret = tool_options(tool, argc, argv, OPTION_JSON, usage);

	if (ret >= 0)
		return ret;
	ret = pins_read(tool->root, &table);
	if (ret) {
		warn("pins: %s", pins_why(ret));
		return ret == -EBADMSG || ret == -ENOMEM ? EXIT_ERROR : EXIT_UNKNOWN;
	}

	ret = EXIT_OK;
	if (tool->json)
		ret = print_json(&table);
	else
		print_people(&table);
	if (table.malformed) {
		warn("pins: " PINS_PATH ": line %zu is no pin (%zu such lines left out); "
		     "use the command and the module of one release", table.first_malformed, table.malformed);
		ret = EXIT_ERROR;
	}
	pins_free(&table);
	return ret;
}
