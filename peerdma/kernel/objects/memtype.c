// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * memtype.c - counted reservations of write-combined memory.
 *
 * The kernel keeps all reservations in one tree, and those that overlap make each other
 * slow: with a reservation for each pin, a user who pins one page thousands of times would
 * slow down every mapping of every user.  Here a range is divided into blocks of 2^n pages,
 * aligned to their size and as large as fit.  A block is reserved once, however many ranges
 * contain it.  So a page has at most one reservation for each size.
 */
#include <linux/io.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>

#include "core/charge.h"
#include "memtype.h"

struct peerdma_block {
	union {
		struct rb_node node;		/* in the tree */
		struct hlist_node spare;	/* in a list of spares */
	};
	/*
	 * Twice the number of the first page, plus the number of pages: the middle, counted in
	 * half pages.  No two aligned blocks have the same.
	 */
	u64 middle;
	u32 users;
};

static struct rb_root blocks = RB_ROOT;
static DEFINE_MUTEX(blocks_lock);

static int compare(const void *key, const struct rb_node *node)
{
	u64 middle = *(const u64 *)key, other = rb_entry(node, struct peerdma_block, node)->middle;

	return middle < other ? -1 : middle > other;
}

static int compare_nodes(struct rb_node *node, const struct rb_node *other)
{
	return compare(&rb_entry(node, struct peerdma_block, node)->middle, other);
}

static struct peerdma_block *find(u64 middle)
{
	struct rb_node *node = rb_find(&middle, &blocks, compare);

	return node ? rb_entry(node, struct peerdma_block, node) : NULL;
}

/* The number of pages of the largest block that begins at this page and ends by `end'. */
static u64 pages_at(u64 pfn, u64 end)
{
	u64 fit = rounddown_pow_of_two(end - pfn);

	return pfn ? min(fit, pfn & -pfn) : fit;
}

/* ---- spares ---- */

static struct peerdma_block *take(struct peerdma_spare_blocks *spares)
{
	struct peerdma_block *block = hlist_entry(spares->list.first, struct peerdma_block, spare);

	hlist_del(&block->spare);
	spares->count--;
	return block;
}

static void give(struct peerdma_spare_blocks *spares, struct peerdma_block *block)
{
	hlist_add_head(&block->spare, &spares->list);
	spares->count++;
}

u32 peerdma_memtype_blocks(phys_addr_t phys, u64 length)
{
	u64 pfn = phys >> PAGE_SHIFT, end = (phys + length) >> PAGE_SHIFT;
	u32 n;

	for (n = 0; pfn < end; n++)
		pfn += pages_at(pfn, end);
	return n;
}

int peerdma_memtype_fill(struct peerdma_spare_blocks *spares, u32 count)
{
	struct peerdma_block *block;

	while (spares->count < count) {
		block = peerdma_zalloc(sizeof(*block));
		if (!block)
			return -ENOMEM;
		give(spares, block);
		cond_resched();
	}
	return 0;
}

void peerdma_memtype_drop(struct peerdma_spare_blocks *spares)
{
	while (!hlist_empty(&spares->list))
		kfree(take(spares));
}

/* ---- reservations ---- */

static int get(u64 pfn, u64 pages, struct peerdma_spare_blocks *spares)
{
	struct peerdma_block *block;
	int err;

	lockdep_assert_held(&blocks_lock);
	block = find(2 * pfn + pages);
	if (block) {
		block->users++;
		return 0;
	}
	if (WARN_ON_ONCE(hlist_empty(&spares->list)))
		return -ENOMEM;
	block = take(spares);
	err = arch_io_reserve_memtype_wc(pfn << PAGE_SHIFT, pages << PAGE_SHIFT);
	if (err) {
		give(spares, block);
		return err;
	}
	block->middle = 2 * pfn + pages;
	block->users = 1;
	rb_find_add(&block->node, &blocks, compare_nodes);
	return 0;
}

static void put(u64 pfn, u64 pages)
{
	struct peerdma_block *block;

	lockdep_assert_held(&blocks_lock);
	block = find(2 * pfn + pages);
	if (WARN_ON_ONCE(!block) || --block->users)
		return;
	arch_io_free_memtype_wc(pfn << PAGE_SHIFT, pages << PAGE_SHIFT);
	rb_erase(&block->node, &blocks);
	kfree(block);
}

int peerdma_memtype_reserve(phys_addr_t phys, u64 length, struct peerdma_spare_blocks *spares)
{
	u64 pfn = phys >> PAGE_SHIFT, end = (phys + length) >> PAGE_SHIFT, pages;
	int err = 0;

	for (; pfn < end; pfn += pages) {
		pages = pages_at(pfn, end);
		/* Not for the whole range: other users wait. */
		mutex_lock(&blocks_lock);
		err = get(pfn, pages, spares);
		mutex_unlock(&blocks_lock);
		if (err)
			break;
	}
	/* What was reserved divides into the same blocks as it did in the whole range. */
	if (err)
		peerdma_memtype_free(phys, (pfn << PAGE_SHIFT) - phys);
	return err;
}

void peerdma_memtype_free(phys_addr_t phys, u64 length)
{
	u64 pfn = phys >> PAGE_SHIFT, end = (phys + length) >> PAGE_SHIFT, pages;

	for (; pfn < end; pfn += pages) {
		pages = pages_at(pfn, end);
		mutex_lock(&blocks_lock);
		put(pfn, pages);
		mutex_unlock(&blocks_lock);
	}
}

void peerdma_memtype_init(void)
{
	PEERDMA_CHARGE_BEFORE(&blocks_lock, 0);
}
