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

static void cell(const char *s)
{
	text_pad(s, 6);
	putchar(' ');
}

void topo_matrix(const struct machine *m)
{
	char node[16];
	int meet;

	cell("");
	for (unsigned int i = 0; i < m->shown_count; i++)
		cell(m->devices[m->shown[i]].label);
	puts("NUMA");
	for (unsigned int i = 0; i < m->shown_count; i++) {
		const struct device *d = &m->devices[m->shown[i]];

		cell(d->label);
		for (unsigned int j = 0; j < m->shown_count; j++)
			cell(path_name(path_between(m, m->shown[i], m->shown[j], &meet)));
		snprintf(node, sizeof(node), "%d", d->numa);
		puts(d->numa_known ? node : "?");
	}
}

void topo_legend(void)
{
	puts("\nLegend:\n");
	for (enum path_class c = PATH_SELF; c <= PATH_UNKNOWN; c++)
		printf("  %-5s %s\n", path_name(c), path_words(c));
}
