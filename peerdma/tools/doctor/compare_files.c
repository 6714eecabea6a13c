// SPDX-License-Identifier: MIT
/*
 * compare_files.c - what was read of two machines, entry by entry.
 *
 * Files of a device are beside those of the device with the same label. Those of bridges
 * and of devices without a label, and of a device that one machine lacks, are left out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "base/tool.h"

#define TEXT_MAX 160

struct item {
	const struct tree_entry *entry;
	char *path;		/* relabelled */
};

struct items {
	const struct machine *machine;
	struct item *all;
	size_t count;
};

/* Of a device that has no label: its address is still there. */
static bool is_nameless(const char *path)
{
	size_t prefix = strlen(PCI_DEVICES);

	return !strncmp(path, PCI_DEVICES, prefix) &&
	       memchr(path + prefix, ':', strcspn(path + prefix, "/"));
}

static int collect(const struct tree_entry *e, void *arg)
{
	struct items *items = arg;
	struct item *bigger;
	char *path;

	if (e->error == -ENOENT)
		return 0;
	path = compare_relabel(items->machine, e->path);
	if (!path)
		return -ENOMEM;
	if (is_nameless(path) || !strcmp(e->path, "/sys/bus/pci/devices")) {
		free(path);
		return 0;
	}
	bigger = reallocarray(items->all, items->count + 1, sizeof(*bigger));
	if (!bigger) {
		free(path);
		return -ENOMEM;
	}
	items->all = bigger;
	items->all[items->count++] = (struct item){ e, path };
	return 0;
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int paths = strcmp(x->path, y->path);

	return paths ? paths : (int)x->entry->kind - (int)y->entry->kind;
}

/* "/sys/bus/pci/devices/GPU1/...": and the other machine has no GPU1. */
static bool of_device_missing(const char *path, const struct machine *other)
{
	size_t prefix = strlen(PCI_DEVICES), length;

	if (strncmp(path, PCI_DEVICES, prefix))
		return false;
	path += prefix;
	length = strcspn(path, "/");
	for (unsigned int i = 0; i < other->shown_count; i++) {
		const char *label = other->devices[other->shown[i]].label;

		if (strlen(label) == length && !strncmp(label, path, length))
			return false;
	}
	return true;
}

static bool is_text(const struct tree_entry *e)
{
	return e->kind != TREE_LIST && !memchr(e->data, 0, e->length);
}

/* What stands there: malloc()ed; lists with blanks between the names. */
static char *content(const struct machine *m, const struct tree_entry *e)
{
	char *text = NULL, *out;
	size_t length;
	FILE *to;

	if (e->error)
		return strdup(strerror(-e->error));
	if (e->kind == TREE_NODE) {
		if (asprintf(&out, "mode %o, %s", (unsigned int)e->node.mode & 07777,
			     e->node.usable ? "usable" : e->node.refused ?
			     "refused by the device cgroup" : "not usable") < 0)
			return NULL;
		return out;
	}
	if (e->kind != TREE_LIST)
		return compare_relabel(m, e->data);
	to = open_memstream(&text, &length);
	if (!to)
		return NULL;
	for (const char *name = e->data; *name; name = tree_next(name))
		fprintf(to, "%s ", name);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	out = compare_relabel(m, text);
	free(text);
	return out;
}

/* The first line that differs, cleaned; *a or *b at the end of its text: "". */
static void first_line(const char **a, const char **b)
{
	for (;;) {
		size_t x = strcspn(*a, "\n"), y = strcspn(*b, "\n");

		if (x != y || strncmp(*a, *b, x) || (!(*a)[x] && !(*b)[y]))
			return;
		*a += x + ((*a)[x] == '\n');
		*b += y + ((*b)[y] == '\n');
	}
}

static char *shown(const char *line)
{
	size_t length = strcspn(line, "\n");
	char *copy = strndup(line, length), text[TEXT_MAX];

	if (!copy)
		return NULL;
	for (char *tab = copy; (tab = strchr(tab, '\t'));)
		*tab = ' ';
	tree_clean(text, sizeof(text), copy, length);
	free(copy);
	return strdup(*text ? text : "(empty)");
}

