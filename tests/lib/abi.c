// SPDX-License-Identifier: MIT
/*
 * abi.c - structs of other releases, as peerdma.h promises: shorter than the first
 * release's and absurdly long ones are refused; of longer ones that the caller fills in,
 * what the library does not know must be zero; what it fills in itself it zeroes.  And
 * what is reserved, or does not apply, is refused.
 */
#include "peerdma_cache.h"
#include "checks.h"

#define MORE	16	/* bytes of a later release */
#define ABSURD	(1U << 20)

static struct peerdma *ctx;
static struct peerdma_region *region;
static char *memory;

/* ---- what the library fills in ---- */

static int query(void *out)
{
	return peerdma_query(NULL, memory, out);
}

static int query_range(void *out)
{
	size_t n;

	return peerdma_query_range(NULL, memory, 100, out, 1, &n);
}

static int components(void *out)
{
	size_t n;

	return peerdma_components(ctx, out, 1, &n);
}

static int status(void *out)
{
	return peerdma_status(region, out);
}

static int notice(void *out)
{
	int ret = peerdma_next_event(ctx, out, 0);

	return ret == -EAGAIN ? 0 : ret;
}

static struct peerdma_cache *cache;

static int counters(void *out)
{
	return peerdma_cache_counters(cache, out);
}

static void filled_in(const char *name, int (*call)(void *out), uint32_t size)
{
	unsigned char later[4096 + 64];
	uint32_t n;
	int zero = 1;

	memset(later, 0xee, sizeof(later));
	n = size - 1;
	memcpy(later, &n, sizeof(n));
	CHECK(call(later) == -EINVAL, "%s: a byte short of the first release's", name);
	n = ABSURD;
	memcpy(later, &n, sizeof(n));
	CHECK(call(later) == -E2BIG && later[size] == 0xee, "%s: a size that no release will have", name);
	n = size + MORE;
	memcpy(later, &n, sizeof(n));
	CHECK(!call(later) && later[size + MORE] == 0xee, "%s: a longer one", name);
	for (uint32_t i = size; i < size + MORE; i++)
		zero &= call == notice || !later[i];	/* there was none */
	CHECK(zero, "%s: what the library does not know is zero", name);
}

/* ---- what the caller fills in ---- */

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	return 0;
}

static void drop(void *arg, uint64_t addr, uint64_t length, void *handle)
{
}

static struct peerdma_cache_ops plain = { .size = sizeof(plain), .add = add, .remove = drop };

static int made(int ret, struct peerdma_cache **new)
{
	if (!ret)
		peerdma_cache_close(*new);
	return ret;
}

static int with_options(const void *options)
{
	struct peerdma_cache *new;

	return made(peerdma_cache_open(ctx, options, &new), &new);
}

static int of_ops_with_options(const void *options)
{
	struct peerdma_cache *new;

	return made(peerdma_cache_create(&plain, NULL, options, &new), &new);
}

static int with_ops(const void *ops)
{
	struct peerdma_cache *new;

	return made(peerdma_cache_create(ops, NULL, NULL, &new), &new);
}

static void taken(const char *name, int (*call)(const void *in), const void *good, uint32_t size)
{
	unsigned char *later = calloc(1, ABSURD);
	uint32_t n = size;

	memcpy(later, good, size);
	memcpy(later, &n, sizeof(n));
	CHECK(!call(later), "%s: as this release has it", name);
	n = size - 1;
	memcpy(later, &n, sizeof(n));
	CHECK(call(later) == -EINVAL, "%s: a byte short of the first release's", name);
	n = size + MORE;
	memcpy(later, &n, sizeof(n));
	CHECK(!call(later), "%s: a longer one, with nothing in what is new", name);
	later[size + MORE - 1] = 1;
	CHECK(call(later) == -E2BIG && strstr(peerdma_last_error(), "later release"), "%s: with something there", name);
	later[size + MORE - 1] = 0;
	n = ABSURD;
	memcpy(later, &n, sizeof(n));
	CHECK(call(later) == -E2BIG, "%s: a size that no release will have", name);
	free(later);
}

static void reserved(void)
{
	struct peerdma_cache_options o = { .size = sizeof(o) };

	for (unsigned int i = 0; i < sizeof(o.reserved) / sizeof(o.reserved[0]); i++) {
		o.reserved[i] = 1;
		CHECK(with_options(&o) == -EINVAL && of_ops_with_options(&o) == -EINVAL, "reserved[%u] of a cache's options", i);
		o.reserved[i] = 0;
	}
	CHECK(!with_options(&o), "none of them");
}

static void flags(void)
{
	struct peerdma_cache_options o = { .size = sizeof(o), .flags = PEERDMA_CACHE_WHOLE };
	struct peerdma_region *r;

	for (o.flags = 1; o.flags <= PEERDMA_CACHE_STAGING; o.flags <<= 1) {
		CHECK(!with_options(&o), "flag 0x%x of caches of pins", o.flags);
		CHECK(of_ops_with_options(&o) == -EINVAL, "is not for a cache of the program's own ops");
	}
	CHECK(peerdma_pin(ctx, memory, 100, PEERDMA_HOST | PEERDMA_STAGING, NULL, &r) == -EINVAL, "a copy of host memory");
	CHECK(peerdma_pin(ctx, memory, 100, PEERDMA_HOST | PEERDMA_NO_SYNC_MEMOPS, NULL, &r) == -EINVAL, "SYNC_MEMOPS of host memory");
	CHECK(peerdma_pin(ctx, memory, 100, 1U << 30, NULL, &r) == -EINVAL, "a flag that there is not");
}

int main(void)
{
	struct peerdma_cache_options options = { .size = sizeof(options) };

	memory = aligned_alloc(4096, 4096);
	memset(memory, 1, 4096);
	if (!CHECK(!peerdma_open(&ctx, 0) && !peerdma_pin(ctx, memory, 100, PEERDMA_HOST, NULL, &region), "a pin") ||
	    !CHECK(!peerdma_cache_open(ctx, NULL, &cache), "a cache"))
		return 1;
	filled_in("struct peerdma_memory", query, sizeof(struct peerdma_memory));
	filled_in("struct peerdma_memory of a range", query_range, sizeof(struct peerdma_memory));
	filled_in("struct peerdma_component", components, sizeof(struct peerdma_component));
	filled_in("struct peerdma_status", status, sizeof(struct peerdma_status));
	filled_in("struct peerdma_notice", notice, sizeof(struct peerdma_notice));
	filled_in("struct peerdma_cache_counters", counters, sizeof(struct peerdma_cache_counters));
	taken("struct peerdma_cache_options", with_options, &options, sizeof(options));
	taken("struct peerdma_cache_ops", with_ops, &plain, sizeof(plain));
	reserved();
	flags();
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	free(memory);
	return check_end(NULL);
}
