// SPDX-License-Identifier: MIT
/*
 * index.c - see index.h.
 *
 * Full nodes are split on the way down, so a split always finds room in the parent. Sparse nodes
 * join a neighbour on the way up. A separator always equals the first key below it. So the greatest
 * key <= x is always in the leaf to which x leads.
 */
#include <errno.h>
#include <stdbool.h>

#include "index.h"
#include "order.h"

#define MAX_HEIGHT	12
#define SPARSE		(INDEX_FAN / 4)
#define JOINED_MAX	(INDEX_FAN * 3 / 4)
#define NO_KEY		UINT64_MAX
#define HINTS_LEAST	1024U		/* one page of hints */
#define HINTS_MOST	65536U
#define HINTS_EACH	3		/* 2^3 hints for the address range of one node */

_Static_assert(INDEX_FAN == 24, "rank() looks at every fifth, and at four");
_Static_assert(sizeof(struct index_node) == 320, "five cache lines");

struct step {
	struct index_node *node;
	uint32_t pos;		/* index of the child on the path */
};

static struct index_node *node_at(const struct index *ix, uint32_t n)
{
	return &ix->nodes[n];
}

/*
 * Two neighbours that did not join have more than JOINED_MAX keys together, so a node has more than
 * a third of its keys on average.
 */
static uint32_t capacity_for(uint32_t keys)
{
	return keys / 2 + 64;
}

/* At most one hint for each node, in whole pages. */
static uint32_t hints_for(uint32_t keys)
{
	uint32_t hints = HINTS_LEAST;

	while (hints < HINTS_MOST && 2 * hints <= capacity_for(keys))
		hints *= 2;
	return hints;
}

static size_t hints_size(uint32_t keys)
{
	return hints_for(keys) * sizeof(uint32_t);
}

size_t index_size(uint32_t keys)
{
	return hints_size(keys) + capacity_for(keys) * sizeof(struct index_node);
}

size_t index_used(const struct index *ix)
{
	return (size_t)((char *)node_at(ix, ord_load(&ix->used)) - (char *)ix->hints);
}

size_t index_needed(uint32_t most, uint32_t keys)
{
	return hints_size(most) + capacity_for(keys) * sizeof(struct index_node);
}

void index_use(struct index *ix, uint32_t keys)
{
	ord_store(&ix->capacity, capacity_for(keys));
}

/*
 * The number of the 24 keys that are <= x. Compares every fifth key, then the four keys after the
 * last of those that is <= x. No branch depends on a key, at most two loads depend on each other,
 * and there are few additions: these dominate the time of a descent.
 */
static inline uint32_t rank(const uint64_t *key, uint64_t x)
{
	uint32_t a = (ord_load(&key[4]) <= x), b = (ord_load(&key[9]) <= x);
	uint32_t c = (ord_load(&key[14]) <= x), d = (ord_load(&key[19]) <= x);
	uint32_t fives = (a + b) + (c + d);

	key += 5 * fives;
	a = (ord_load(&key[0]) <= x);
	b = (ord_load(&key[1]) <= x);
	c = (ord_load(&key[2]) <= x);
	d = (ord_load(&key[3]) <= x);
	return 5 * fives + ((a + b) + (c + d));
}

/*
 * The child of an inner node for x. The first key is not compared, because it is a lower bound of
 * all keys.
 */
static inline uint32_t child_of(const struct index_node *node, uint64_t x)
{
	return rank(&node->key[1], x);
}

static inline uint64_t key_at(const struct index_node *node, uint32_t i)
{
	return ord_load(&node->key[i]);
}

/*
 * Prefetches the cache lines that rank() does not read, so that all lines of a node are loaded in
 * parallel.
 */
static inline void fetch(const struct index_node *node)
{
	__builtin_prefetch((const char *)node + 192);
	__builtin_prefetch((const char *)node + 256);
}

/* ---- hints ---- */

/*
 * For random keys, a descent from the root mostly waits for one node after the other, and many
 * neighbouring keys share all but the last two nodes. So a table, indexed by some bits of the
 * address, contains the number of the last node above the leaves that a descent for such an address
 * passed. The node itself confirms the guess: while it is in the tree, keys between its second and
 * its last key belong below it; a node outside the tree has no keys. A writer may mislead a reader
 * without the lock. Then the count of changes differs, as after a full descent.
 */
