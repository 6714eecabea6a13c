// SPDX-License-Identifier: MIT
/*
 * cmd_pins.c - `peerdma pins`: lists pins and their owners.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "accounts.h"
#include "base/json.h"
#include "pins_table.h"
#include "base/table.h"
#include "base/tool.h"

static const char usage[] =
	"Usage: peerdma pins [--json] [--root DIR]\n"
	"\n"
	"Lists the memory that peerdma.ko holds: for whom, from which provider, and what\n"
	"was made from it; and what each user has and may have. Needs root, since debugfs\n"
	"does.\n"
	"\n"
	"  --json        one JSON object, schema peerdma-pins/1\n"
	"  --root DIR    reads DIR" PINS_PATH " instead\n"
	"\n"
	"Exit code: 0 listed (perhaps nothing), 1 the table is malformed, 2 cannot be read.\n";

static void print_table(const struct pins_table *pins)
{
	static const char *const titles[] = {
		"ID>", "PID>", "HANDLE>", "COMMAND", "CLIENT", "PROVIDER", "STATE", "FLAGS",
		"ADDRESS", "SIZE>", "PAGES>", "MAPPINGS>",
		"VIEWS>", "DMA-BUFS>", "UID>",
	};
	struct table *table = table_new(titles, sizeof(titles) / sizeof(titles[0]));

	for (size_t i = 0; i < pins->count; i++) {
		const struct pin *p = &pins->pins[i];
		char pid[24], addr[24], size[32], pages[64] = "?", mappings[24], views[24],
			exports[24], page[32], uid[24] = "?";
		char id[24], handle[24] = "-";

		snprintf(id, sizeof(id), "%" PRIu64, p->id);
		if (p->handle)
			snprintf(handle, sizeof(handle), "%" PRIu64, p->handle);
		snprintf(pid, sizeof(pid), "%" PRIu64, p->pid);
		snprintf(addr, sizeof(addr), "0x%" PRIx64, p->addr);
		if (p->page_shift)
			snprintf(pages, sizeof(pages), "%" PRIu64 " x %s",
				 p->pinned_length >> p->page_shift,
				 text_size(1ULL << p->page_shift, page));
		snprintf(mappings, sizeof(mappings), "%" PRIu64, p->mappings);
		snprintf(views, sizeof(views), "%" PRIu64, p->views);
		snprintf(exports, sizeof(exports), "%" PRIu64, p->exports);
		if (p->uid != UINT64_MAX)
			snprintf(uid, sizeof(uid), "%" PRIu64, p->uid);
		table_add(table, (const char *[]){
			id, pid, handle, p->comm, p->client, p->provider, p->state, p->flags, addr,
			text_size(p->length, size), pages, mappings, views, exports, uid });
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

/* "3 of 65536", or "3" where there is no limit. */
static void cell(char *out, size_t size, const struct accounts *accounts, const struct account *a,
		 int what)
{
	bool bytes = what >= TAKEN_APERTURE;
	char has[32], most[32];

	snprintf(has, sizeof(has), "%" PRIu64, a->taken[what]);
	snprintf(most, sizeof(most), "%" PRIu64, accounts->limits[what]);
	if (bytes) {
		text_size(a->taken[what], has);
		text_size(accounts->limits[what], most);
	}
	if (accounts->limits[what])
		snprintf(out, size, "%s of %s", has, most);
	else
		snprintf(out, size, "%s", has);
}

/* What users have, next to what one user may have. */
static void print_users(const struct accounts *accounts)
{
	static const char *const titles[] = { "UID>", "PINS>", "MAPPINGS>", "VIEWS>", "DMA-BUFS>",
					      "APERTURE>", "LOCKED>" };
	struct table *table;

	if (!accounts->count)
		return;
	puts("");
	table = table_new(titles, sizeof(titles) / sizeof(titles[0]));
	for (size_t i = 0; i < accounts->count; i++) {
		char uid[24], cells[TAKEN][72];

		snprintf(uid, sizeof(uid), "%" PRIu64, accounts->users[i].uid);
		for (int k = 0; k < TAKEN; k++)
			cell(cells[k], sizeof(cells[k]), accounts, &accounts->users[i], k);
		table_add(table, (const char *[]){ uid, cells[TAKEN_PINS], cells[TAKEN_MAPPINGS],
						   cells[TAKEN_VIEWS], cells[TAKEN_EXPORTS],
						   cells[TAKEN_APERTURE], cells[TAKEN_LOCKED] });
	}
	table_print(table, "");
}

static void json_users(struct json_object *o, const struct accounts *accounts)
{
	struct json_object *limits = json_object_in(o, "user_limits"),
		*users = json_array_in(o, "users");

	for (int k = 0; k < TAKEN_LOCKED; k++) {
		if (accounts->limit_known[k])
			json_number(limits, taken_names[k], accounts->limits[k]);
		else
			json_null(limits, taken_names[k]);
	}
	for (size_t i = 0; i < accounts->count; i++) {
		struct json_object *user = json_append(users);

		json_number(user, "uid", accounts->users[i].uid);
		for (int k = 0; k < TAKEN; k++)
			json_number(user, taken_names[k], accounts->users[i].taken[k]);
	}
}

/* accounts NULL: not known. */
static int print_json(const struct pins_table *table, const struct accounts *accounts)
{
	struct json_object *o = json_new("peerdma-pins/1"), *pins;

	json_number(o, "malformed_lines", table->malformed);
	pins = json_array_in(o, "pins");
	for (size_t i = 0; i < table->count; i++)
		json_pin(json_append(pins), &table->pins[i]);
	if (accounts)
		json_users(o, accounts);
	return json_print(o);
}

int cmd_pins(struct tool *tool, int argc, char **argv)
{
	struct accounts accounts;
	struct pins_table table;
	int no_accounts, ret = tool_options(tool, argc, argv, OPTION_JSON, usage);

	if (ret >= 0)
		return ret;
	ret = pins_read(tool->root, &table);
	if (ret) {
		warn("pins: %s", pins_why(ret));
		return ret == -EBADMSG || ret == -ENOMEM ? EXIT_ERROR : EXIT_UNKNOWN;
	}

	/* A module that has none is older than accounts. */
	no_accounts = accounts_read(tool->root, &accounts);
	ret = EXIT_OK;
	if (tool->json)
		ret = print_json(&table, no_accounts ? NULL : &accounts);
	else
		print_people(&table);
	if (!tool->json && !no_accounts)
		print_users(&accounts);
	if (table.malformed) {
		warn("pins: " PINS_PATH ": line %zu is no pin (%zu such lines left out); "
		     "use the command and the module of one release", table.first_malformed,
		     table.malformed);
		ret = EXIT_ERROR;
	}
	if ((no_accounts && no_accounts != -ENOENT) || (!no_accounts && accounts.malformed)) {
		warn("pins: " ACCOUNTS_PATH ": what users have is left out or not complete: %s",
		     no_accounts && no_accounts != -EBADMSG ? strerror(-no_accounts) :
		     "not a table of accounts; use the command and the module of one release");
		ret = EXIT_ERROR;
	}
	if (!no_accounts)
		accounts_free(&accounts);
	pins_free(&table);
	return ret;
}
