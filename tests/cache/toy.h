/* SPDX-License-Identifier: MIT */
/* toy.h - a cache of memory that is made up, for the tests of its calls: what registers it counts, and fails when it is told to. */
#pragma once


#include "../check.h"
#include "peerdma_cache.h"

#define PAGE	4096ULL
#define BASE	(1ULL << 40)
#define TOY_PAGES 1024
#define AT(n)	((void *)(BASE + (n) * PAGE))

struct toy {
	int adds, removes;
	int room;			/* registrations at a time; 0: any number */
	uint64_t widest;		/* longer ones are -EINVAL */
	int refuse;			/* add() is this, if not 0 */
	uint64_t bytes;			/* registered in all */
	uint16_t page_uses[TOY_PAGES];	/* registrations of each of the GPU's pages from BASE on */
	uint64_t last_addr, last_length;
	int valid;			/* check() */
	uint32_t aperture, kind;
	uint32_t access;		/* of the last add() */
	void *user;
	bool exact;			/* extent() is what was asked for */
	uint64_t allocation, allocation_length;	/* extent() */
	void (*in_add)(void), (*in_remove)(void);
	const uint32_t *word;
};

extern struct toy toy;
extern struct peerdma_cache *cache;

/*
 * fresh(), then changes to what the cache is made with, begin(), the test, finish().  The tests of a table begin after
 * a fresh(), and a finish() comes after each; one that closes the cache itself sets it to NULL.
 */
extern struct peerdma_cache_options options;
extern struct peerdma_cache_ops ops;
void fresh(void);
void begin(void);
void finish(void);

/* For ops; the others are there already. */
int toy_add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out);
int toy_check(void *arg, const struct peerdma_cached *region, uint64_t addr, uint64_t length);
int toy_extent(void *arg, uint64_t addr, uint64_t length, struct peerdma_extent *e);

struct peerdma_cached *get(const void *p, size_t length);
void touch(const void *p, size_t length);
/* And what it defers ends, too. */
int invalidate(const void *p, size_t length);
struct peerdma_cache_counters counters(void);

/* calls_get.c, calls_inside.c, calls_threads.c, calls_many.c */
void failed_gets(void);
void freed_while_merging(void);
void never_valid(void);
void adds_that_want_each_other(void);
void sliding_windows(void);
void aperture_pages(void);

/* calls_tables.c */
void each_option(void);
void each_errno(void);
void each_counter(void);

/* calls_with.c */
void access_bits(void);
void access_of_overlapping(void);
void requests(void);
void payloads(void);
void kinds(void);
void held_ends(void);
void nothing_kept(void);
void logged(void);

void from_inside(void);
void threads(void);
void many_holds(void);
void forks(void);
void many_caches(void);
void big(void);
void many_regions(void);
void no_growth(void);
void no_address_space(void);