static inline uint32_t *hint_of(const struct index *ix, uint64_t x)
{
	return &ix->hints[x >> ord_load(&ix->hints_shift) & ord_load(&ix->hints_mask)];
}

/* The node at which a descent to x begins. Small trees have no hints. */
static inline uint32_t start(const struct index *ix, uint64_t x)
{
	const struct index_node *node;
	uint32_t n, count;

	if (!ord_load(&ix->hints_mask))
		return ord_load(&ix->root);
	n = ord_load(hint_of(ix, x));
	node = node_at(ix, n);
	count = ord_load(&node->count);
	if (ord_load(&node->height) == 1 && count > 2 &&
	    x - key_at(node, 1) < key_at(node, count - 1) - key_at(node, 1))
		return n;
	return ord_load(&ix->root);
}

/*
 * Called when a node above the leaves is full. Sets the shift by the address range of this node,
 * because the others are similar, and doubles the table if it is smaller than the tree.
 */
static void hints_tune(struct index *ix, const struct index_node *node)
{
	uint32_t bits = 63 - (uint32_t)__builtin_clzll(node->key[INDEX_FAN - 1] - node->key[1]);
	uint32_t shift = bits > HINTS_EACH ? bits - HINTS_EACH : 0;

	/* Ignores a difference of 1, because each change of the shift moves all hints. */
	if (shift + 1 < ix->hints_shift || shift > ix->hints_shift + 1)
		ord_store(&ix->hints_shift, shift);
	if (ix->hints_mask < ix->used && ix->hints_mask < ix->hints_most) {
		uint32_t mask = 2 * ix->hints_mask + 1;

		/*
		 * Write each new page before it is read. A read would first map the zero page, and
		 * the write would fault again.
		 */
		for (uint32_t i = ix->hints_mask + 1; i <= mask; i += HINTS_LEAST)
			ord_store(&ix->hints[i], 0);
		ord_store(&ix->hints_mask, mask);
	}
}

/* ---- descent ---- */

/*
 * Descends to the leaf for x and stores it in *place. NULL: a concurrent writer interfered.
 *
 * A writer increments `changes` after all its stores (release), and a descent reads it first
 * (acquire). If it is still the same under the lock, no writer has changed what the descent read,
 * so the place is right. Without the lock, the result is a guess.
 */
static struct index_node *__attribute__((noinline))
descend(const struct index *ix, struct index_place *place, uint64_t x, uint64_t changes)
{
	uint64_t from = 0, to = NO_KEY, key;
	uint32_t n, parent = INDEX_NONE, above = MAX_HEIGHT + 1, steps = 0;

	/*
	 * A concurrent writer may leave any value in a child. The checks keep n inside the array,
	 * and the height falls with each step.
	 */
	for (n = start(ix, x); n < ord_load(&ix->capacity);) {
		struct index_node *node = node_at(ix, n);
		uint32_t height = ord_load(&node->height), at;

		fetch(node);
		at = child_of(node, x);
		if (height >= above)
			break;
		above = height;
		if (!height) {
			at += key_at(node, 0) <= x;
			if (steps > 1 && ord_load(&ix->hints_mask))
				ord_store(hint_of(ix, x), parent);
			*place = (struct index_place){ changes, from, to, n, parent, at, 0 };
			return node;
		}
		steps++;
		parent = n;
		n = ord_load(&node->child[at]);
		key = key_at(node, at);
		from = key > from ? key : from;
		key = key_at(node, at + 1);
		to = key < to ? key : to;
	}
	place->changes = 0;
	return NULL;
}

static inline struct index_node *seek_leaf(const struct index *ix, struct index_place *place,
					   uint64_t x)
{
	uint64_t changes = ord_load_acquire(&ix->changes);

	/*
	 * One comparison for both bounds. With random keys, a processor could not predict two
	 * branches.
	 */
	if (place->changes == changes && x - place->from < place->to - place->from)
		return node_at(ix, place->leaf);
	return descend(ix, place, x, changes);
}

