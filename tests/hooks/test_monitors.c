// SPDX-License-Identifier: MIT
/*
 * test_monitors.c - what `peerdma cache` says guards each region of a cache of pins:
 * host memory, none; GPU memory of which only the buffer id tells, the hooks where
 * they see every free, and a check at each hit where they are not there.
 *
 * usage: test_monitors PEERDMA hooks|check
 */
#include <sys/prctl.h>

#include <cuda.h>
#include "peerdma.h"
#include "peerdma_cache.h"
#include "../lib/checks.h"

#define LENGTH 65536UL

static char text[1 << 16];

/* What the command writes about this process. */
static void look(const char *program, const char *option)
{
	char command[4096];
	size_t n;
	FILE *f;
	int code;

	snprintf(command, sizeof(command), "'%s' cache %s %d", program, option, getpid());
	f = popen(command, "r");
	if (!f)
		exit(2);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	code = pclose(f);
	if (code) {
		printf("skipped: processes may not be looked at here (ptrace): %d\n", code);
		exit(77);
	}
}

/* In JSON: what stands behind "key" of the region that begins at addr. */
static int region_says(const void *addr, const char *key, const char *value)
{
	char want[64];
	const char *at;

	snprintf(want, sizeof(want), "\"addr\": \"%p\"", addr);
	at = strstr(text, want);
	snprintf(want, sizeof(want), "\"%s\": \"", key);
	at = at ? strstr(at, want) : NULL;
	return at && !strncmp(at + strlen(want), value, strlen(value));
}

static void use(struct peerdma_cache *cache, void *p)
{
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, p, LENGTH, &hold);

	if (ret) {
		printf("skipped: %s\n", peerdma_last_error());
		exit(77);
	}
	peerdma_cache_put(cache, hold);
}

int main(int argc, char **argv)
{
	struct peerdma_cache_options options = { .size = sizeof(options), .flags = PEERDMA_CACHE_STAGING };
	struct peerdma_cache *cache;
	struct peerdma *ctx;
	CUcontext context;
	CUdeviceptr p;
	void *host;

	if (argc != 3)
		return 2;
	/* For what is started from here: a system may let only a debugger look at its own children. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	host = aligned_alloc(LENGTH, LENGTH);
	if (!host || cuInit(0) || cuCtxCreate(&context, 0, 0) || cuMemAlloc(&p, LENGTH) || peerdma_open(&ctx, 0) ||
	    peerdma_cache_open(ctx, &options, &cache))
		return 2;
	memset(host, 0, LENGTH);
	use(cache, (void *)(uintptr_t)p);
	use(cache, host);

	look(argv[1], "--json");
	CHECK(region_says((void *)(uintptr_t)p, "monitor", argv[2]), "GPU memory: who tells of its end");
	CHECK(region_says((void *)(uintptr_t)p, "why", "the registration has no word"), "and why not a word");
	CHECK(region_says(host, "monitor", "host"), "host memory: the monitor that its pin started");
	CHECK(region_says(host, "why", "a monitor of host memory ends"), "and why");
	if (check_counts.failures)
		puts(text);
	look(argv[1], "");
	CHECK(strstr(text, "host: a monitor of host memory ends") != NULL, "people are told of it");
	CHECK(strstr(text, strcmp(argv[2], "hooks") ? "check: the registration has no word, and libpeerdma-hooks is not" :
		     "hooks: the registration has no word; libpeerdma-hooks sees every way") != NULL, "and of who");
	if (check_counts.failures)
		puts(text);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	free(host);
	return check_end(NULL);
}
