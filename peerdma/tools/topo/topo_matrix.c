// SPDX-License-Identifier: MIT
/*
 * topo_matrix.c - the distance between devices, as nvidia-smi topo -m shows it.
 */
#include <stdio.h>

#include "topo.h"

const char *bars_text(const struct device *d, char buf[160])
{
	size_t used = 0;
	char size[32];

	buf[0] = 0;
	if (!d->has_bars)
		return "?";
	for (int i = 0; i < PCI_BARS; i++) {
		if (d->bars.bars[i].length)
			used += (size_t)snprintf(buf + used, 160 - used, "%s%s%s", used ? ", " : "",
						 text_size(d->bars.bars[i].length, size),
						 d->bars.bars[i].unset ? " (no address)" : "");
	}
	return used ? buf : "-";
}

const char *iommu_text(enum iommu_mode mode)
{
	static const char *const words[] = { "not known", "off", "pass-through", "translating" };

	return words[mode];
}

#define CELL	7	/* "GPU0   ", with the blank behind it */
#define NUMA	4

static void cell(const char *s, bool last)
{
	text_pad(s, last ? 0 : CELL - 1);
	putchar(last ? '\n' : ' ');
}

static void numa_cell(const struct device *d)
{
	char node[16];

	snprintf(node, sizeof(node), "%d", d->numa);
	cell(d->numa_known ? node : "?", true);
}

/* The columns from `from' up to `to'; the NUMA nodes are behind the last one. */
static void block(const struct machine *m, unsigned int from, unsigned int to)
{
	bool last = to == m->shown_count;
	int meet;

	cell("", false);
	for (unsigned int j = from; j < to; j++)
		cell(m->devices[m->shown[j]].label, !last && j == to - 1);
	if (last)
		cell("NUMA", true);
	for (unsigned int i = 0; i < m->shown_count; i++) {
		const struct device *d = &m->devices[m->shown[i]];

		cell(d->label, false);
		for (unsigned int j = from; j < to; j++)
			cell(path_name(path_between(m, m->shown[i], m->shown[j], &meet)),
			     !last && j == to - 1);
		if (last)
			numa_cell(d);
	}
}

/* How many columns a block has: blocks are about as wide as each other. */
static unsigned int block_columns(unsigned int count, unsigned int width)
{
	unsigned int most = width < 2 * CELL + NUMA ? 1 : (width - CELL - NUMA) / CELL, blocks;

	if (!width || count <= most)
		return count;
	blocks = (count + most - 1) / most;
	return (count + blocks - 1) / blocks;
}

void topo_matrix(const struct machine *m, unsigned int width)
{
	unsigned int columns = block_columns(m->shown_count, width);

	for (unsigned int from = 0; from < m->shown_count; from += columns) {
		if (from)
			putchar('\n');
		block(m, from, from + columns < m->shown_count ? from + columns : m->shown_count);
	}
}

void topo_legend(void)
{
	puts("\nLegend:\n");
	for (enum path_class c = PATH_SELF; c <= PATH_UNKNOWN; c++)
		printf("  %-5s %s\n", path_name(c), path_words(c));
}
