// SPDX-License-Identifier: MIT
/*
 * ranges.c - see ranges.h.
 *
 * `reach` never decreases along the list. So a search by `reach` finds the first range that may
 * overlap, and the walk from there ends at the first range that begins after `last`. If the ranges
 * do not overlap each other, all ranges in between overlap the requested one.
 *
 * A writer makes a change by a sequence of stores, and the list is in order after each store. A
 * node is complete before it is linked, from the lowest level up. It is unlinked from the highest
 * level down. A removed node still points to later nodes. Only a removed node that is inserted
 * again could mislead a reader that is at this node. So a reader starts again if a node was
 * inserted meanwhile. During a change `reach` may be too high, which costs one more comparison. It
 * is never too low.
 */
#include "../base/order.h"
#include "ranges.h"

#ifndef RANGES_LOOKED
#define RANGES_LOOKED()	((void)0)	/* a test counts the visited nodes */
#endif

void ranges_init(struct ranges *r, void *memory, uint32_t count)
{
	*r = (struct ranges) { .nodes = memory, .head = count };
}

/* NULL at the end. */
static struct ranges_node *next_of(const struct ranges *r, const struct ranges_node *node,
				   unsigned int level)
{
	uint32_t n = ord_load_acquire(&node->next[level]);

	RANGES_LOOKED();
	return n ? &r->nodes[n - 1] : NULL;
}

static uint32_t number_of(const struct ranges *r, const struct ranges_node *node)
{
	return (uint32_t)(node - r->nodes);
}

/* Whether the node is at or before the place, in the list's order. */
static bool passed(const struct ranges *r, const struct ranges_node *node,
		   const struct ranges_place *place)
{
	uint64_t first = ord_load_acquire(&node->first);

	return first < place->first || (first == place->first && number_of(r, node) < place->after);
}

/* On each level, finds the last node that is passed, or that reaches no address from `first` on. */
static void seek(const struct ranges *r, uint64_t first, const struct ranges_place *place,
		 struct ranges_node *at[RANGES_LEVELS])
{
	struct ranges_node *node = &r->nodes[r->head], *next;

	for (unsigned int level = RANGES_LEVELS; level--; at[level] = node) {
		while ((next = next_of(r, node, level)) &&
		       (passed(r, next, place) || ord_load_acquire(&next->reach) < first))
			node = next;
	}
}

/*
 * One node in four is on the next level, too. Chosen by a hash of the number, which is independent
 * of the order of addresses.
 */
static uint32_t height_of(uint32_t number)
{
	uint32_t height = 1 + (uint32_t)__builtin_clz((number * 2654435769U) | 1) / 2;

	return height < RANGES_LEVELS ? height : RANGES_LEVELS;
}

/* Updates `reach` from `node` on, up to the first node where it does not change. */
static void reaches(const struct ranges *r, uint64_t reach, struct ranges_node *node)
{
	for (; node; node = next_of(r, node, 0)) {
		if (node->last > reach)
			reach = node->last;
		if (node->reach == reach)
			return;
		ord_store_release(&node->reach, reach);
	}
}

void ranges_insert(struct ranges *r, uint32_t number, uint64_t first, uint64_t last)
{
	struct ranges_place place = { first, number };
	struct ranges_node *node = &r->nodes[number], *at[RANGES_LEVELS];
	uint64_t before;

	seek(r, 0, &place, at);
	before = at[0] == &r->nodes[r->head] ? 0 : at[0]->reach;
	/* A reader that sees any store below also sees this one. */
	ord_store_release(&r->inserted, r->inserted + 1);
	ord_store_release(&node->first, first);
	ord_store_release(&node->last, last);
	ord_store_release(&node->reach, last > before ? last : before);
	ord_store_release(&node->height, height_of(number));
	for (unsigned int level = 0; level < node->height; level++)
		ord_store_release(&node->next[level], at[level]->next[level]);
	reaches(r, node->reach, next_of(r, node, 0));
	for (unsigned int level = 0; level < node->height; level++)
		ord_store_release(&at[level]->next[level], number + 1);
}

void ranges_remove(struct ranges *r, uint32_t number)
{
	struct ranges_node *node = &r->nodes[number], *at[RANGES_LEVELS];
	struct ranges_place place = { node->first, number };

	seek(r, 0, &place, at);
	for (unsigned int level = node->height; level--; )
		ord_store_release(&at[level]->next[level], node->next[level]);
	reaches(r, at[0] == &r->nodes[r->head] ? 0 : at[0]->reach, next_of(r, at[0], 0));
}

/* The result for a reader, valid if no node was inserted meanwhile. */
static struct ranges_node *look(const struct ranges *r, uint64_t first, uint64_t last,
				const struct ranges_place *place)
{
	struct ranges_node *at[RANGES_LEVELS], *node;

	seek(r, first, place, at);
	for (node = next_of(r, at[0], 0); node && ord_load_acquire(&node->first) <= last;
	     node = next_of(r, node, 0)) {
		if (ord_load_acquire(&node->last) >= first)
			return node;
	}
	return NULL;
}

uint32_t ranges_next(const struct ranges *r, uint64_t first, uint64_t last,
		     struct ranges_place *place)
{
	const struct ranges_node *node;
	struct ranges_place found;
	uint64_t inserted;

	if (!r->nodes)
		return RANGES_NONE;
	do {
		inserted = ord_load_acquire(&r->inserted);
		node = look(r, first, last, place);
		if (node)
			found = (struct ranges_place){ ord_load_acquire(&node->first),
						       number_of(r, node) + 1 };
	} while (ord_load_acquire(&r->inserted) != inserted);
	if (!node)
		return RANGES_NONE;
	*place = found;
	return found.after - 1;
}
