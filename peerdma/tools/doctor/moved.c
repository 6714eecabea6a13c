// SPDX-License-Identifier: MIT
/*
 * moved.c - what the probes have moved, for people and as JSON: between whom, by which way, how much, and what arrived.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "base/json.h"
#include "base/table.h"
#include "base/tool.h"

static const char *const words[] = {
	[MOVED_EQUAL] = "equal", [MOVED_DIFFERS] = "differs", [MOVED_FAILED] = "failed",
	[MOVED_NOT_COMPARED] = "not compared",
	[MOVED_NOT_TAKEN] = "not registered",
};

static char *copy(struct doctor *d, const char *text)
{
	char *clean = text_clean(text, strlen(text));

	if (!clean)
		d->no_memory = true;
	return clean;
}

void moved(struct doctor *d, const char *between, const char *way, const char *operation,
	   unsigned int bytes, enum moved_result result, const char *why)
{
	struct moved *bigger = realloc(d->moved, (d->moved_count + 1) * sizeof(d->moved[0]));

	if (!bigger) {
		d->no_memory = true;
		return;
	}
	d->moved = bigger;
	d->moved[d->moved_count++] = (struct moved){
		.between = copy(d, between), .way = copy(d, way), .operation = copy(d, operation),
		.bytes = bytes, .result = result,
		.why = why && *why ? copy(d, why) : NULL,
	};
}

void moved_compared(struct doctor *d, const char *between, const char *way, const char *operation,
		    unsigned int bytes, unsigned int wrong, unsigned int first)
{
	char why[80] = "";

	if (wrong)
		snprintf(why, sizeof(why), "%u bytes, the first at %u", wrong, first);
	moved(d, between, way, operation, bytes, wrong ? MOVED_DIFFERS : MOVED_EQUAL, why);
}

void moved_free(struct doctor *d)
{
	for (unsigned int i = 0; i < d->moved_count; i++) {
		free(d->moved[i].between);
		free(d->moved[i].way);
		free(d->moved[i].operation);
		free(d->moved[i].why);
	}
	free(d->moved);
}

void moved_text(const struct doctor *d)
{
	static const char *const titles[] = { "BETWEEN", "BY", "OPERATION", "BYTES>", "RESULT" };
	struct table *table;

	if (!d->moved_count)
		return;
	table = table_new(titles, 5);
	for (unsigned int i = 0; i < d->moved_count; i++) {
		const struct moved *m = &d->moved[i];
		char bytes[16] = "", result[256];

		if (m->bytes)
			snprintf(bytes, sizeof(bytes), "%u", m->bytes);
		snprintf(result, sizeof(result), "%s%s%.200s", words[m->result], m->why ? ": " : "",
			 m->why ? m->why : "");
		table_add(table, (const char *const[]){ m->between, m->way, m->operation, bytes,
							result });
	}
	puts("\nMoved and compared:");
	table_print(table, "  ");
}

void moved_json(const struct doctor *d, struct json_object *array)
{
	for (unsigned int i = 0; i < d->moved_count; i++) {
		const struct moved *m = &d->moved[i];
		struct json_object *o = json_append(array);

		json_text(o, "between", m->between);
		json_text(o, "by", m->way);
		json_text(o, "operation", *m->operation ? m->operation : NULL);
		json_number(o, "bytes", m->bytes);
		json_text(o, "result", words[m->result]);
		json_text(o, "why", m->why);
	}
}
