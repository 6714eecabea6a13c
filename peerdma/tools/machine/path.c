// SPDX-License-Identifier: MIT
/*
 * path.c - the way from one device to another, in nvidia-smi's words.
 *
 *        host bridge            pci0000:00
 *        root port              00:01.0       PHB: the ways meet in the host bridge
 *        switch, upstream       01:00.0       PXB: they meet in another switch than that of one of them
 *        switch, downstream     02:00.0
 *        device                 03:00.0       PIX: only one switch between them
 */
#include <string.h>

#include "machine.h"

static unsigned int depth_of(const struct machine *m, int i)
{
	return i < 0 ? 0 : m->devices[i].depth + 1;
}

enum path_class path_between(const struct machine *m, unsigned int a, unsigned int b, int *meet)
{
	const struct device *x = &m->devices[a], *y = &m->devices[b];
	int up_a = (int)a, up_b = (int)b;

	*meet = -1;
	if (a == b)
		return PATH_SELF;
	while (up_a != up_b) {
		if (depth_of(m, up_a) >= depth_of(m, up_b))
			up_a = m->devices[up_a].parent;
		else
			up_b = m->devices[up_b].parent;
	}
	*meet = up_a;
	if (up_a >= 0) {
		unsigned int below_a = x->depth - m->devices[up_a].depth,
			below_b = y->depth - m->devices[up_a].depth;

		/* A switch is two bridges in a row: its upstream port, where ways meet, and a downstream port each. */
		return below_a <= 2 && below_b <= 2 ? PATH_PIX : PATH_PXB;
	}
	if (!strcmp(x->host, y->host))
		return PATH_PHB;
	if (m->nodes == 1)
		return PATH_NODE;
	if (!x->numa_known || !y->numa_known)
		return PATH_UNKNOWN;
	return x->numa == y->numa ? PATH_NODE : PATH_SYS;
}

unsigned int path_bridges(const struct machine *m, unsigned int device, int meet, int *out,
			  unsigned int max)
{
	unsigned int n = 0;

	for (int up = m->devices[device].parent; up >= 0 && up != meet && n < max;
	     up = m->devices[up].parent)
		out[n++] = up;
	return n;
}

const char *path_name(enum path_class c)
{
	static const char *const names[] = { "X", "PIX", "PXB", "PHB", "NODE", "SYS", "?" };

	return names[c];
}

const char *path_words(enum path_class c)
{
	static const char *const words[] = {
		"the device itself",
		"one PCIe switch at most",
		"several PCIe switches, no host bridge",
		"the processor's PCIe host bridge",
		"several host bridges of one NUMA node",
		"the link between NUMA nodes",
		"not known: the machine does not say on which NUMA node they are",
	};

	return words[c];
}
