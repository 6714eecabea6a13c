// SPDX-License-Identifier: MIT
/*
 * Another process's memory, as `peerdma cache` reads it.  The page says what it must,
 * or it would not be read on; all that it leads to is made of the input, repeated,
 * and from some read on of the input changed.
 */
#include "../../peerdma/lib/cache/thread_cache.h"
#include "fuzz.h"
#include "remote_cache.h"

#define PAGE_AT		(1ULL << 32)
#define MEMORY		(1U << 20)	/* bytes, from 0 on */

struct process {
	const uint8_t *data;
	size_t size;
	struct inspect_page page;
	unsigned int reads, steady;	/* so many reads see it unchanged */
};

static int read_it(void *arg, uint64_t addr, void *to, size_t length)
{
	struct process *p = arg;
	uint8_t *out = to, change = ++p->reads > p->steady && p->reads % 4 == 0 ? (uint8_t)p->reads : 0;

	if (addr == PAGE_AT && length == sizeof(p->page)) {
		memcpy(to, &p->page, sizeof(p->page));
		if (change)
			((struct inspect_page *)to)->changes += 2;
		return 0;
	}
	if (addr >= MEMORY || length > MEMORY - addr)
		return -EFAULT;
	for (size_t i = 0, at = addr % p->size, n; i < length; i += n, at = 0) {
		n = p->size - at < length - i ? p->size - at : length - i;
		memcpy(out + i, p->data + at, n);
	}
	out[0] ^= change;
	return 0;
}

static void check_cache(const struct remote_cache *cache)
{
	const struct peerdma_cache_counters *c = &cache->counters;

	MUST(c->gets == c->hits + c->misses && c->hits <= c->gets && c->hits_front <= c->hits);
	MUST(c->failures <= c->misses + 1);
	MUST(cache->ended_count <= REMOTE_ENDED_MAX);
	for (size_t i = 0; i < cache->ended_count; i++)
		MUST(cache->ended[i].why);
	for (size_t i = 0; i < cache->region_count; i++) {
		const struct remote_region *r = &cache->regions[i];

		MUST(r->addr + r->length >= r->addr);
		MUST(!i || r->gets <= r[-1].gets);
	}
}

static void check_maps(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	uint64_t pages[REMOTE_PAGES_MAX];

	MUST(remote_pages_find(text, pages, REMOTE_PAGES_MAX) <= REMOTE_PAGES_MAX);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct process process = { .page = {
		.magic = INSPECT_NAME, .version = INSPECT_VERSION, .layout = INSPECT_LAYOUT,
	} };
	struct remote_memory memory = { read_it, &process, 1 << 18 };
	struct remote_caches caches = { 0 };
	uint8_t *copy;
	size_t most;

	check_maps(data, size);
	if (size < 16)
		return 0;
	process.page.first = (data[0] | data[1] << 8) & ~7U;
	process.page.changes = data[2];
	process.steady = data[3];
	most = data[4];
	copy = fuzz_copy(data + 8, size - 8);
	process.data = copy;
	process.size = size - 8;
	if (!remote_caches_read(&memory, PAGE_AT, most, &caches)) {
		for (size_t i = 0; i < caches.count; i++) {
			MUST(caches.caches[i].region_count <= most);
			check_cache(&caches.caches[i]);
		}
	} else {
		MUST(!caches.count);
	}
	remote_caches_free(&caches);
	free(copy);
	return 0;
}
