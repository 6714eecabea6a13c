/* SPDX-License-Identifier: MIT */
/* check.h - what the cache's tests share: a check that stays in every build, and numbers at random that repeat. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(cond)									\
	do {										\
		if (!(cond)) {								\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);	\
			abort();							\
		}									\
	} while (0)

static inline uint64_t rnd(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline uint64_t below(uint64_t *state, uint64_t n)
{
	return rnd(state) % n;
}

/* The seed is argv[n], or always the same. */
static inline uint64_t seed_from(int argc, char **argv, int n)
{
	uint64_t seed = argc > n ? strtoull(argv[n], NULL, 0) : 1;

	printf("seed %llu\n", (unsigned long long)seed);
	return seed;
}

#endif
