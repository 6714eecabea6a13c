// SPDX-License-Identifier: MIT
/*
 * tree.c - a machine, or a folder that stands for one: what has been read of it.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree_inside.h"

static int compare(const void *a, const void *b)
{
	const struct tree_entry *x = a, *y = b;

	return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->path, y->path);
}

struct tree_entry *tree_entry_find(struct tree *t, enum tree_kind kind, const char *path)
{
	struct tree_entry key = { .kind = kind, .path = (char *)path };
	void *found = tfind(&key, &t->entries, compare);

	return found ? *(struct tree_entry **)found : NULL;
}

struct tree_entry *tree_entry_add(struct tree *t, enum tree_kind kind, const char *path)
{
	struct tree_entry *e;

	if (t->count == t->room) {
		size_t room = t->room ? t->room * 2 : 256;
		struct tree_entry **bigger = realloc(t->sorted, room * sizeof(bigger[0]));

		if (!bigger)
			return NULL;
		t->sorted = bigger;
		t->room = room;
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->kind = kind;
	e->path = strdup(path);
	if (!e->path || !tsearch(e, &t->entries, compare)) {
		free(e->path);
		free(e);
		return NULL;
	}
	t->sorted[t->count++] = e;
	t->in_order = false;
	return e;
}

static void keep_nothing(void *node)
{
	(void)node;
}

static int by_kind_and_path(const void *a, const void *b)
{
	return compare(*(struct tree_entry *const *)a, *(struct tree_entry *const *)b);
}

int tree_each(struct tree *t, tree_visit visit, void *arg)
{
	int ret = 0;

	/* A visitor may begin once more for each that it is shown. */
	if (t->count && !t->in_order)
		qsort(t->sorted, t->count, sizeof(t->sorted[0]), by_kind_and_path);
	t->in_order = true;
	for (size_t i = 0; i < t->count && !ret; i++)
		ret = visit(t->sorted[i], arg);
	return ret;
}

int tree_hand_out(const struct tree_entry *e, const char **data, size_t *length)
{
	if (!e)
		return -ENOMEM;
	if (e->error)
		return e->error;
	*data = e->data;
	if (length)
		*length = e->length;
	return 0;
}

void tree_close(struct tree *t)
{
	if (!t)
		return;
	tdestroy(t->entries, keep_nothing);
	for (size_t i = 0; i < t->count; i++) {
		free(t->sorted[i]->path);
		free(t->sorted[i]->data);
		free(t->sorted[i]);
	}
	free(t->sorted);
	if (t->root >= 0)
		close(t->root);
	free(t);
}

bool tree_is_live(const struct tree *t)
{
	return t->root < 0;
}
