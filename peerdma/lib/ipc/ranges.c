// SPDX-License-Identifier: MIT
/*
 * ranges.c - see ranges.h.
 *
 * `reach` never falls along the list. So the first range that may overlap is found by it as by a key, and the walk from there
 * ends at the first range that begins too late. Where ranges do not overlap each other, all in between overlap what is asked.
 *
 * A writer makes a change by stores after each of which the list is in order: a node is complete before it is linked, from
 * the lowest level up, and is unlinked from the highest level down. A node that was removed still leads on to later ones.
 * Only a node that is used again could mislead a reader that stands on it: so a reader begins anew if any was inserted
 * meanwhile. While a change is under way `reach` may be too great, which costs a look, and is never too small.
 */
#include "../base/order.h"
#include "ranges.h"

#ifndef RANGES_LOOKED
#define RANGES_LOOKED()	((void)0)	/* a test counts */
#endif

void ranges_init(struct ranges *r, void *memory, uint32_t count)
{
	*r = (struct ranges) { .nodes = memory, .head = count };
}

/* NULL at the end. */
static struct ranges_node *next_of(const struct ranges *r, const struct ranges_node *node, unsigned int level)
{
	uint32_t n = ord_load_acquire(&node->next[level]);

	RANGES_LOOKED();
	return n ? &r->nodes[n - 1] : NULL;
}

static uint32_t number_of(const struct ranges *r, const struct ranges_node *node)
{
	return (uint32_t)(node - r->nodes);
}

/* Whether it is in the order before that place, or there. */
static bool passed(const struct ranges *r, const struct ranges_node *node, const struct ranges_place *place)
{
	uint64_t first = ord_load_acquire(&node->first);

	return first < place->first || (first == place->first && number_of(r, node) < place->after);
}

/* The last node on each level that is passed, or that reaches no address from `first` on. */
static void seek(const struct ranges *r, uint64_t first, const struct ranges_place *place, struct ranges_node *at[RANGES_LEVELS])
{
	struct ranges_node *node = &r->nodes[r->head], *next;

	for (unsigned int level = RANGES_LEVELS; level--; at[level] = node) {
		while ((next = next_of(r, node, level)) && (passed(r, next, place) || ord_load_acquire(&next->reach) < first))
			node = next;
	}
}

/* Every fourth node has a level more than the others. By the number, which has nothing to do with the order of addresses. */
static uint32_t height_of(uint32_t number)
{
	uint32_t height = 1 + (uint32_t)__builtin_clz((number * 2654435769U) | 1) / 2;

	return height < RANGES_LEVELS ? height : RANGES_LEVELS;
}

/* Sets `reach` of the nodes behind that place, as far as it changes. */
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
	/* A reader that sees any store from here on sees this one. */
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

/* What a reader finds, if no node was inserted meanwhile. */
static struct ranges_node *look(const struct ranges *r, uint64_t first, uint64_t last, const struct ranges_place *place)
{
	struct ranges_node *at[RANGES_LEVELS], *node;

	seek(r, first, place, at);
	for (node = next_of(r, at[0], 0); node && ord_load_acquire(&node->first) <= last; node = next_of(r, node, 0)) {
		if (ord_load_acquire(&node->last) >= first)
			return node;
	}
	return NULL;
}

uint32_t ranges_next(const struct ranges *r, uint64_t first, uint64_t last, struct ranges_place *place)
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
			found = (struct ranges_place) { ord_load_acquire(&node->first), number_of(r, node) + 1 };
	} while (ord_load_acquire(&r->inserted) != inserted);
	if (!node)
		return RANGES_NONE;
	*place = found;
	return found.after - 1;
}
