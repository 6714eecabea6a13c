// SPDX-License-Identifier: MIT
/*
 * bench_cases.c - prints which cases `peerdma bench` measures with what a machine has, and the library's calls that one
 * sample of each makes. test_outputs.py compares it with cases.txt.
 */
#include <errno.h>
#include <string.h>

#include "bench/bench.h"
#include "peerdma_cache.h"
#include "peerdma_copy.h"

static char host[1 << 21], other[1 << 21], gpu_memory[4096];
static const char *fails;
static int failing, had, gets;
static bool taken;		/* host is: the next memory is the other one */

/* Of many calls in a row the first three are shown. */
static void call(const char *name, unsigned long a, unsigned long b)
{
	if (gets++ < 3)
		printf("%s%s %lu %lu", gets > 1 ? "; " : "", name, a, b);
}

static int result(const char *name)
{
	return fails && !strcmp(fails, name) && !--failing ? -EIO : 0;
}

/* ---- the other half of bench ---- */

void *subject_alloc(bool device, size_t length)
{
	call(device ? "alloc, device" : "alloc", length, 0);
	if (result("alloc"))
		return NULL;
	had++;
	if (device)
		return gpu_memory;
	if (taken)
		return other;
	taken = true;
	return host;
}

void subject_free(bool device, void *p, size_t length)
{
	call(device ? "free, device" : "free", length, 0);
	had -= device ? p == gpu_memory : p == host || p == other;
	taken &= device || p != host;
}

void subject_provider(struct bench *b, bool device, struct peerdma_region *region)
{
	call(device ? "provider, device" : "provider", region != NULL, 0);
}

void bench_leave_out(struct bench *b, const char *what, const char *why)
{
	printf("  left out: %s: %s\n", what, why);
}

size_t bench_sizes(const struct bench *b, const uint64_t *usual, const uint64_t **sizes)
{
	size_t n = 0;

	*sizes = b->options.size_count ? b->options.sizes : usual;
	while ((*sizes)[n])
		n++;
	return n < 2 ? n : 2;
}

void bench_measure(struct bench *b, const struct bench_case *c)
{
	void *state;
	int ret;

	printf("  %s: %s, %lu %s, %u in a row%s\n", c->what, c->name, c->size, c->of, c->batch, c->moves ? ", moves" : "");
	for (unsigned int thread = 0; thread < 2; thread++) {
		gets = 0;
		printf("    ");
		ret = c->begin(c->arg, thread, &state);
		gets = 0;
		printf(ret ? " = %d\n" : "\n", ret);
		if (ret)
			continue;
		printf("    ");
		ret = c->calls(state, 2);
		gets = 0;
		printf(" = %d\n    ", ret);
		c->end(state);
		printf("\n");
	}
}

/* ---- the library ---- */

const char *peerdma_last_error(void)
{
	return "the library's text";
}

int peerdma_query(struct peerdma *ctx, const void *p, struct peerdma_memory *m)
{
	call("query", p == host || p == gpu_memory ? 0 : (const char *)p > host && (const char *)p < host + sizeof(host) ? 1 : 2, m->size == sizeof(*m));
	return ctx ? -EINVAL : result("query");
}

int peerdma_query_range(struct peerdma *ctx, const void *p, size_t length, struct peerdma_memory *m, size_t room, size_t *count)
{
	call("query_range", length, (p == host || p == gpu_memory) && m->size == sizeof(*m));
	*count = room;
	return ctx || room != 1 ? -EINVAL : result("query");
}

int peerdma_pin(struct peerdma *ctx, void *p, size_t length, unsigned int flags, void *more, struct peerdma_region **region)
{
	call("pin", length, flags);
	*region = (struct peerdma_region *)host;
	if (!ctx || more || (p != host && p != gpu_memory))
		return -EINVAL;
	if (result("pin"))
		return *region = NULL, -EIO;
	had++;
	return 0;
}

int peerdma_unpin(struct peerdma_region *region)
{
	if (region)
		call("unpin", 0, 0);
	had -= region == (struct peerdma_region *)host;
	return 0;
}

int peerdma_cpu_view(struct peerdma_region *region, void **view)
{
	call("view", region == (struct peerdma_region *)host, 0);
	*view = gpu_memory;
	return result("view");
}

int peerdma_cpu_view_end(struct peerdma_region *region, void *view)
{
	call("view_end", region == (struct peerdma_region *)host, view == gpu_memory);
	return 0;
}

