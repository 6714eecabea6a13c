// SPDX-License-Identifier: MIT
/*
 * topo_tree.c - host bridges, switches and devices, with their links.
 */
#include <stdio.h>
#include <string.h>

#include "topo.h"

const char *topo_port_word(const struct device *d)
{
	switch (d->port) {
	case PORT_ROOT:
		return "root port";
	case PORT_UPSTREAM:
		return "switch";
	case PORT_DOWNSTREAM:
		return "switch port";
	case PORT_ENDPOINT:
	case PORT_IN_PROCESSOR:
	case PORT_UNKNOWN:
		break;
	}
	return "bridge";
}

static void link_words(const struct machine *m, const struct device *d)
{
	unsigned int speed = 0, width = 0;
	char now[32], best[32];

	if (!d->link.known)
		return;
	printf("  %s", link_text(d->link.speed, d->link.width, now));
	if (link_is_slow(m, d, &speed, &width))
		printf(" (both ends can do %s)", link_text(speed, width, best));
}

static void device_words(const struct machine *m, const struct device *d, const char *indent)
{
	char bars[160];

	printf("%s  %s  %s", d->label, d->name, d->title);
	if (*d->known_as || d->software)
		printf(" (%s%s%s)", d->known_as, *d->known_as && d->software ? ", " : "",
		       d->software ? "software" : "");
	link_words(m, d);
	printf("\n%sBARs %s; driver %s", indent, bars_text(d, bars),
	       *d->driver ? d->driver : "none");
	if (d->group >= 0)
		printf("; IOMMU group %d, %s", d->group, iommu_text(d->iommu));
	else
		printf("; IOMMU %s", iommu_text(d->iommu));
	if (d->numa_known)
		printf("; NUMA node %d", d->numa);
	putchar('\n');
}

/* `bars`: which of the levels above go on below this line. */
static void branch(const struct machine *m, unsigned int i, unsigned int level, uint64_t bars,
		   bool ascii)
{
	const struct device *d = &m->devices[i];
	char indent[512] = "";
	size_t used = 0;

	for (unsigned int l = 0; l < level && used < sizeof(indent) - 8; l++)
		used += (size_t)sprintf(indent + used, "%s",
					!(bars & 1ULL << l) ? "   " : ascii ? "|  " : "│  ");
	if (level >= 60)
		return;
	printf("%s%s ", indent,
	       ascii ? (bars & 1ULL << level ? "+-" : "`-") : (bars & 1ULL << level ? "├─" : "└─"));
	if (*d->label) {
		snprintf(indent + used, sizeof(indent) - used, "%s%*s",
			 !(bars & 1ULL << level) ? "   " : ascii ? "|  " : "│  ",
			 (int)strlen(d->label) + 2, "");
		device_words(m, d, indent);
	} else {
		printf("%s %s", d->name, topo_port_word(d));
		if (d->port == PORT_ROOT || d->port == PORT_UNKNOWN || d->port == PORT_UPSTREAM)
			printf(", %s", d->title);
		if (d->acs == ACS_REDIRECT)
			printf(", ACS redirects");
		/* What a downstream port's link does, the device below it says. */
		if (d->port == PORT_UPSTREAM)
			link_words(m, d);
		putchar('\n');
	}
	for (unsigned int j = 0; j < m->count; j++) {
		bool more = false;

		if (m->devices[j].parent != (int)i || !m->devices[j].shown)
			continue;
		for (unsigned int k = j + 1; k < m->count && !more; k++)
			more = m->devices[k].parent == (int)i && m->devices[k].shown;
		branch(m, j, level + 1,
		       more ? bars | 1ULL << (level + 1) : bars & ~(1ULL << (level + 1)), ascii);
	}
}

void topo_tree(const struct machine *m, bool ascii)
{
	for (unsigned int i = 0; i < m->count; i++) {
		const struct device *d = &m->devices[i];
		bool first = m->devices[i].shown && d->parent < 0;

		for (unsigned int j = 0; j < i && first; j++)
			first = !(m->devices[j].parent < 0 && m->devices[j].shown &&
				  !strcmp(m->devices[j].host, d->host));
		if (!first)
			continue;
		printf("%s\n", *d->host ? d->host : "(the machine does not say where)");
		for (unsigned int j = i; j < m->count; j++) {
			bool more = false;

			if (m->devices[j].parent >= 0 || !m->devices[j].shown ||
			    strcmp(m->devices[j].host, d->host))
				continue;
			for (unsigned int k = j + 1; k < m->count && !more; k++)
				more = m->devices[k].parent < 0 && m->devices[k].shown &&
					!strcmp(m->devices[k].host, d->host);
			branch(m, j, 0, more, ascii);
		}
	}
}
