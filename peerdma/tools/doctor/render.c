// SPDX-License-Identifier: MIT
/*
 * render.c - findings for people, worst first, and as JSON.
 *
 * A finding that several devices share is printed once, with all their names.
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "paths.h"
#include "base/json.h"
#include "base/tool.h"

#define EVIDENCE_SHOWN	5
#define SUBJECTS_SHOWN	6

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool alike(const struct finding *a, const struct finding *b)
{
	return a->check == b->check && a->verdict == b->verdict && a->counts == b->counts &&
	       same_text(a->consequence, b->consequence) && same_text(a->remedy, b->remedy);
}

static const char *colour(const struct tool *tool, enum verdict v)
{
	static const char *const colours[] = { "\033[32m", "\033[33m", "\033[33m", "\033[1;31m" };

	return tool->color ? colours[v] : "";
}

static void subjects(const struct doctor *d, const struct finding *first)
{
	unsigned int n = 0, more = 0;

	for (unsigned int i = first->order; i < d->count; i++) {
		if (!alike(first, &d->findings[i]))
			continue;
		if (n < SUBJECTS_SHOWN)
			printf("%s%s", n ? ", " : "", d->findings[i].subject);
		else
			more++;
		n++;
	}
	if (more)
		printf(" and %u more", more);
}

static void one(const struct doctor *d, const struct tool *tool, const struct finding *f)
{
	char line[600];

	printf("%s%-11s%s  %s: ", colour(tool, f->verdict), verdict_word(f->verdict),
	       tool->color ? "\033[0m" : "", f->check->title);
	subjects(d, f);
	putchar('\n');
	for (unsigned int e = 0; e < f->evidence_count && e < EVIDENCE_SHOWN; e++) {
		snprintf(line, sizeof(line), "%s: %s", f->evidence[e].source, f->evidence[e].value);
		render_wrapped(tool, e ? "" : "seen", line);
	}
	if (f->consequence)
		render_wrapped(tool, "so", f->consequence);
	if (f->remedy)
		render_wrapped(tool, "do", f->remedy);
	if (f->ignored)
		render_wrapped(tool, "but", "it is accepted: ignored");
	else if (f->verdict != VERDICT_OK && !f->counts)
		render_wrapped(tool, "but", "no path that is wanted depends on it");
}

static bool said_before(const struct doctor *d, unsigned int i)
{
	for (unsigned int j = 0; j < i; j++) {
		if (alike(&d->findings[j], &d->findings[i]))
			return true;
	}
	return false;
}

static void counts(const struct doctor *d, bool all)
{
	unsigned int n[VERDICT_BROKEN + 1] = { 0 }, others = 0;

	for (unsigned int i = 0; i < d->count; i++) {
		const struct finding *f = &d->findings[i];

		if (said_before(d, i))
			continue;
		if (finding_is_shown(f, all))
			n[f->verdict]++;
		else
			others += f->verdict != VERDICT_OK;
	}
	if (all)
		printf("\n%u broken, %u slow, %u cannot tell, %u ok\n", n[VERDICT_BROKEN],
		       n[VERDICT_SLOW], n[VERDICT_UNKNOWN], n[VERDICT_OK]);
	else if (others)
		printf("\n%u finding%s on which no path that is wanted depends: '--all' shows %s.\n",
		       others, others == 1 ? "" : "s", others == 1 ? "it" : "them");
}

void render_text(const struct doctor *d, const struct tool *tool, bool all)
{
	render_headline(d);
	moved_text(d);
	render_paths(d, tool, all);
	for (int v = VERDICT_BROKEN; v >= VERDICT_OK; v--) {
		for (unsigned int i = 0; i < d->count; i++) {
			const struct finding *f = &d->findings[i];

			if ((int)f->verdict != v || !finding_is_shown(f, all) ||
			    said_before(d, i))
				continue;
			putchar('\n');
			one(d, tool, f);
		}
	}
	counts(d, all);
	if (!all && doctor_verdict(d) != VERDICT_OK)
		puts("\n'--all' also shows what is ok; '--bundle FILE' collects what was read, for a report.");
}

int render_json(const struct doctor *d)
{
	struct json_object *o = json_new("peerdma-doctor/2"), *array, *f, *list, *e;

	json_text(o, "verdict", verdict_word(doctor_verdict(d)));
	json_text(o, "kernel", *d->machine->release ? d->machine->release : NULL);
	array = json_array_in(o, "pair");
	if (d->chosen) {
		json_text(json_append(array), "pci", d->machine->devices[d->pairs[0].a].name);
		json_text(json_append(array), "pci", d->machine->devices[d->pairs[0].b].name);
	}
	render_paths_json(d, o);
	array = json_array_in(o, "findings");
	for (unsigned int i = 0; i < d->count; i++) {
		const struct finding *from = &d->findings[i];

		f = json_append(array);
		json_text(f, "check", from->check->name);
		json_text(f, "title", from->check->title);
		json_text(f, "verdict", verdict_word(from->verdict));
		json_text(f, "subject", from->subject);
		json_truth(f, "counts", from->counts);
		json_truth(f, "ignored", from->ignored);
		list = json_array_in(f, "ways");
		for (unsigned int way = 0; way < WAYS; way++) {
			if (from->ways & WAY(way))
				json_append_text(list, way_key(way));
		}
		list = json_array_in(f, "evidence");
		for (unsigned int n = 0; n < from->evidence_count; n++) {
			e = json_append(list);
			json_text(e, "source", from->evidence[n].source);
			json_text(e, "value", from->evidence[n].value);
		}
		json_text(f, "consequence", from->consequence);
		json_text(f, "remedy", from->remedy);
	}
	moved_json(d, json_array_in(o, "moved"));
	return json_print(o);
}
