/* SPDX-License-Identifier: MIT */
/*
 * index.h - a sorted map from addresses to numbers. It finds the number of the greatest address at
 * or below a given one.
 *
 * A B+ tree. There is one writer at a time, under the caller's lock. Readers take no lock and check
 * nothing on the way. Nodes are not freed while the tree lives, so a reader that meets a writer
 * finds a wrong number or none, but causes no harm. So a reader without the lock must verify the
 * number that it found. If it found none, it must search again under the lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_NONE	UINT32_MAX
#define INDEX_FAN	24	/* a node has 320 bytes: five cache lines */

struct index_node {
	uint32_t height;		/* 0: a leaf */
	uint32_t count;
	/*
	 * In inner nodes the first key below child i, except 0 for i = 0. Unused keys, and always
	 * the last two, are UINT64_MAX.
	 */
	uint64_t key[INDEX_FAN + 2];
	/* in leaves: the numbers. The last one is unused, for a reader that meets a writer */
	uint32_t child[INDEX_FAN + 1];
} __attribute__((aligned(64)));

/*
 * The result of the last descent: a leaf, and the range of keys that belong to it while no node is
 * added, removed or gets another first key. A search for a key in this range needs no descent, for
 * example for a neighbour, or for the same key under the lock. All zeros: no place. A place belongs
 * to one thread, or is protected by the lock.
 */
struct index_place {
	uint64_t changes;		/* index->changes at the start of the descent */
	uint64_t from, to;
	uint32_t leaf, parent;		/* parent: INDEX_NONE above the root */
	/* position of the last search in the leaf; a guess, which is checked before use */
	uint32_t at;
	uint64_t key; /* the key found by index_floor() or index_gap(), if they found one */
};

struct index {
	/* Fields that readers use. */
	struct index_node *nodes;
	uint32_t *hints;		/* at the beginning of the memory */
	uint32_t capacity;		/* nodes for which there is memory: index_use() */
	uint32_t hints_mask, hints_shift;
	uint32_t root;
	uint64_t changes;		/* incremented after each change of the nodes */

	uint32_t used __attribute__((aligned(64)));
	uint32_t free, free_count;	/* a list linked through child[0] */
	uint32_t hints_most;		/* maximum of hints_mask */
	struct index_place cursor;	/* protected by the lock */
};

/* Size of the memory with which `keys` keys always fit. */
size_t index_size(uint32_t keys);
/* Size of the used part. Memory beyond it was never accessed. */
size_t index_used(const struct index *ix);
/*
 * index_needed(): how much of the memory for `most` keys is needed for `keys` keys. index_use():
 * from here on, that much memory is accessible.
 */
size_t index_needed(uint32_t most, uint32_t keys);
void index_use(struct index *ix, uint32_t keys);
/*
 * `memory`: index_size(keys) bytes of zeros, owned by the caller. Only the part that index_needed()
 * returns for the current number of keys (index_use()) must be accessible.
 */
void index_init(struct index *ix, void *memory, uint32_t keys);

/*
 * The number of the greatest key <= x, or INDEX_NONE. The only call that needs no lock. UINT64_MAX
 * is neither a valid key nor a valid x.
 */
uint32_t index_floor(const struct index *ix, struct index_place *place, uint64_t x);

/*
 * The same under the lock, where the result is always right. Moves ix->cursor to x, so that the
 * next search near x is fast.
 */
uint32_t index_seek(struct index *ix, uint64_t x);

/*
 * Whether no key is in (x, to). Then *before is the result of index_seek() for x. May return false
 * if the range is not within one leaf; then index_visit() has the answer.
 */
bool index_gap(const struct index *ix, struct index_place *place, uint64_t x, uint64_t to,
	       uint32_t *before);

/*
 * 0, -EEXIST or -ENOMEM. There is no -ENOMEM with the memory of index_size(). index_insert_at()
 * starts its search at `place`.
 */
int index_insert_at(struct index *ix, struct index_place *place, uint64_t key, uint32_t number);
int index_insert(struct index *ix, uint64_t key, uint32_t number);
/* 0 or -ENOENT. */
int index_remove(struct index *ix, uint64_t key);
/*
 * Calls fn for all keys in [from, to), in order, until fn returns false. fn must not change the
 * index.
 */
void index_visit(const struct index *ix, uint64_t from, uint64_t to,
		 bool (*fn)(void *arg, uint32_t number), void *arg);
