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

#define COLUMNS 12

static const struct {
	const char *title;
	int sign;	/* -1: figures, to the right */
} layout[COLUMNS] = {
	{ "PID", -1 }, { "COMMAND", 1 }, { "CLIENT", 1 }, { "PROVIDER", 1 }, { "STATE", 1 }, { "FLAGS", 1 },
	{ "ADDRESS", 1 }, { "SIZE", -1 }, { "PAGES", -1 }, { "MAPPINGS", -1 }, { "VIEWS", -1 }, { "DMA-BUFS", -1 },
};

struct row {
	const char *cells[COLUMNS];
	char pid[24], addr[24], size[32], pages[48], mappings[24], views[24], exports[24];
};

static void fill(struct row *row, const struct pin *p)
{
	char page[32];

	snprintf(row->pid, sizeof(row->pid), "%" PRIu64, p->pid);
	snprintf(row->addr, sizeof(row->addr), "0x%" PRIx64, p->addr);
	text_size(p->length, row->size);
	if (p->page_shift)
		snprintf(row->pages, sizeof(row->pages), "%" PRIu64 " x %s", p->pinned_length >> p->page_shift,
			 text_size(1ULL << p->page_shift, page));
	else
		strcpy(row->pages, "?");
	snprintf(row->mappings, sizeof(row->mappings), "%" PRIu64, p->mappings);
	snprintf(row->views, sizeof(row->views), "%" PRIu64, p->views);
	snprintf(row->exports, sizeof(row->exports), "%" PRIu64, p->exports);

	const char *cells[COLUMNS] = {
		row->pid, p->comm, p->client, p->provider, p->state, p->flags, row->addr, row->size,
		row->pages, row->mappings, row->views, row->exports,
	};
	for (size_t c = 0; c < COLUMNS; c++)
		row->cells[c] = *cells[c] ? cells[c] : "-";
}

static int print_table(const struct pins_table *table)
{
	struct row row;
	int width[COLUMNS];

	for (size_t c = 0; c < COLUMNS; c++)
		width[c] = (int)strlen(layout[c].title);
	for (size_t i = 0; i < table->count; i++) {
		fill(&row, &table->pins[i]);
		for (size_t c = 0; c < COLUMNS; c++) {
			int w = (int)text_width(row.cells[c]);

			if (w > width[c])
				width[c] = w;
		}
	}
	for (size_t i = 0; i <= table->count; i++) {	/* 0: the titles */
		if (i)
			fill(&row, &table->pins[i - 1]);
		for (size_t c = 0; c < COLUMNS; c++) {
			const char *s = i ? row.cells[c] : layout[c].title;

			text_pad(s, c == COLUMNS - 1 && layout[c].sign > 0 ? 0 : width[c] * layout[c].sign);
			putchar(c == COLUMNS - 1 ? '\n' : ' ');
		}
	}
	return EXIT_OK;
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
