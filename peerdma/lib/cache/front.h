/* SPDX-License-Identifier: MIT */
/* front.h - how a hit finds the thread's table and its place there. */
#ifndef CACHE_FRONT_H
#define CACHE_FRONT_H

#include "cache.h"

#define FRONT_WORDS 4
#define SLOTS_SHIFT 43
#define SLOTS_LAST (1U << (64 - SLOTS_SHIFT))

#ifndef front_words
/* The calling thread's last fronts, by their cache's serial number; a test with threads of its own has its own. */
extern _Thread_local struct front *front_words[FRONT_WORDS] __attribute__((tls_model("initial-exec"), visibility("hidden")));
#endif

/*
 * Neighbouring pages, and those that are a power of two apart, go to places far apart,
 * and evenly so, in tables of every size: the factor modulo 2^(SLOTS_SHIFT + bits) is
 * near no simple fraction of that, for each number of bits.
 */
#define SLOTS_FACTOR 0xdbc90dc6beaa14a7ULL

static inline uint32_t *front_slot(const struct front *f, uint64_t addr)
{
	return &f->slots[(addr >> RANGE_SHIFT) * SLOTS_FACTOR >> SLOTS_SHIFT & f->slot_mask];
}

#endif
