/* SPDX-License-Identifier: MIT */
/* front.h - how a hit finds the thread's table and its place there. */
#ifndef CACHE_FRONT_H
#define CACHE_FRONT_H

#include "cache.h"

#define FRONT_WORDS 4

#ifndef front_words
/* The calling thread's last fronts, by their cache's serial number; a test with threads of its own has its own. */
extern _Thread_local struct front *front_words[FRONT_WORDS] __attribute__((tls_model("initial-exec"), visibility("hidden")));
#endif

/* Neighbouring pages go to places far apart, and evenly so. */
static inline uint32_t *front_slot(const struct front *f, uint64_t page)
{
	return &f->slots[page * 0x9e3779b97f4a7c15ULL >> f->slot_shift];
}

#endif
