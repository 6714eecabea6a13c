/* SPDX-License-Identifier: MIT */
/*
 * index.h - addresses in order: finds the number of the greatest address at or below
 * a given one.
 *
 * A B+ tree.  One writer at a time (the caller's lock).  Readers take no lock and check
 * nothing on the way: nodes are not freed while the tree lives, so a reader that meets
 * a writer finds a wrong number or none, and does no harm.  A reader without the lock
 * must therefore verify the number that it found, and if it found none ask again under
 * the lock.
 */
#ifndef CACHE_INDEX_H
#define CACHE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_NONE	UINT32_MAX
#define INDEX_FAN	24	/* 320 bytes a node: five cache lines */

struct index_node {
	uint32_t height;		/* 0: a leaf */
	uint32_t count;
	/* Of an inner node: the first key below child i, but 0 for i = 0.  Past the last UINT64_MAX, and two always. */
	uint64_t key[INDEX_FAN + 2];
	uint32_t child[INDEX_FAN + 1];	/* of a leaf: the numbers; one more than is used, for a reader that meets a writer */
} __attribute__((aligned(64)));

/*
 * Where the last descent ended: a leaf, and the keys that belong there for as long as
 * no node is added, removed or gets another first key.  A search that begins there needs
 * no descent: for a neighbour, or for the same key again under the lock.  All zeros:
 * no place.  A place belongs to one thread, or to the lock.
 */
struct index_place {
	uint64_t changes;		/* what index->changes was when the way down began */
	uint64_t from, to;
	uint32_t leaf, parent;		/* the second: INDEX_NONE above the root */
	uint32_t at;			/* how many of the leaf's keys were <= x: a guess, looked at before it is used */
	uint64_t key;			/* index_floor()'s and index_gap()'s answer's, if there was one */
};

struct index {
	/* What readers need. */
	struct index_node *nodes;
	uint32_t *hints;		/* the memory begins with them */
	uint32_t capacity;		/* nodes for which there is memory: index_use() */
	uint32_t hints_mask, hints_shift;
	uint32_t root;
	uint64_t changes;		/* counted when each is done */

	uint32_t used __attribute__((aligned(64)));
	uint32_t free, free_count;	/* a list through child[0] */
	uint32_t hints_most;		/* that hints_mask may be */
	struct index_place cursor;	/* the lock's */
};

/* Room for so many nodes that `keys` keys always fit. */
size_t index_size(uint32_t keys);
/* What there is of it beyond here was never touched. */
size_t index_used(const struct index *ix);
/* How much of the memory for `most` keys is needed for `keys`; and that so much is there from here on. */
size_t index_needed(uint32_t most, uint32_t keys);
void index_use(struct index *ix, uint32_t keys);
/* `memory`: index_size(keys) bytes of zeros, of which index_needed() must be there as index_use() says, and which the caller keeps and gives back. */
void index_init(struct index *ix, void *memory, uint32_t keys);

/* The number of the greatest key <= x, or INDEX_NONE.  The one call that needs no lock.  UINT64_MAX is no key, nor an x. */
uint32_t index_floor(const struct index *ix, struct index_place *place, uint64_t x);

/* The same under the lock, where it never errs; and what is next to x is near at hand then. */
uint32_t index_seek(struct index *ix, uint64_t x);

/*
 * Whether no key is in (x, to): then *before is index_seek()'s answer for x.  May say
 * no where the answer is not in one leaf: index_visit() knows.
 */
bool index_gap(const struct index *ix, struct index_place *place, uint64_t x, uint64_t to, uint32_t *before);

/* 0; -EEXIST; -ENOMEM: not with index_size()'s memory.  index_insert_at() begins at `place`. */
int index_insert_at(struct index *ix, struct index_place *place, uint64_t key, uint32_t number);
int index_insert(struct index *ix, uint64_t key, uint32_t number);
/* 0 or -ENOENT. */
int index_remove(struct index *ix, uint64_t key);
/* All numbers whose keys are in [from, to), in order, until fn says false.  fn must not change the index. */
void index_visit(const struct index *ix, uint64_t from, uint64_t to, bool (*fn)(void *arg, uint32_t number), void *arg);

#endif
