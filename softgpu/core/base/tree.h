/* SPDX-License-Identifier: MIT */
/*
 * tree.h - balanced trees (AVL) with unique u64 keys; the nodes are inside
 * the objects.  Each node also has a length, and knows the greatest length in
 * its subtree, so that "the lowest one that is long enough" takes O(log n) too.
 *
 * Everything is O(log n), allocates nothing and cannot fail.  The caller holds a lock.
 */
#ifndef SG_BASE_TREE_H
#define SG_BASE_TREE_H

#include "../sg_os.h"

struct sg_node {
	struct sg_node *left, *right, *parent;
	u64 key;		/* set before insertion; may change if the order stays */
	u64 len;		/* 0 if not used */
	u64 max;		/* greatest len in this subtree */
	u32 height;
};

struct sg_tree {
	struct sg_node *root;
};

/* The key must not be in the tree yet. */
void sg_tree_insert(struct sg_tree *tree, struct sg_node *node);
void sg_tree_erase(struct sg_tree *tree, struct sg_node *node);
/* To be called after node->len has changed. */
void sg_tree_len_changed(struct sg_node *node);

struct sg_node *sg_tree_find(const struct sg_tree *tree, u64 key);
/* The greatest key <= key; the least key >= key. */
struct sg_node *sg_tree_floor(const struct sg_tree *tree, u64 key);
struct sg_node *sg_tree_ceil(const struct sg_tree *tree, u64 key);
struct sg_node *sg_tree_first(const struct sg_tree *tree);
struct sg_node *sg_tree_next(const struct sg_node *node);
/* The node with the least key >= from among those with a length >= len. */
struct sg_node *sg_tree_fit(const struct sg_tree *tree, u64 from, u64 len);

#endif
