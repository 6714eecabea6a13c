/* SPDX-License-Identifier: MIT */
/* cache_subjects.h - the caches that are measured, in the same words. */
#ifndef CACHE_SUBJECTS_H
#define CACHE_SUBJECTS_H

#include <stddef.h>
#include <stdint.h>

#include "empty_cache.h"

#define SUBJECTS_MAX	2
#define BASE		((char *)EMPTY_BASE)
#define STRIDE		EMPTY_STRIDE
#define LENGTH		EMPTY_LENGTH
#define LINE		64UL

struct subject {
	const char *name;
	void *(*open)(size_t n);
	void (*close)(void *cache);
	void (*hit)(void *cache, const uint32_t *which, size_t n);	/* n gets and puts */
	void (*forget)(void *cache, size_t n);				/* all n regions, at once if it can */
	/* n regions, one by one; UCX's needs a get and a put for each. */
	void (*end_each)(void *cache, const uint32_t *which, size_t n);
	void (*touch)(void *cache, uint64_t addr, uint64_t length);	/* a get and a put */
	void (*hit_at)(void *cache, const uint32_t *which, size_t n);	/* n of them, of a line: the number which[i] from BASE on */
};

/* Ours first. */
extern const struct subject subjects[];
extern const int subjects_count;

/* Ours with a word to look at, as regions of pins have. */
void *our_open_words(size_t n);

void die(const char *what) __attribute__((noreturn));

#endif
