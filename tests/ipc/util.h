/* SPDX-License-Identifier: MIT */
/* util.h - what several tests look at: a process's descriptors, and the handles of peerdma_ipc.h as a forger makes them. */
#ifndef UTIL_H
#define UTIL_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "peerdma_ipc.h"

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

#endif
