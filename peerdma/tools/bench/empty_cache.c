// SPDX-License-Identifier: MIT
/* empty_cache.c - see empty_cache.h. */
#include "empty_cache.h"

#define WORDS	(1U << 20)

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	/* Side by side in pages that only the kernel writes, as a cache of pins has them. */
	static uint32_t words[WORDS];

	(void)length;
	out->word = arg ? &words[(addr - EMPTY_BASE) / EMPTY_STRIDE % WORDS] : NULL;
	return 0;
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	(void)arg;
	(void)addr;
	(void)length;
	(void)handle;
}

int empty_cache_open(bool words, uint32_t capacity, struct peerdma_cache **cache)
{
	static char has_words;
	struct peerdma_cache_ops ops = {
		.size = sizeof(ops), .monitors = words ? PEERDMA_MONITOR_WORD : 0, .add = add,
		.remove = end,
	};
	struct peerdma_cache_options o = { .size = sizeof(o), .capacity = capacity };

	return peerdma_cache_create(&ops, words ? &has_words : NULL, &o, cache);
}
