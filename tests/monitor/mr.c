// SPDX-License-Identifier: MIT
/*
 * mr.c - memory regions of host memory from a cache of pins, without peerdma.ko: they end with
 * their memory; and where code may not be changed, none are made.  libibverbs is a stand-in.
 *
 * usage: monitor_mr LIBIBVERBS [refused]
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "fake_verbs.h"
#include "peerdma_monitor.h"
#include "peerdma_verbs.h"
#include "../lib/checks.h"
#include "../lib/counted.h"
#include "forbid.h"

#define LENGTH	(4UL << 20)
#define ODP	(1 << 6)	/* IBV_ACCESS_ON_DEMAND */

static struct ibv_pd *const domain = (struct ibv_pd *)0x1000;
static struct fake_verbs *verbs;

static int use(struct peerdma_cache *cache, void *p, int access)
{
	const struct peerdma_mr *mr;
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, p, LENGTH / 2, &hold);

	if (ret)
		return ret;
	ret = peerdma_cache_mr(cache, hold, domain, access, &mr);
	peerdma_cache_put(cache, hold);
	return ret;
}

static void *map(void)
{
	return mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Pages beside may go at any moment, and with them the registration would, unnoticed. */
static void narrow(struct peerdma *ctx)
{
	struct peerdma_cache_options o = { .size = sizeof(o), .granularity = 1 << 16 };
	struct peerdma_cached *hold = NULL;
	struct peerdma_cache *cache;
	char *p = map();

	CHECK(!peerdma_cache_open(ctx, &o, &cache) && !peerdma_cache_get(cache, p + 8192, 100, &hold), "a cache of wide granules");
	if (!hold)
		return;
	CHECK(hold->addr == (uintptr_t)p + 8192 && hold->length == (uint64_t)getpagesize(), "has host memory in pages");
	peerdma_cache_put(cache, hold);
	peerdma_cache_close(cache);
	munmap(p, LENGTH);
}

static void granted(struct peerdma_cache *cache)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	char *p = map();

	memset(p, 1, LENGTH);
	peerdma_cache_counters(cache, &c);
	CHECK(!(c.monitors & PEERDMA_MONITOR_HOST), "a cache that has pinned no host memory needs no monitor");
	CHECK(!use(cache, p, 0), "an MR of host memory");
	peerdma_cache_counters(cache, &c);
	CHECK(c.monitors & PEERDMA_MONITOR_HOST, "from then on host memory is monitored");
	CHECK(!use(cache, p, 0) && verbs->registered == 1, "the next use finds it");
	munmap(p, LENGTH);
	p = map();	/* at the same address, as a rule */
	memset(p, 2, LENGTH);
	CHECK(!use(cache, p, 0) && verbs->registered == 2, "what is mapped after an munmap is registered anew");
	peerdma_cache_drain(cache);
	CHECK(fake_verbs_live(verbs) == 1, "and the old MR is gone");
	munmap(p, LENGTH);
}

static void note(void *arg, const struct peerdma_hook_event *event)
{
}

static int says(const char *cause, const char *remedy)
{
	const char *text = peerdma_last_error(), *why = strstr(text, "MemoryDenyWriteExecute");

	puts(text);
	return !strncmp(text, cause, strlen(cause)) && why && strstr(why, remedy);
}

static void refused(struct peerdma *ctx, struct peerdma_cache *cache)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .monitors = PEERDMA_MONITOR_HOST, .add = counted_add, .remove = counted_remove };
	struct peerdma_cache_options o = { .size = sizeof(o), .flags = PEERDMA_CACHE_CALLS };
	struct peerdma_cache *other;
	void *p = malloc(LENGTH);

	if (forbid()) {
		printf("skipped: no seccomp here\n");
		exit(77);
	}
	CHECK(use(cache, p, 0) == -EOPNOTSUPP && !verbs->registered, "no MR of host memory that is not monitored");
	CHECK(says("peerdma_cache_get: host memory is not monitored: ", "PEERDMA_CACHE_CALLS"),
	      "the text says why, and what helps");
	CHECK(peerdma_cache_create(&ops, NULL, NULL, &other) == -EACCES, "no cache of the caller's own that needs it");
	CHECK(says("peerdma_cache_create: host memory is not monitored: ", "; start a monitor"), "the text says why, and what helps");
	CHECK(peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, note, NULL) == -EACCES, "no subscriber");
	CHECK(says("peerdma_monitor_subscribe: host memory is not monitored: ", "; start a monitor"), "the text says why, and what helps");
	CHECK(!peerdma_cache_open(ctx, &o, &other) && !use(other, p, 0) && !use(other, p, ODP),
	      "a program that notifies the cache has its MRs");
	peerdma_cache_close(other);
	free(p);
}

int main(int argc, char **argv)
{
	struct peerdma_cache *cache;
	struct fake_verbs *(*find)(void);
	struct peerdma *ctx;
	void *library;

	setvbuf(stdout, NULL, _IOLBF, 0);
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
	find = library ? (struct fake_verbs *(*)(void))(uintptr_t)dlsym(library, "fake_verbs") : NULL;
	if (!find || peerdma_open(&ctx, 0) || peerdma_cache_open(ctx, NULL, &cache))
		return 2;
	verbs = find();
	if (argc > 2)
		refused(ctx, cache);
	else
		granted(cache);
	if (argc == 2)
		narrow(ctx);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	return check_end(NULL);
}