/* Like rank(), but first checks the position of the last search. */
static inline uint32_t rank_in(const struct index_node *leaf, struct index_place *place, uint64_t x)
{
	uint32_t at = place->at;

	if ((at && key_at(leaf, at - 1) > x) || key_at(leaf, at) <= x)
		place->at = at = rank(leaf->key, x);
	return at;
}

static inline uint32_t number_in(const struct index_node *leaf, struct index_place *place,
				 uint32_t at)
{
	if (!at)
		return INDEX_NONE;
	place->key = key_at(leaf, at - 1);
	return ord_load(&leaf->child[at - 1]);
}

uint32_t index_floor(const struct index *ix, struct index_place *place, uint64_t x)
{
	const struct index_node *leaf = seek_leaf(ix, place, x);

	return leaf ? number_in(leaf, place, rank_in(leaf, place, x)) : INDEX_NONE;
}

/*
 * Call after a node was added or removed, or got another first key, and after all stores. Existing
 * places become invalid.
 */
static void count_change(struct index *ix)
{
	ord_store_release(&ix->changes, ix->changes + 1);
}

/* ---- nodes ---- */

static void set_entry(struct index_node *node, uint32_t at, uint64_t key, uint32_t child)
{
	ord_store(&node->key[at], key);
	ord_store(&node->child[at], child);
}

static inline void insert_at(struct index_node *node, uint32_t at, uint64_t key, uint32_t child)
{
	uint32_t count = node->count;
	uint64_t *k = &node->key[count], *stop = &node->key[at];
	uint32_t *c = &node->child[count];

	for (; k != stop; k--, c--) {
		ord_store(k, k[-1]);
		ord_store(c, c[-1]);
	}
	ord_store(k, key);
	ord_store(c, child);
	ord_store(&node->count, count + 1);
}

static void remove_at(struct index_node *node, uint32_t at)
{
	for (uint32_t i = at; i + 1 < node->count; i++)
		set_entry(node, i, node->key[i + 1], node->child[i + 1]);
	ord_store(&node->key[node->count - 1], NO_KEY);
	ord_store(&node->count, node->count - 1);
}

static uint32_t node_get(struct index *ix, uint32_t height)
{
	uint32_t n = ix->free;

	if (n != INDEX_NONE) {
		ix->free = node_at(ix, n)->child[0];
		ix->free_count--;
	} else {
		n = ix->used;
		ord_store(&ix->used, n + 1);	/* index_used() reads it without the lock */
	}
	for (uint32_t i = 0; i < INDEX_FAN + 2; i++)
		ord_store(&node_at(ix, n)->key[i], NO_KEY);
	ord_store(&node_at(ix, n)->count, 0);
	ord_store(&node_at(ix, n)->height, height);
	return n;
}

static void node_put(struct index *ix, struct index_node *node)
{
	ord_store(&node->count, 0);
	ord_store(&node->child[0], ix->free);
	ix->free = (uint32_t)(node - ix->nodes);
	ix->free_count++;
}

void index_init(struct index *ix, void *memory, uint32_t keys)
{
	ix->hints = memory;
	ix->hints_most = hints_for(keys) - 1;
	ix->hints_mask = 0;
	ix->hints_shift = 0;
	ix->nodes = (struct index_node *)((char *)memory + hints_size(keys));
	ix->capacity = capacity_for(keys);
	ix->used = 0;
	ix->free = INDEX_NONE;
	ix->free_count = 0;
	ix->cursor = (struct index_place){ .changes = 0 };
	ix->changes = 1;
	ix->root = node_get(ix, 0);
}

/* ---- insertion ---- */

/*
 * Splits child `at` of parent. If the key is beyond the child's last key, as with ascending
 * addresses, the left node stays full instead of half full.
 */
static void split(struct index *ix, struct index_node *parent, uint32_t at, uint64_t key)
{
	struct index_node *left = node_at(ix, parent->child[at]);
	uint32_t n = node_get(ix, left->height);
	struct index_node *right = node_at(ix, n);
	uint32_t keep = key > left->key[INDEX_FAN - 1] ? INDEX_FAN - 1 : INDEX_FAN / 2;

	if (left->height == 1)
		hints_tune(ix, left);
	for (uint32_t i = keep; i < INDEX_FAN; i++) {
		set_entry(right, i - keep, left->key[i], left->child[i]);
		ord_store(&left->key[i], NO_KEY);
	}
	ord_store(&right->count, INDEX_FAN - keep);
	insert_at(parent, at + 1, right->key[0], n);
	if (right->height)
		ord_store(&right->key[0], 0);
	ord_store(&left->count, keep);
	count_change(ix);
}

