// SPDX-License-Identifier: MIT
/*
 * findings.c - what a check says: its findings, and the devices that they are about.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "gpu_modes.h"
#include "base/tool.h"

const char *verdict_word(enum verdict v)
{
	static const char *const words[] = { "ok", "cannot tell", "slow", "broken" };

	return words[v];
}

/* ---- what checks say -------------------------------------------------------- */

/* Cleaned: names from a captured tree may be in it. */
static void format(struct doctor *d, char **out, const char *text, va_list args)
{
	char *raw;

	free(*out);
	*out = NULL;
	if (vasprintf(&raw, text, args) >= 0) {
		*out = text_clean(raw, strlen(raw));
		free(raw);
	}
	if (!*out)
		d->no_memory = true;
}

static struct finding *add(struct doctor *d, enum verdict v, const char *subject, va_list args)
{
	/* Findings go here when there is no memory; it is never read */
	static struct finding nowhere;
	struct finding *f;

	if (d->count == d->room) {
		unsigned int room = d->room ? d->room * 2 : 64;
		struct finding *bigger = realloc(d->findings, room * sizeof(bigger[0]));

		if (!bigger) {
			d->no_memory = true;
			return &nowhere;
		}
		d->findings = bigger;
		d->room = room;
	}
	f = &d->findings[d->count];
	memset(f, 0, sizeof(*f));
	f->check = d->check;
	f->verdict = v;
	f->device = f->other = ANY_DEVICE;
	f->order = d->count++;
	format(d, &f->subject, subject, args);
	return f;
}

struct finding *say(struct doctor *d, enum verdict v, const char *subject, ...)
{
	struct finding *f;
	va_list args;

	va_start(args, subject);
	f = add(d, v, subject, args);
	va_end(args);
	return f;
}

struct finding *say_maker(struct doctor *d, enum verdict v, unsigned int vendor, unsigned int ways,
			  const char *subject, ...)
{
	struct finding *f;
	va_list args;

	va_start(args, subject);
	f = add(d, v, subject, args);
	va_end(args);
	f->vendor = vendor;
	f->ways = ways;
	return f;
}

struct finding *say_device(struct doctor *d, enum verdict v, unsigned int device,
			   unsigned int ways)
{
	const struct device *x = &d->machine->devices[device];
	struct finding *f = say(d, v, "%s", *x->label ? x->label : x->name);

	f->device = (int)device;
	f->ways = ways;
	return f;
}

struct finding *say_pair(struct doctor *d, enum verdict v, const struct pair *p, unsigned int ways)
{
	const struct machine *m = d->machine;
	struct finding *f = say(d, v, "%s and %s", m->devices[p->a].label, m->devices[p->b].label);

	f->device = (int)p->a;
	f->other = (int)p->b;
	f->ways = ways;
	return f;
}

void evidence(struct doctor *d, struct finding *f, const char *source, const char *value, ...)
{
	struct evidence *e;
	va_list args;

	if (f->evidence_count == EVIDENCE_MAX)
		return;
	e = &f->evidence[f->evidence_count++];
	e->source = text_clean(source, strlen(source));
	if (!e->source)
		d->no_memory = true;
	va_start(args, value);
	format(d, &e->value, value, args);
	va_end(args);
}

void consequence(struct doctor *d, struct finding *f, const char *text, ...)
{
	va_list args;

	va_start(args, text);
	format(d, &f->consequence, text, args);
	va_end(args);
}

void remedy(struct doctor *d, struct finding *f, const char *text, ...)
{
	va_list args;

	va_start(args, text);
	format(d, &f->remedy, text, args);
	va_end(args);
}

void remedy_owner(struct doctor *d, struct finding *f, const char *ask, const char *text, ...)
{
	va_list args;

	if (d->machine->virtual) {
		if (ask)
			remedy(d, f, "ask the provider of this virtual machine for %s", ask);
		return;
	}
	va_start(args, text);
	format(d, &f->remedy, text, args);
	va_end(args);
}

void evidence_file(struct doctor *d, struct finding *f, const char *path)
{
	char word[128];
	int ret = tree_word(d->tree, path, word, sizeof(word));

	evidence(d, f, path, "%s", ret ? strerror(-ret) : *word ? word : "(empty)");
}

void evidence_device(struct doctor *d, struct finding *f, const struct device *device,
		     const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), PCI_DEVICES "%s/%s", device->name, file);
	evidence_file(d, f, path);
}

bool finding_is_shown(const struct finding *f, bool all)
{
	return all || f->counts;
}

/* ---- which devices ----------------------------------------------------------- */

const struct device *pair_gpu(const struct doctor *d, const struct pair *p)
{
	const struct device *a = &d->machine->devices[p->a], *b = &d->machine->devices[p->b];

	return a->kind == DEVICE_GPU ? a : b->kind == DEVICE_GPU ? b : NULL;
}

bool device_concerned(const struct doctor *d, unsigned int i)
{
	if (d->chosen)
		return i == d->pairs[0].a || i == d->pairs[0].b;
	return *d->machine->devices[i].label;
}

bool any_of_kind(const struct doctor *d, enum device_kind kind)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (d->machine->devices[i].kind == kind && device_concerned(d, i))
			return true;
	}
	return false;
}

bool any_gpu_of(const struct doctor *d, unsigned int vendor)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];

		if (g->kind == DEVICE_GPU && g->vendor == vendor && device_concerned(d, i))
			return true;
	}
	return false;
}

bool is_gpu_with(const struct doctor *d, unsigned int i, unsigned int vendor,
		 enum gpu_memory memory)
{
	const struct device *g = &d->machine->devices[i];

	return g->kind == DEVICE_GPU && (!vendor || g->vendor == vendor) && g->memory == memory &&
	       device_concerned(d, i);
}

bool any_gpu_with(const struct doctor *d, unsigned int vendor, enum gpu_memory memory)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (is_gpu_with(d, i, vendor, memory))
			return true;
	}
	return false;
}

bool any_gpu_apart(const struct doctor *d, unsigned int vendor)
{
	return any_gpu_with(d, vendor, MEMORY_BEHIND_BAR) ||
	       any_gpu_with(d, vendor, MEMORY_COHERENT);
}

bool pair_is_pci(const struct doctor *d, const struct pair *p)
{
	const struct device *a = &d->machine->devices[p->a], *b = &d->machine->devices[p->b];

	return (a->kind != DEVICE_GPU || a->memory == MEMORY_BEHIND_BAR) &&
	       (b->kind != DEVICE_GPU || b->memory == MEMORY_BEHIND_BAR);
}

bool path_of_gpu(const struct doctor *d, unsigned int device)
{
	const struct device *g = &d->machine->devices[device];

	return g->kind == DEVICE_GPU && device_concerned(d, device) && !device_is_handed_on(g) &&
	       !gpu_is_lent(d->tree, g->name);
}
