// SPDX-License-Identifier: MIT
/* tree.c - see tree.h. */
#include "tree.h"

static u32 height(const struct sg_node *n)
{
	return n ? n->height : 0;
}

static u64 longest(const struct sg_node *n)
{
	return n ? n->max : 0;
}

/* Brings a node's height and max up to date with its children. */
static void refresh(struct sg_node *n)
{
	u32 l = height(n->left), r = height(n->right);

	n->height = 1 + (l > r ? l : r);
	n->max = n->len;
	if (longest(n->left) > n->max)
		n->max = n->left->max;
	if (longest(n->right) > n->max)
		n->max = n->right->max;
}

/* Replaces `old` by `new` in old's parent; old's own links stay as they are. */
static void replace(struct sg_tree *tree, struct sg_node *old, struct sg_node *new)
{
	struct sg_node *p = old->parent;

	if (!p)
		tree->root = new;
	else if (p->left == old)
		p->left = new;
	else
		p->right = new;
	if (new)
		new->parent = p;
}

static struct sg_node *rotate_left(struct sg_tree *tree, struct sg_node *n)
{
	struct sg_node *up = n->right;

	replace(tree, n, up);
	n->right = up->left;
	if (n->right)
		n->right->parent = n;
	up->left = n;
	n->parent = up;
	refresh(n);
	refresh(up);
	return up;
}

static struct sg_node *rotate_right(struct sg_tree *tree, struct sg_node *n)
{
	struct sg_node *up = n->left;

	replace(tree, n, up);
	n->left = up->right;
	if (n->left)
		n->left->parent = n;
	up->right = n;
	n->parent = up;
	refresh(n);
	refresh(up);
	return up;
}

/* Updates heights and maxima from n to the root, and rotates imbalances away. */
static void rebalance(struct sg_tree *tree, struct sg_node *n)
{
	for (; n; n = n->parent) {
		refresh(n);
		if (height(n->left) > height(n->right) + 1) {
			if (height(n->left->right) > height(n->left->left))
				rotate_left(tree, n->left);
			n = rotate_right(tree, n);
		} else if (height(n->right) > height(n->left) + 1) {
			if (height(n->right->left) > height(n->right->right))
				rotate_right(tree, n->right);
			n = rotate_left(tree, n);
		}
	}
}

void sg_tree_insert(struct sg_tree *tree, struct sg_node *node)
{
	struct sg_node **link = &tree->root, *parent = NULL;

	while (*link) {
		parent = *link;
		link = node->key < parent->key ? &parent->left : &parent->right;
	}
	node->left = NULL;
	node->right = NULL;
	node->parent = parent;
	*link = node;
	rebalance(tree, node);
}

void sg_tree_erase(struct sg_tree *tree, struct sg_node *node)
{
	struct sg_node *from;	/* the lowest node whose subtree changed */

	if (!node->left || !node->right) {
		from = node->parent;
		replace(tree, node, node->left ? node->left : node->right);
	} else {
		struct sg_node *next = node->right;

		while (next->left)
			next = next->left;
		from = next->parent == node ? next : next->parent;
		if (next->parent != node) {
			replace(tree, next, next->right);
			next->right = node->right;
			next->right->parent = next;
		}
		replace(tree, node, next);
		next->left = node->left;
		next->left->parent = next;
	}
	rebalance(tree, from);
}

void sg_tree_len_changed(struct sg_node *node)
{
	for (; node; node = node->parent)
		refresh(node);
}

struct sg_node *sg_tree_find(const struct sg_tree *tree, u64 key)
{
	struct sg_node *n = tree->root;

	while (n && n->key != key)
		n = key < n->key ? n->left : n->right;
	return n;
}

struct sg_node *sg_tree_floor(const struct sg_tree *tree, u64 key)
{
	struct sg_node *n = tree->root, *best = NULL;

	while (n) {
		if (n->key <= key) {
			best = n;
			n = n->right;
		} else {
			n = n->left;
		}
	}
	return best;
}

struct sg_node *sg_tree_ceil(const struct sg_tree *tree, u64 key)
{
	struct sg_node *n = tree->root, *best = NULL;

	while (n) {
		if (n->key >= key) {
			best = n;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

struct sg_node *sg_tree_first(const struct sg_tree *tree)
{
	return sg_tree_ceil(tree, 0);
}

struct sg_node *sg_tree_next(const struct sg_node *node)
{
	if (node->right) {
		node = node->right;
		while (node->left)
			node = node->left;
		return (struct sg_node *)node;
	}
	while (node->parent && node->parent->right == node)
		node = node->parent;
	return node->parent;
}

/* Returns the node with the lowest key in a subtree that is long enough; there must be one. */
static struct sg_node *lowest_fit(struct sg_node *n, u64 len)
{
	for (;;) {
		if (longest(n->left) >= len)
			n = n->left;
		else if (n->len >= len)
			return n;
		else
			n = n->right;
	}
}

struct sg_node *sg_tree_fit(const struct sg_tree *tree, u64 from, u64 len)
{
	struct sg_node *n = sg_tree_ceil(tree, from);

	if (!len)
		return n;
	/* In order of keys: n, the right subtree of n, then the next ancestor. */
	while (n) {
		if (n->len >= len)
			return n;
		if (longest(n->right) >= len)
			return lowest_fit(n->right, len);
		while (n->parent && n->parent->right == n)
			n = n->parent;
		n = n->parent;
	}
	return NULL;
}
