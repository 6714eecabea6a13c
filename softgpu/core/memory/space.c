// SPDX-License-Identifier: MIT
/* space.c - see space.h. */
#include "space.h"

static struct sg_extent *extent_of(struct sg_node *node)
{
	return node ? container_of(node, struct sg_extent, node) : NULL;
}

static struct sg_extent *new_extent(u64 start, u64 len)
{
	struct sg_extent *e = sg_zalloc(sizeof(*e));

	if (e) {
		e->node.key = start;
		e->node.len = len;
	}
	return e;
}

int sg_space_init(struct sg_space *space, u64 start, u64 len)
{
	struct sg_extent *e = new_extent(start, len);

	if (!e)
		return -ENOMEM;
	space->free.root = NULL;
	space->free_len = len;
	sg_tree_insert(&space->free, &e->node);
	return 0;
}

void sg_space_fini(struct sg_space *space)
{
	struct sg_node *n = space->free.root;

	if (!n)
		return;
	SG_WARN_ON(n->left || n->right || n->len != space->free_len);
	while (space->free.root) {
		n = space->free.root;
		sg_tree_erase(&space->free, n);
		sg_free(extent_of(n));
	}
	space->free_len = 0;
}

/* Takes [start, start + len) out of the free extent f that holds it. */
static int cut(struct sg_space *space, struct sg_extent *f, u64 start, u64 len,
	       struct sg_extent **out)
{
	u64 left = start - f->node.key;
	u64 right = f->node.key + f->node.len - (start + len);
	struct sg_extent *tail = NULL;

	if (!left && !right) {
		sg_tree_erase(&space->free, &f->node);
		*out = f;
		space->free_len -= len;
		return 0;
	}
	*out = new_extent(start, len);
	if (!*out)
		return -ENOMEM;
	if (left && right) {
		tail = new_extent(start + len, right);
		if (!tail) {
			sg_free(*out);
			return -ENOMEM;
		}
	}
	if (left) {
		f->node.len = left;
	} else {
		f->node.key = start + len;
		f->node.len = right;
	}
	sg_tree_len_changed(&f->node);
	if (tail)
		sg_tree_insert(&space->free, &tail->node);
	space->free_len -= len;
	return 0;
}

int sg_space_take(struct sg_space *space, u64 len, u64 align, struct sg_extent **out)
{
	struct sg_node *n;

	/* More than one pass is needed only if align is greater than the extents' own alignment. */
	for (n = sg_tree_fit(&space->free, 0, len); n;
	     n = sg_tree_fit(&space->free, n->key + 1, len)) {
		u64 start = (n->key + align - 1) & ~(align - 1);

		if (start >= n->key && start - n->key <= n->len - len)
			return cut(space, extent_of(n), start, len, out);
	}
	return -ENOSPC;
}

int sg_space_take_at(struct sg_space *space, u64 start, u64 len, struct sg_extent **out)
{
	struct sg_node *n = sg_tree_floor(&space->free, start);

	if (!n || start - n->key >= n->len || n->len - (start - n->key) < len)
		return -ENOSPC;
	return cut(space, extent_of(n), start, len, out);
}

int sg_space_take_longest(struct sg_space *space, u64 len, struct sg_extent **out)
{
	struct sg_node *root = space->free.root;

	if (!root)
		return -ENOSPC;
	if (len > root->max)
		len = root->max;
	return sg_space_take(space, len, 1, out);
}

void sg_space_give(struct sg_space *space, struct sg_extent *e)
{
	struct sg_node *before = sg_tree_floor(&space->free, e->node.key);
	struct sg_node *after = sg_tree_ceil(&space->free, e->node.key);

	SG_WARN_ON(before && before->key + before->len > e->node.key);
	SG_WARN_ON(after && e->node.key + e->node.len > after->key);
	space->free_len += e->node.len;
	if (before && before->key + before->len == e->node.key) {
		sg_tree_erase(&space->free, before);
		e->node.key = before->key;
		e->node.len += before->len;
		sg_free(extent_of(before));
	}
	if (after && e->node.key + e->node.len == after->key) {
		sg_tree_erase(&space->free, after);
		e->node.len += after->len;
		sg_free(extent_of(after));
	}
	sg_tree_insert(&space->free, &e->node);
}