static int add(struct comparison *c, const char *path, char *a, char *b)
{
	struct difference *d = a && b ? compare_add(c, DIFFERENCE_FILE) : NULL;

	if (!d) {
		free(a);
		free(b);
		return -ENOMEM;
	}
	d->a_text = a;
	d->b_text = b;
	d->path = text_clean(path, strlen(path));
	return d->path ? 0 : -ENOMEM;
}

static char *bytes(const struct tree_entry *e)
{
	char *out;

	return asprintf(&out, "%zu bytes, not text", e->length) < 0 ? NULL : out;
}

static int both(struct comparison *c, const struct item *a, const struct item *b)
{
	const struct tree_entry *x = a->entry, *y = b->entry;
	char *one, *other;
	const char *s, *t;
	int ret = 0;

	if (!x->error && !y->error && x->data && y->data && x->kind != TREE_LIST &&
	    (!is_text(x) || !is_text(y))) {
		if (x->length == y->length && !memcmp(x->data, y->data, x->length))
			return 0;
		return add(c, a->path, bytes(x), bytes(y));
	}
	one = content(c->side[0]->machine, x);
	other = content(c->side[1]->machine, y);
	if (!one || !other) {
		ret = -ENOMEM;
	} else if (strcmp(one, other)) {
		s = one;
		t = other;
		first_line(&s, &t);
		ret = add(c, a->path, shown(s), shown(t));
	}
	free(one);
	free(other);
	return ret;
}

/* The evidence of a finding that is shown has it. */
static bool is_shown(const struct comparison *c, const char *path)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct finding *f[2] = { c->all[i].a, c->all[i].b };

		for (int side = 0; side < 2; side++) {
			for (unsigned int e = 0; f[side] && e < f[side]->evidence_count; e++) {
				if (!strcmp(f[side]->evidence[e].source, path))
					return true;
			}
		}
	}
	return false;
}

static int alone(struct comparison *c, const struct item *item, int side)
{
	const struct doctor *other = c->side[!side];
	char *text, *none;
	const char *line, *end = "";
	int ret;

	if (of_device_missing(item->path, other->machine))
		return 0;
	if (!item->entry->error && item->entry->kind != TREE_LIST &&
	    item->entry->kind != TREE_NODE && !is_text(item->entry)) {
		text = bytes(item->entry);
	} else {
		char *all = content(c->side[side]->machine, item->entry);

		if (!all)
			return -ENOMEM;
		line = all;
		first_line(&line, &end);
		text = shown(line);
		free(all);
	}
	none = strdup("(not there, or not read)");
	ret = side ? add(c, item->path, none, text) : add(c, item->path, text, none);
	return ret;
}

static int merge(struct comparison *c, const struct items *a, const struct items *b)
{
	size_t i = 0, j = 0;
	int ret = 0;

	while (!ret && (i < a->count || j < b->count)) {
		int order = i == a->count ? 1 : j == b->count ? -1 :
			compare_items(&a->all[i], &b->all[j]);
		const struct item *x = order <= 0 ? &a->all[i++] : NULL,
			*y = order >= 0 ? &b->all[j++] : NULL;

		if ((x && is_shown(c, x->entry->path)) || (y && is_shown(c, y->entry->path)))
			continue;
		ret = x && y ? both(c, x, y) : x ? alone(c, x, 0) : alone(c, y, 1);
	}
	return ret;
}

int compare_files(struct comparison *c)
{
	struct items items[2] = { { .machine = c->side[0]->machine },
				  { .machine = c->side[1]->machine } };
	int ret = 0;

	for (int side = 0; !ret && side < 2; side++) {
		ret = tree_each(c->side[side]->tree, collect, &items[side]);
		if (!ret && items[side].count)
			qsort(items[side].all, items[side].count, sizeof(struct item),
			      compare_items);
	}
	if (!ret)
		ret = merge(c, &items[0], &items[1]);
	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < items[side].count; i++)
			free(items[side].all[i].path);
		free(items[side].all);
	}
	return ret;
}
