// SPDX-License-Identifier: MIT
/*
 * pair_render.c - two machines beside each other, for people and as JSON.  Rails that are alike are one table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "base/json.h"
#include "base/table.h"
#include "base/tool.h"

#define RAILS_SHOWN	4

static bool same_rows(const struct pair_table *a, const struct pair_table *b)
{
	if (a->count != b->count)
		return false;
	for (unsigned int i = 0; i < a->count; i++) {
		const struct pair_row *x = &a->rows[i], *y = &b->rows[i];

		if (strcmp(x->fact, y->fact) || strcmp(x->value[0], y->value[0]) ||
		    strcmp(x->value[1], y->value[1]) || x->verdict != y->verdict ||
		    strcmp(x->consequence, y->consequence))
			return false;
	}
	return true;
}

static bool alike(const struct pair_table *a, const struct pair_table *b)
{
	return a == b || (a->rail[0] && b->rail[0] &&
			  (a->rail[0]->gpu < 0) == (b->rail[0]->gpu < 0) && same_rows(a, b));
}

static void rail_title(const struct pair_table *t)
{
	printf("A's %s, B's %s", t->rail[0]->name, t->rail[1]->name);
}

/* The rails that this table speaks for. */
static void title(const struct pairing *p, unsigned int first)
{
	const struct pair_table *t = &p->tables[first];
	unsigned int n = 0;

	if (!t->rail[0]) {
		puts("The machines:");
		return;
	}
	for (unsigned int i = first; i < p->count; i++) {
		if (!alike(t, &p->tables[i]))
			continue;
		if (n++ < RAILS_SHOWN) {
			fputs(n > 1 ? ";\n" : "", stdout);
			rail_title(&p->tables[i]);
		}
	}
	if (n > RAILS_SHOWN)
		printf(";\nand %u more", n - RAILS_SHOWN);
	puts(":");
}

static void one_table(const struct pairing *p, const struct tool *tool, unsigned int first)
{
	static const char *const titles[] = { "FACT", "A", "B", "VERDICT" };
	const struct pair_table *t = &p->tables[first];
	struct table *table = table_new(titles, 4);

	putchar('\n');
	title(p, first);
	for (unsigned int i = 0; i < t->count; i++) {
		const struct pair_row *r = &t->rows[i];
		const char *cells[] = { r->fact, r->value[0], r->value[1], pair_word(r->verdict) };

		table_add(table, cells);
	}
	table_print(table, "  ");
	for (unsigned int i = 0; i < t->count; i++) {
		const struct pair_row *r = &t->rows[i];

		if (!*r->consequence)
			continue;
		printf("%s: %s\n", pair_word(r->verdict), r->fact);
		render_wrapped(tool, "so", r->consequence);
		if (r->remedy)
			render_wrapped(tool, "do", r->remedy);
	}
}

static const char *colour(const struct tool *tool, enum pair_verdict v)
{
	static const char *const colours[] = { "\033[32m", "\033[32m", "\033[33m", "\033[33m",
					       "\033[1;31m" };

	return tool->color ? colours[v] : "";
}

static const char *headline(enum pair_verdict v)
{
	static const char *const words[] = {
		[PAIR_SAME] = "The machines fit each other.",
		[PAIR_DIFFERS] = "The machines fit each other; what differs should do no harm.",
		[PAIR_UNKNOWN] = "Whether the machines fit each other cannot be told.",
		[PAIR_SLOW] = "The machines should reach each other, but more slowly than they could.",
		[PAIR_BROKEN] = "A difference, or a fault, keeps the machines from reaching each other as they are.",
	};

	return words[v];
}

void pair_text(const struct pairing *p, const struct tool *tool)
{
	for (int i = 0; i < 2; i++) {
		char *clean = text_clean(p->name[i], strlen(p->name[i]));

		printf("%c: %s: by itself %s\n", "AB"[i], clean ? clean : "?",
		       verdict_word(doctor_verdict(&p->side[i]->doctor)));
		free(clean);
	}
	for (unsigned int i = 0; i < p->count; i++) {
		bool before = false;

		for (unsigned int k = 0; k < i; k++)
			before |= alike(&p->tables[k], &p->tables[i]);
		if (!before)
			one_table(p, tool, i);
	}
	moved_text(&p->side[0]->doctor);
	printf("\n%s%s%s\n", colour(tool, p->verdict), headline(p->verdict),
	       tool->color ? "\033[0m" : "");
}

/* ---- JSON ---- */

static void rail_json(const struct doctor *d, struct json_object *o, const char *key,
		      const struct rail *r)
{
	struct json_object *in = json_object_in(o, key);

	json_text(in, "gpu", r->gpu < 0 ? NULL : d->machine->devices[r->gpu].label);
	json_text(in, "adapter", r->nic < 0 ? NULL : d->machine->devices[r->nic].label);
	json_text(in, "device", *r->device ? r->device : NULL);
}

static void facts_json(struct json_object *o, const struct pair_table *t)
{
	struct json_object *array = json_array_in(o, "facts"), *f;

	for (unsigned int i = 0; i < t->count; i++) {
		const struct pair_row *r = &t->rows[i];

		f = json_append(array);
		json_text(f, "fact", r->fact);
		json_text(f, "a", r->value[0]);
		json_text(f, "b", r->value[1]);
		json_text(f, "verdict", pair_word(r->verdict));
		json_text(f, "consequence", *r->consequence ? r->consequence : NULL);
		json_text(f, "remedy", r->remedy);
	}
}

int pair_json(const struct pairing *p)
{
	struct json_object *o = json_new("peerdma-doctor-pair/1"), *array, *in;

	json_text(o, "verdict", pair_word(p->verdict));
	for (int i = 0; i < 2; i++) {
		const struct doctor *d = &p->side[i]->doctor;
		char *clean = text_clean(p->name[i], strlen(p->name[i]));

		in = json_object_in(o, i ? "b" : "a");
		json_text(in, "name", clean);
		json_text(in, "verdict", verdict_word(doctor_verdict(d)));
		json_text(in, "kernel", *d->machine->release ? d->machine->release : NULL);
		free(clean);
	}
	facts_json(o, &p->tables[0]);
	array = json_array_in(o, "rails");
	for (unsigned int i = 1; i < p->count; i++) {
		in = json_append(array);
		rail_json(&p->side[0]->doctor, in, "a", p->tables[i].rail[0]);
		rail_json(&p->side[1]->doctor, in, "b", p->tables[i].rail[1]);
		facts_json(in, &p->tables[i]);
	}
	moved_json(&p->side[0]->doctor, json_array_in(o, "moved"));
	return json_print(o);
}