static void grow_root(struct index *ix)
{
	uint32_t n = node_get(ix, node_at(ix, ix->root)->height + 1);
	struct index_node *node = node_at(ix, n);

	set_entry(node, 0, 0, ix->root);
	ord_store(&node->count, 1);
	ord_store(&ix->root, n);
	count_change(ix);
}

uint32_t index_seek(struct index *ix, uint64_t x)
{
	return index_floor(ix, &ix->cursor, x);
}

bool index_gap(const struct index *ix, struct index_place *place, uint64_t x, uint64_t to,
	       uint32_t *before)
{
	const struct index_node *leaf = seek_leaf(ix, place, x);
	uint32_t at = rank_in(leaf, place, x);

	*before = number_in(leaf, place, at);
	/*
	 * Beyond the leaf's last key, key_at() is NO_KEY; place->to is then the first key of the
	 * next leaf.
	 */
	return to <= key_at(leaf, at) && to <= place->to;
}

/* Splits all full nodes on the path to the key, so that an insertion finds room in each. */
static int split_full_nodes(struct index *ix, uint64_t key)
{
	struct index_node *node = node_at(ix, ix->root);

	if (ix->free_count + (ix->capacity - ix->used) < node->height + 2)
		return -ENOMEM;
	if (node->count == INDEX_FAN) {
		grow_root(ix);
		node = node_at(ix, ix->root);
	}
	while (node->height) {
		uint32_t at = child_of(node, key);

		if (node_at(ix, node->child[at])->count == INDEX_FAN) {
			split(ix, node, at, key);
			at += node->key[at + 1] <= key;
		}
		node = node_at(ix, node->child[at]);
	}
	return 0;
}

/*
 * Splits the full leaf of `place` without a descent, if its parent has room, which is the usual
 * case. Then `place` is the half to which the key belongs.
 */
static bool split_here(struct index *ix, struct index_place *place, uint64_t key)
{
	struct index_node *parent;
	uint32_t at;

	if (place->parent == INDEX_NONE || node_at(ix, place->parent)->count == INDEX_FAN ||
	    !(ix->free_count + (ix->capacity - ix->used)))
		return false;
	parent = node_at(ix, place->parent);
	at = child_of(parent, key);
	split(ix, parent, at, key);
	if (key < parent->key[at + 1]) {
		place->to = parent->key[at + 1];
	} else {
		place->from = parent->key[at + 1];
		place->leaf = parent->child[at + 1];
	}
	place->changes = ix->changes;
	return true;
}

int index_insert_at(struct index *ix, struct index_place *place, uint64_t key, uint32_t number)
{
	struct index_node *leaf = seek_leaf(ix, place, key);
	uint32_t at;
	int ret;

	if (leaf->count == INDEX_FAN) {
		ret = split_here(ix, place, key) ? 0 : split_full_nodes(ix, key);
		if (ret)
			return ret;
		leaf = seek_leaf(ix, place, key);
	}
	at = rank_in(leaf, place, key);
	if (at && leaf->key[at - 1] == key)
		return -EEXIST;
	insert_at(leaf, at, key, number);
	place->at = at + 1;		/* the next search is mostly for a higher key */
	return 0;
}

int index_insert(struct index *ix, uint64_t key, uint32_t number)
{
	return index_insert_at(ix, &ix->cursor, key, number);
}

/* ---- removal ---- */

static bool at_cursor(const struct index *ix, uint64_t key)
{
	return ix->cursor.changes == ix->changes &&
	       key - ix->cursor.from < ix->cursor.to - ix->cursor.from;
}

/* The first key below path[level] has changed. Updates the one separator that equals it. */
static void first_key_changed(struct step *path, uint32_t level, uint64_t key)
{
	while (level--) {
		if (path[level].pos) {
			ord_store(&path[level].node->key[path[level].pos], key);
			return;
		}
	}
}

