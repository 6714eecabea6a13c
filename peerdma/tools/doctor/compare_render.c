// SPDX-License-Identifier: MIT
/*
 * compare_render.c - differences for people, and as JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "base/json.h"
#include "base/tool.h"

#define FILES_SHOWN	20

static const char *const kind_names[DIFFERENCES] = {
	[DIFFERENCE_WORSE] = "worse", [DIFFERENCE_MISSING] = "missing", [DIFFERENCE_FACT] = "fact",
	[DIFFERENCE_BETTER] = "better", [DIFFERENCE_FILE] = "file",
};

static const char *word(const struct finding *f)
{
	return f ? verdict_word(f->verdict) : "not checked";
}

static void seen(const struct tool *tool, const char *side, const struct finding *f)
{
	for (unsigned int e = 0; f && e < f->evidence_count; e++) {
		char line[600];

		snprintf(line, sizeof(line), "%s: %s", f->evidence[e].source, f->evidence[e].value);
		render_wrapped(tool, e ? "" : side, line);
	}
}

static void one_finding(const struct tool *tool, const struct difference *d)
{
	const struct finding *f = d->b ? d->b : d->a;

	printf("\n%-7s  %s: %s: ", kind_names[d->kind], f->check->title, f->subject);
	if (d->kind == DIFFERENCE_FACT)
		printf("%s in both\n", word(f));
	else
		printf("%s -> %s\n", word(d->a), word(d->b));
	seen(tool, "A", d->a);
	seen(tool, "B", d->b);
	if (d->kind != DIFFERENCE_WORSE)
		return;
	if (f->consequence)
		render_wrapped(tool, "so", f->consequence);
	if (f->remedy)
		render_wrapped(tool, "do", f->remedy);
}

void compare_text(const struct comparison *c, const struct tool *tool, bool all)
{
	size_t files = 0;

	printf("A: %s: %s\nB: %s: %s\n", c->name[0], verdict_word(doctor_verdict(c->side[0])),
	       c->name[1], verdict_word(doctor_verdict(c->side[1])));
	if (!c->count)
		puts("No difference in what was read.");
	else
		printf("Checks in B: %zu worse, %zu missing, %zu better, %zu alike on other facts. Other files that differ: %zu.\n",
		       c->kinds[DIFFERENCE_WORSE], c->kinds[DIFFERENCE_MISSING],
		       c->kinds[DIFFERENCE_BETTER], c->kinds[DIFFERENCE_FACT],
		       c->kinds[DIFFERENCE_FILE]);
	for (size_t i = 0; i < c->count; i++) {
		const struct difference *d = &c->all[i];

		if (d->kind != DIFFERENCE_FILE) {
			one_finding(tool, d);
		} else if (all || files++ < FILES_SHOWN) {
			printf("\n%-7s  %s\n", kind_names[d->kind], d->path);
			render_wrapped(tool, "A", d->a_text);
			render_wrapped(tool, "B", d->b_text);
		}
	}
	if (files > FILES_SHOWN)
		printf("\nAnd %zu more files ('--all' shows them).\n", files - FILES_SHOWN);
}

static void json_side(struct json_object *o, const char *key, const struct finding *f)
{
	struct json_object *side, *list, *e;

	if (!f) {
		json_null(o, key);
		return;
	}
	side = json_object_in(o, key);
	json_text(side, "verdict", verdict_word(f->verdict));
	list = json_array_in(side, "evidence");
	for (unsigned int n = 0; n < f->evidence_count; n++) {
		e = json_append(list);
		json_text(e, "source", f->evidence[n].source);
		json_text(e, "value", f->evidence[n].value);
	}
	json_text(side, "consequence", f->consequence);
	json_text(side, "remedy", f->remedy);
}

int compare_json(const struct comparison *c)
{
	struct json_object *o = json_new("peerdma-doctor-compare/1"), *list, *item;

	for (int i = 0; i < 2; i++) {
		char *clean = text_clean(c->name[i], strlen(c->name[i]));

		item = json_object_in(o, i ? "b" : "a");
		json_text(item, "bundle", clean);
		json_text(item, "verdict", verdict_word(doctor_verdict(c->side[i])));
		json_text(item, "kernel",
			  *c->side[i]->machine->release ? c->side[i]->machine->release : NULL);
		free(clean);
	}
	list = json_array_in(o, "differences");
	for (size_t i = 0; i < c->count; i++) {
		const struct difference *d = &c->all[i];

		item = json_append(list);
		json_text(item, "kind", kind_names[d->kind]);
		if (d->kind == DIFFERENCE_FILE) {
			json_text(item, "path", d->path);
			json_text(item, "a", d->a_text);
			json_text(item, "b", d->b_text);
			continue;
		}
		json_text(item, "check", (d->b ? d->b : d->a)->check->name);
		json_text(item, "title", (d->b ? d->b : d->a)->check->title);
		json_text(item, "subject", (d->b ? d->b : d->a)->subject);
		json_side(item, "a", d->a);
		json_side(item, "b", d->b);
	}
	return json_print(o);
}
