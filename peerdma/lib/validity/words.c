// SPDX-License-Identifier: MIT
/*
 * words.c - whether a region of several pins of the kernel's is valid: each pin has a word,
 * which the kernel changes before anything else when it revokes the pin.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Words of the kernel's that lie side by side, as those of pins that were made in a row mostly do. */
struct run {
	const uint32_t *words;
	uint32_t *expected;
	size_t count;
};

#define LONG_RUN 8

struct words {
	size_t runs;
	struct run run[];
};

/*
 * The kernel may write a word meanwhile: it goes away from what is expected once and for
 * all, so that it does not matter when which is read, or how often.
 */
static inline bool run_holds(const struct run *run)
{
	uint32_t differ = 0;

#ifndef __SANITIZE_THREAD__	/* which sees a test's stand-in write what the kernel writes */
	if (run->count >= LONG_RUN)
		return !memcmp(run->words, run->expected, run->count * sizeof(uint32_t));
#endif
	for (size_t i = 0; i < run->count; i++)
		differ |= __atomic_load_n(&run->words[i], __ATOMIC_RELAXED) ^ run->expected[i];
	return !differ;
}

/* As an acquiring load of each, for what is read after it; and what was read before was. */
static inline void reads_in_order(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb ishld" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

bool segments_valid(const struct peerdma_region *region)
{
	const struct words *words = region->words;
	bool holds = true;

	reads_in_order();
	for (size_t i = 0; holds && i < words->runs; i++)
		holds = run_holds(&words->run[i]);
	reads_in_order();
	return holds;
}

EXPORT int peerdma_segments_valid(const struct peerdma_region *region)
{
	return region && segments_valid(region);
}

static int by_slot(const void *a, const void *b)
{
	const uint32_t *x = ((const struct peerdma_validity *)a)->slot, *y = ((const struct peerdma_validity *)b)->slot;

	return (x > y) - (x < y);
}

/* In the order of their words, which is not always that of the pins. */
static void words_fill(struct words *words, const struct peerdma_validity *sorted, size_t n)
{
	uint32_t *expected = (uint32_t *)&words->run[n];
	struct run *last = NULL;

	for (size_t i = 0; i < n; i++) {
		expected[i] = sorted[i].generation;
		if (last && sorted[i].slot == last->words + last->count) {
			last->count++;
		} else {
			last = &words->run[words->runs++];
			*last = (struct run){ sorted[i].slot, &expected[i], 1 };
		}
	}
}

bool words_make(struct peerdma_region *region)
{
	size_t n = region->segment_count;
	struct words *words = malloc(sizeof(*words) + n * (sizeof(words->run[0]) + sizeof(uint32_t)));
	struct peerdma_validity *sorted = calloc(n, sizeof(*sorted));

	if (words && sorted) {
		for (size_t i = 0; i < n; i++)
			sorted[i] = region->segments[i]->validity;
		qsort(sorted, n, sizeof(*sorted), by_slot);
		words->runs = 0;
		words_fill(words, sorted, n);
		region->words = words;
	} else {
		free(words);
	}
	free(sorted);
	return region->words;
}
