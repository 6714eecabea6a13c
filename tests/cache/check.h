/* SPDX-License-Identifier: MIT */
/* check.h - what the cache's tests share: a check that stays in every build, and numbers at random that repeat. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A program's tests, by their functions' names. */
struct test {
	const char *name;
	void (*fn)(void);
};
#define T(name) { #name, name }

/* All, or the one of that name: whether there was any. */
static inline bool run_tests(const struct test *tests, size_t n, const char *only)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		if (only && strcmp(only, tests[i].name) != 0)
			continue;
		any = true;
		printf("%s\n", tests[i].name);
		tests[i].fn();
	}
	return any;
}

#endif
