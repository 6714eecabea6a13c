// SPDX-License-Identifier: MIT
/* toy.c - see toy.h. */
#include "toy.h"

struct peerdma_cache *cache;

struct toy toy;

static void use_pages(uint64_t addr, uint64_t length, int n)
{
	for (uint64_t p = (addr - BASE) >> 16; toy.aperture && p <= (addr + length - 1 - BASE) >> 16 && p < TOY_PAGES; p++)
		toy.page_uses[p] = (uint16_t)(toy.page_uses[p] + n);
}

int toy_add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	MUST(arg == &toy);
	if (toy.in_add)
		toy.in_add();
	if (toy.refuse)
		return toy.refuse;
	if (toy.widest && length > toy.widest)
		return -EINVAL;
	if (toy.room && toy.adds - toy.removes >= toy.room)
		return -ENOSPC;
	toy.adds++;
	toy.bytes += length;
	use_pages(addr, length, 1);
	toy.last_addr = addr;
	toy.last_length = length;
	out->handle = (void *)(uintptr_t)(addr + 1);
	toy.access = out->access;
	toy.user = out->request ? out->request->user : NULL;
	if (out->payload) {
		MUST(!memcmp(out->payload, (char[40]){ 0 }, 40));
		snprintf(out->payload, 40, "%llx", (unsigned long long)addr);
	}
	out->word = toy.word;
	out->expected = toy.word ? *toy.word : 0;
	return 0;
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	MUST(length && handle == (void *)(uintptr_t)(addr + 1));
	if (toy.in_remove)
		toy.in_remove();
	toy.removes++;
	use_pages(addr, length, -1);
}

int toy_check(void *arg, const struct peerdma_cached *region, uint64_t addr, uint64_t length)
{
	MUST(addr >= region->addr && addr + length <= region->addr + region->length);
	return toy.valid;
}

int toy_extent(void *arg, uint64_t addr, uint64_t length, struct peerdma_extent *e)
{
	MUST(e->addr <= addr);
	e->aperture = toy.aperture;
	e->kind = toy.kind;
	if (toy.exact) {
		e->addr = addr;
		e->length = length;
	}
	if (toy.allocation_length) {
		e->addr = toy.allocation;
		e->length = toy.allocation_length;
	}
	return 0;
}

struct peerdma_cache_options options;
struct peerdma_cache_ops ops;

void fresh(void)
{
	memset(&toy, 0, sizeof(toy));
	toy.valid = 1;
	options = (struct peerdma_cache_options){ .size = sizeof(options), .capacity = 4096 };
	ops = (struct peerdma_cache_ops){ .size = sizeof(ops), .add = toy_add, .remove = end };
}

void begin(void)
{
	MUST(!peerdma_cache_create(&ops, &toy, &options, &cache));
}

void finish(void)
{
	toy.in_add = toy.in_remove = NULL;
	peerdma_cache_close(cache);
	cache = NULL;
	MUST(toy.adds == toy.removes);
}

struct peerdma_cached *get(const void *p, size_t length)
{
	struct peerdma_cached *hold = NULL;
	int ret = peerdma_cache_get(cache, p, length, &hold);

	MUST(!ret, "%d, %s", ret, peerdma_last_error());
	MUST(hold->addr <= (uintptr_t)p && (uintptr_t)p + length <= hold->addr + hold->length);
	MUST(hold->registration == (void *)(uintptr_t)(hold->addr + 1));
	return hold;
}

void touch(const void *p, size_t length)
{
	peerdma_cache_put(cache, get(p, length));
}

int invalidate(const void *p, size_t length)
{
	int removes = toy.removes, ret = peerdma_cache_invalidate(cache, p, length);

	MUST(toy.removes == removes);
	if (ret >= 0)
		MUST(peerdma_cache_drain(cache) >= 0);
	return ret;
}

struct peerdma_cache_counters counters(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };

	MUST(!peerdma_cache_counters(cache, &c));
	MUST(c.gets == c.hits + c.misses && c.hits_front <= c.hits);
	return c;
}