int peerdma_map(struct peerdma_region *region, const char *device, unsigned int flags, struct peerdma_mapping **mapping)
{
	call(device, region == (struct peerdma_region *)host, flags);
	*mapping = (struct peerdma_mapping *)host;
	return result("map");
}

int peerdma_unmap(struct peerdma_mapping *mapping)
{
	call("unmap", mapping == (struct peerdma_mapping *)host, 0);
	return 0;
}

void peerdma_copy_to_view(void *view, const void *src, size_t n)
{
	call("copy_to_view", n, view != src);
}

void peerdma_copy_from_view(void *dst, const void *view, size_t n)
{
	call("copy_from_view", n, view != dst);
}

/* A cache that makes a registration at each get. */
static const struct peerdma_cache_ops *cache_ops;
static struct peerdma_cache_ops kept;
static void *cache_arg;

int peerdma_cache_create(const struct peerdma_cache_ops *ops, void *arg, const struct peerdma_cache_options *o, struct peerdma_cache **cache)
{
	printf("    cache of %u, monitors %u\n", o->capacity, ops->monitors);
	if (result("create"))
		return -EIO;
	kept = *ops;
	cache_ops = &kept;
	cache_arg = arg;
	*cache = (struct peerdma_cache *)host;
	had++;
	return 0;
}

int peerdma_cache_open(struct peerdma *ctx, const struct peerdma_cache_options *o, struct peerdma_cache **cache)
{
	printf("    cache of pins, options %d\n", o != NULL);
	cache_ops = NULL;
	*cache = (struct peerdma_cache *)host;
	if (!ctx || result("create"))
		return -EIO;
	had++;
	return 0;
}

void peerdma_cache_close(struct peerdma_cache *cache)
{
	had -= cache == (struct peerdma_cache *)host;
}

int peerdma_cache_get(struct peerdma_cache *cache, const void *p, size_t length, struct peerdma_cached **hold)
{
	static struct peerdma_cached held;
	struct peerdma_registration r = { 0 };
	/* In strides from where the cases begin: neither the address of this program's memory, nor chance. */
	unsigned long at = (unsigned long)p;

	at -= at - (unsigned long)host < 1UL << 20 ? (unsigned long)host : at >= 1UL << 45 ? 1UL << 45 : 1UL << 44;
	if (cache != (struct peerdma_cache *)host)
		return -EINVAL;
	if (cache_ops)
		cache_ops->add(cache_arg, (uintptr_t)p, length, &r);
	call(r.word ? "get, word" : "get", at, length);
	*hold = &held;
	if (result("get"))
		return -EIO;
	had++;
	return 0;
}

void peerdma_cache_put(struct peerdma_cache *cache, struct peerdma_cached *hold)
{
	had--;
}

int peerdma_cache_invalidate(struct peerdma_cache *cache, const void *p, size_t length)
{
	call("invalidate", (unsigned long)p - (1UL << 45), length);
	return cache != (struct peerdma_cache *)host || result("invalidate") ? -EIO : 1;
}

/* ---- runs ---- */

static void run(const char *title, struct bench *b, const char *failing_call, int nth, const char *which)
{
	static void (*const all[])(struct bench *b) = { bench_cache, bench_query, bench_pin, bench_map, bench_copy };
	static const char letters[] = "cqpmo";

	printf("== %s\n", title);
	fails = failing_call;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strchr(which, letters[i]))
			continue;
		gets = 0;
		failing = nth;
		all[i](b);
		printf("\n");
	}
	if (had)
		printf("%d are left\n", had);
	had = 0;
}

int main(void)
{
	struct bench b = { .why_not = "nothing pins" };

	run("nothing", &b, NULL, 0, "cqpmo");
	b.options.sizes[0] = 65536;
	b.options.sizes[1] = 1 << 21;
	b.options.size_count = 2;
	b.ctx = (struct peerdma *)host;
	b.gpu = true;
	b.options.pci = "map";
	run("pins, a GPU, a device", &b, NULL, 0, "cqpmo");
	b.options.sizes[0] = 4;
	b.options.sizes[1] = 0;
	b.options.size_count = 1;
	run("no memory", &b, "alloc", 1, "cqpo");
	run("no more memory", &b, "alloc", 2, "qo");
	run("pins fail", &b, "pin", 2, "po");
	run("views fail", &b, "view", 1, "mo");
	run("mappings fail", &b, "map", 1, "m");
	run("caches fail", &b, "create", 1, "c");
	run("gets fail", &b, "get", 9, "c");
	run("invalidations fail", &b, "invalidate", 2, "c");
	return 0;
}
