/* SPDX-License-Identifier: MIT */
/*
 * util.h - for several tests: each named test of a program in a process of its own, the clock, a process's descriptors, and
 * handles of peerdma_ipc.h as a forger makes them.
 */
#pragma once

#include <dirent.h>

#include "../lib/checks.h"
#include "peerdma_ipc.h"

#define OPEN(handle, memory) peerdma_ipc_open(handle, sizeof(struct peerdma_ipc_handle), 0, memory)

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* How many it has open, and three more; for comparing. */
static inline unsigned int descriptors(pid_t pid)
{
	char path[64];
	unsigned int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* The checksum at a handle's end, of all before it. */
static inline void handle_sign(struct peerdma_ipc_handle *h)
{
	uint64_t sum = 0xcbf29ce484222325ULL;

	for (int i = 0; i < 120; i++)
		sum = (sum ^ h->bytes[i]) * 0x100000001b3ULL;
	memcpy(h->bytes + 120, &sum, sizeof(sum));
}

struct named_test {
	const char *name;
	void (*fn)(void);
};

/* main() of a program that runs the test which its argument names. */
static inline int run_named(int argc, char **argv, const struct named_test *tests, size_t n)
{
	for (size_t i = 0; argc == 2 && i < n; i++) {
		if (!strcmp(argv[1], tests[i].name)) {
			tests[i].fn();
			return check_counts.failures ? 1 : 0;
		}
	}
	fprintf(stderr, "usage: %s TEST\n", argv[0]);
	return 2;
}
