/* SPDX-License-Identifier: MIT */
/* rnd.h - numbers that a seed repeats. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rnd {
	uint64_t state;
};

/* splitmix64 */
static inline uint64_t rnd_next(struct rnd *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* 0 to n - 1; n > 0 */
static inline uint32_t rnd_below(struct rnd *r, uint32_t n)
{
	return rnd_next(r) % n;
}

static inline bool rnd_chance(struct rnd *r, uint32_t percent)
{
	return rnd_below(r, 100) < percent;
}

/* A generator of its own for each round, and for each child of a round. */
static inline struct rnd rnd_of(uint64_t seed, uint64_t n)
{
	struct rnd r = { seed ^ n * 0xd1342543de82ef95 };

	rnd_next(&r);
	return r;
}