/* Appends the entries of parent's child at + 1 to child `at`. */
static void join(struct index *ix, struct index_node *parent, uint32_t at)
{
	struct index_node *left = node_at(ix, parent->child[at]),
			  *right = node_at(ix, parent->child[at + 1]);

	for (uint32_t i = 0; i < right->count; i++)
		set_entry(left, left->count + i, i ? right->key[i] : parent->key[at + 1],
			  right->child[i]);
	ord_store(&left->count, left->count + right->count);
	remove_at(parent, at + 1);
	node_put(ix, right);
}

static bool can_join(const struct index *ix, const struct index_node *parent, uint32_t at)
{
	return at + 1 < parent->count &&
	       node_at(ix, parent->child[at])->count + node_at(ix, parent->child[at + 1])->count <=
		       JOINED_MAX;
}

/* Joins or removes sparse nodes after path[level] lost an entry. */
static void shrink(struct index *ix, struct step *path, uint32_t level)
{
	for (; level; level--) {
		struct index_node *node = path[level].node, *parent = path[level - 1].node;
		uint32_t at = path[level - 1].pos;

		if (node->count > SPARSE)
			return;
		if (!node->count) {
			remove_at(parent, at);
			node_put(ix, node);
			if (!at && parent->count) {
				first_key_changed(path, level - 1, parent->key[0]);
				ord_store(&parent->key[0], 0);
			}
		} else if (can_join(ix, parent, at)) {
			join(ix, parent, at);
		} else if (at && can_join(ix, parent, at - 1)) {
			join(ix, parent, at - 1);
		} else {
			return;
		}
		count_change(ix);
	}
	/* Remove an inner root with one child. Without children, the tree is empty. */
	while (path[0].node->height && path[0].node->count <= 1) {
		struct index_node *root = path[0].node;

		if (!root->count) {
			ord_store(&root->height, 0);
			count_change(ix);
			return;
		}
		ord_store(&ix->root, root->child[0]);
		node_put(ix, root);
		count_change(ix);
		path[0].node = node_at(ix, ix->root);
	}
}

int index_remove(struct index *ix, uint64_t key)
{
	struct step path[MAX_HEIGHT + 1];
	struct index_node *node;
	uint32_t level = 0, at;

	if (at_cursor(ix, key)) {
		node = node_at(ix, ix->cursor.leaf);
		at = rank_in(node, &ix->cursor, key);
		if (!at || node->key[at - 1] != key)
			return -ENOENT;
		/*
		 * Fast path. The leaf's first key would need an update of a separator, and a sparse
		 * leaf must be joined.
		 */
		if (at > 1 && node->count > SPARSE + 1) {
			remove_at(node, at - 1);
			return 0;
		}
	}
	node = node_at(ix, ix->root);
	for (; node->height; level++) {
		path[level] = (struct step){ node, child_of(node, key) };
		node = node_at(ix, node->child[path[level].pos]);
	}
	path[level].node = node;
	at = rank(node->key, key);
	if (!at || node->key[at - 1] != key)
		return -ENOENT;
	remove_at(node, at - 1);
	if (at == 1 && node->count) {
		first_key_changed(path, level, node->key[0]);
		count_change(ix);
	}
	shrink(ix, path, level);
	return 0;
}

/* ---- ranges ---- */

static bool visit(const struct index *ix, const struct index_node *node, uint64_t from, uint64_t to,
		  bool (*fn)(void *arg, uint32_t number), void *arg)
{
	for (uint32_t at = child_of(node, from); at < node->count; at++) {
		if (node->height) {
			if (at && node->key[at] >= to)
				return false;
			if (!visit(ix, node_at(ix, node->child[at]), from, to, fn, arg))
				return false;
		} else if (node->key[at] >= to) {
			return false;
		} else if (node->key[at] >= from && !fn(arg, node->child[at])) {
			return false;
		}
	}
	return true;
}

void index_visit(const struct index *ix, uint64_t from, uint64_t to,
		 bool (*fn)(void *arg, uint32_t number), void *arg)
{
	/* Often the whole range is in the leaf of the last search. */
	if (at_cursor(ix, from) && to <= ix->cursor.to)
		visit(ix, node_at(ix, ix->cursor.leaf), from, to, fn, arg);
	else
		visit(ix, node_at(ix, ix->root), from, to, fn, arg);
}
