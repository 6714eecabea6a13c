/* SPDX-License-Identifier: MIT */
/*
 * tree_inside.h - what the files of the tree share (tree*.c).
 */
#pragma once

#include "tree.h"

struct tree {
	int root;		/* -1: this machine */
	void *entries;		/* tsearch(3) */
	struct tree_entry **sorted;
	size_t count, room;
	bool in_order;		/* sorted[] is, by kind and path */
};

/* tree.c: what has been read.  NULL: not yet; and a new one, which is not there yet: out of memory. */
struct tree_entry *tree_entry_find(struct tree *t, enum tree_kind kind, const char *path);
struct tree_entry *tree_entry_add(struct tree *t, enum tree_kind kind, const char *path);
int tree_hand_out(const struct tree_entry *e, const char **data, size_t *length);

/* tree_open.c: no link leads out of the folder.  A descriptor; tree_open_below(): or -1 and errno; tree_open_file(): -errno. */
int tree_open_below(const struct tree *t, const char *path, int flags);
int tree_open_file(const struct tree *t, const char *path);
