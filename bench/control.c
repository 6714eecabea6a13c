// SPDX-License-Identifier: MIT
/*
 * control.c - what a machine's second thread is worth, without any cache.
 *
 * A step has about the 85 instructions of a get, its put and their loop, of the same kinds and
 * as independent of each other: a number read in order, a multiplication, loads
 * that follow from it, additions in memory, branches that are always foreseen.
 * All it touches is the thread's own four kilobytes.  So if two threads do not do
 * twice as much as one, they have not two cores' worth of the machine.
 */
#include <stdlib.h>
#include <string.h>

#include "cache_bench.h"
#include "cache_subjects.h"

#define WORDS 512			/* 4 KiB */

void *control_open(void)
{
	/* Pages that hold nothing else. */
	uint64_t *words = aligned_alloc(4096, WORDS * sizeof(*words));

	if (!words)
		die("out of memory");
	memset(words, 0, WORDS * sizeof(*words));
	return words;
}

void control_steps(void *own, const uint32_t *which, size_t n)
{
	uint64_t *words = own;

	for (size_t i = 0; i < n; i++) {
		uint64_t x = (which[i] + 1) * 0x9e3779b97f4a7c15ULL;

		for (int part = 0; part < 6; part++) {
			uint64_t *word = &words[x % WORDS], *next = &words[*word / 8 % WORDS];

			if (__builtin_expect(*next == UINT64_MAX, 0))
				die("the control's numbers");
			__atomic_store_n(word, *word + 16, __ATOMIC_RELAXED);
			x >>= 9;
		}
	}
}
