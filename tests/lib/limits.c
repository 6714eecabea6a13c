// SPDX-License-Identifier: MIT
/*
 * limits.c - a process that is at its limits: RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS.
 * Each call that fails says which limit and what to do, has changed nothing, and works
 * again when there is room.
 *
 * usage: limits kernel|host	the back-end
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "peerdma_cache.h"
#include "checks.h"

#define MIB	(1UL << 20)
#define UNPRIVILEGED	65534

static int says(const char *word)
{
	return strstr(peerdma_last_error(), word) != NULL;
}

static rlim_t limit(int resource, rlim_t now)
{
	struct rlimit r;
	rlim_t before;

	getrlimit(resource, &r);
	before = r.rlim_cur;
	r.rlim_cur = now;
	if (setrlimit(resource, &r))
		exit(2);
	return before;
}

/* As many as there can be. */
static void files(void *memory, int kernel)
{
	rlim_t before = limit(RLIMIT_NOFILE, 16);
	int fds[16], n = 0, fd;
	struct peerdma *ctx, *second;
	struct peerdma_region *region;

	CHECK(!peerdma_open(&ctx, 0), "a context");
	CHECK(!peerdma_pin(ctx, memory, MIB, PEERDMA_HOST, NULL, &region), "a pin");
	while (n < 16 && (fd = open("/dev/null", O_RDONLY)) >= 0)
		fds[n++] = fd;
	CHECK(peerdma_open(&second, 0) == -EMFILE && says("RLIMIT_NOFILE"), "no more descriptors: a context says so");
	if (kernel) {	/* the other exports none */
		CHECK(peerdma_export_dmabuf(region, 0, 0, &fd) == -EMFILE && says("RLIMIT_NOFILE"), "a dma-buf says so");
		close(fds[--n]);
		CHECK(!peerdma_export_dmabuf(region, 0, 0, &fd), "one descriptor: a dma-buf");
		close(fd);
	}
	CHECK(peerdma_valid(region), "the pin is as before");
	while (n)
		close(fds[--n]);
	peerdma_unpin(region);
	peerdma_close(ctx);
	limit(RLIMIT_NOFILE, before);
}

static void locked(struct peerdma *ctx, char *memory)
{
	struct peerdma_region *region, *more;
	struct peerdma_cached *a, *b;
	struct peerdma_cache *cache;
	rlim_t before = limit(RLIMIT_MEMLOCK, 2 * MIB);

	CHECK(!peerdma_pin(ctx, memory, MIB, PEERDMA_HOST, NULL, &region), "within RLIMIT_MEMLOCK: a pin");
	CHECK(peerdma_pin(ctx, memory + 2 * MIB, 2 * MIB, PEERDMA_HOST, NULL, &more) == -ENOMEM && says("RLIMIT_MEMLOCK"),
	      "over it: the pin says so");
	CHECK(peerdma_valid(region), "the other is as before");
	peerdma_unpin(region);
	CHECK(!peerdma_cache_open(ctx, NULL, &cache), "a cache of pins");
	CHECK(!peerdma_cache_get(cache, memory, MIB + MIB / 2, &a), "a region in it");
	CHECK(peerdma_cache_get(cache, memory + 4 * MIB, MIB, &b) == -ENOMEM && says("RLIMIT_MEMLOCK"),
	      "while it is held there is no room for another, and the cache says so");
	peerdma_cache_put(cache, a);
	CHECK(!peerdma_cache_get(cache, memory + 4 * MIB, MIB, &b), "when it is idle it makes room");
	peerdma_cache_put(cache, b);
	peerdma_cache_close(cache);
	limit(RLIMIT_MEMLOCK, before);
}

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	return -EIO;
}

static void drop(void *arg, uint64_t addr, uint64_t length, void *handle)
{
}

static void addresses(void)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = drop };
	struct peerdma_cache_options o = { .size = sizeof(o), .capacity = 1 << 24 };
	struct peerdma_cache *cache;
	rlim_t before = limit(RLIMIT_AS, 256 * MIB);

	CHECK(peerdma_cache_create(&ops, NULL, &o, &cache) == -ENOMEM && says("ulimit -v"), "no addresses for a big cache: it says so");
	limit(RLIMIT_AS, before);
}

int main(int argc, char **argv)
{
	int kernel = argc == 2 && !strcmp(argv[1], "kernel");
	struct rlimit most;
	char *memory = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct peerdma *ctx;

	if (memory == MAP_FAILED || (!kernel && (argc != 2 || strcmp(argv[1], "host") != 0))) {
		fprintf(stderr, "usage: limits kernel|host\n");
		return 2;
	}
	getrlimit(RLIMIT_MEMLOCK, &most);
	if (most.rlim_cur < 2 * MIB || most.rlim_max < 2 * MIB)
		check_skip("this process may lock %llu bytes only", (unsigned long long)most.rlim_cur);
	setenv("PEERDMA_PROVIDER", argv[1], 1);
	files(memory, kernel);
	addresses();
	/* Root may lock what it likes: a user, then, with root's descriptor. */
	if (peerdma_open(&ctx, 0)) {
		printf("not ok - %s\n", peerdma_last_error());
		return 1;
	}
	if (!geteuid() && (setgid(UNPRIVILEGED) || setuid(UNPRIVILEGED)))
		return 2;
	locked(ctx, memory);
	peerdma_close(ctx);
	return check_end(NULL);
}
