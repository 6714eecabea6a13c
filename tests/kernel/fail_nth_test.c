// SPDX-License-Identifier: MIT
/*
 * fail_nth_test - each operation of the modules with its first, second, ...
 * allocation failing: all must be refused cleanly and leave nothing.
 *
 *   fail_nth_test CARD [PART]     CARD: the DMA card's bus << 8 | devfn
 */
#include "fail_nth.h"
#include "fail_nth_test.h"

uint32_t card;

/* ---- what the modules hold ---- */

static const struct {
	const char *file, *key, *minus;
} counted[] = {
	{ "softgpu/0/info", "clients", NULL },
	{ "softgpu/0/info", "objects", NULL },
	{ "softgpu/0/info", "pins", NULL },
	{ "softgpu/0/info", "vram_free", NULL },
	{ "softgpu/0/bar1", "used", NULL },
	{ "peerdma/stats", "live", NULL },
	{ "peerdma/stats", "pins", "unpins" },
	{ "peerdma/stats", "maps", "unmaps" },
};
#define COUNTED (sizeof(counted) / sizeof(counted[0]))

struct counts {
	long long n[COUNTED];
};
static struct counts base;

/* The number after a word at the start of a line; 0 where there is no such file. */
static long long number(const char *file, const char *key)
{
	char path[128], line[256];
	long long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", file);
	f = fopen(path, "r");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		size_t length = strcspn(line, ":\t ");

		if (length == strlen(key) && !strncmp(line, key, length)) {
			n = atoll(line + length + 1);
			break;
		}
	}
	fclose(f);
	return n;
}

static struct counts counts_now(void)
{
	struct counts c;

	for (unsigned int i = 0; i < COUNTED; i++) {
		c.n[i] = number(counted[i].file, counted[i].key);
		if (counted[i].minus)
			c.n[i] -= number(counted[i].file, counted[i].minus);
	}
	return c;
}

void idle_begins(void)
{
	base = counts_now();
}

bool idle(void)
{
	const struct timespec nap = { .tv_nsec = 10000000 };
	struct counts now;

	/* The last of a file may be cleared away by another thread. */
	for (int tries = 0; tries < 6000; tries++) {
		now = counts_now();
		if (!memcmp(&now, &base, sizeof(now)))
			return true;
		nanosleep(&nap, NULL);
	}
	for (unsigned int i = 0; i < COUNTED; i++) {
		if (now.n[i] != base.n[i])
			printf("%s in %s: %lld, not %lld\n", counted[i].key, counted[i].file, now.n[i],
			       base.n[i]);
	}
	/* Told once. */
	base = now;
	return false;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {
		{ "softgpu", fail_nth_softgpu },
		{ "nvp2p", fail_nth_nvp2p },
		{ "peerdma", fail_nth_peerdma },
	};
	const char *only = argc > 2 ? argv[2] : NULL;

	if (argc < 2)
		return 2;
	card = strtoul(argv[1], NULL, 0);
	if (!fail_nth_ready()) {
		printf("skip: this kernel injects no faults: run me on the debug kernel\n");
		return CHECK_SKIPPED;
	}
	for (unsigned int i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!only || !strcmp(only, parts[i].name))
			parts[i].run();
	}
	return check_end("fail_nth_test");
}
