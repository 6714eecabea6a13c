// SPDX-License-Identifier: MIT
/*
 * topo_svg.c - the machine as a drawing: a frame for each host bridge, switches
 * and devices below it, a line for each link, thick as it is fast, and the pairs
 * that matter in a table below.
 */
#include <stdio.h>
#include <string.h>

#include "topo.h"

#define BOX_W	150
#define BOX_H	54
#define GAP_X	16
#define GAP_Y	40
#define MARGIN	24

/* Text of unknown origin in XML. */
static void put_text(const char *s)
{
	for (; *s; s++) {
		switch (*s) {
		case '<':
			fputs("&lt;", stdout);
			break;
		case '>':
			fputs("&gt;", stdout);
			break;
		case '&':
			fputs("&amp;", stdout);
			break;
		default:
			putchar(*s);
		}
	}
}

static void text_at(unsigned int x, unsigned int y, const char *class, const char *s, size_t max)
{
	char cut[160];

	printf("<text x=\"%u\" y=\"%u\" class=\"%s\">", x, y, class);
	tree_clean(cut, max < sizeof(cut) ? max + 1 : sizeof(cut), s, strlen(s));
	put_text(cut);
	puts("</text>");
}

static const char *path_colour(enum path_class c)
{
	switch (c) {
	case PATH_PIX:
	case PATH_PXB:
		return "#2e7d32";
	case PATH_PHB:
	case PATH_NODE:
		return "#ef8f00";
	case PATH_SYS:
		return "#c62828";
	case PATH_SELF:
	case PATH_UNKNOWN:
		break;
	}
	return "#777777";
}

/* How many boxes stand side by side below it. */
static unsigned int width(const struct machine *m, unsigned int i)
{
	unsigned int n = 0;

	for (unsigned int j = 0; j < m->count; j++) {
		if (m->devices[j].parent == (int)i && m->devices[j].shown)
			n += width(m, j);
	}
	return n ? n : 1;
}

static unsigned int height(const struct machine *m)
{
	unsigned int depth = 0;

	for (unsigned int i = 0; i < m->count; i++) {
		if (*m->devices[i].label && m->devices[i].depth > depth)
			depth = m->devices[i].depth;
	}
	return depth + 1;
}

static void link_line(const struct machine *m, const struct device *d, unsigned int x, unsigned int from, unsigned int to_x,
		      unsigned int to_y)
{
	unsigned int speed = 0, lanes = 0;
	char now[32];
	/* What a port's files tell of is the link below it, and the device there tells it too. */
	bool known = d->link.known && link_is_upward(d), slow = known && link_is_slow(m, d, &speed, &lanes);

	printf("<path d=\"M%u %u L%u %u\" stroke=\"%s\" stroke-width=\"%u\"/>\n", x, from, to_x, to_y,
	       slow ? "#c62828" : known ? "#2e7d32" : "#999999",
	       known && d->link.width >= 16 ? 5 : known && d->link.width >= 4 ? 3 : 2);
	if (known)
		text_at(to_x + 6, to_y - 8, slow ? "bad" : "small", link_text(d->link.speed, d->link.width, now), 30);
}

static void draw(const struct machine *m, unsigned int i, unsigned int column, unsigned int from_x, unsigned int from_y)
{
	const struct device *d = &m->devices[i];
	unsigned int wide = width(m, i), x = MARGIN + column * (BOX_W + GAP_X), y = MARGIN + 60 + d->depth * (BOX_H + GAP_Y);
	unsigned int middle = x + (wide * (BOX_W + GAP_X) - GAP_X) / 2;

	link_line(m, d, from_x, from_y, middle, y);
	printf("<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" rx=\"6\" class=\"%s\"/>\n", middle - BOX_W / 2, y, BOX_W, BOX_H,
	       *d->label ? device_kind_label(d->kind) : "bridge");
	text_at(middle - BOX_W / 2 + 8, y + 16, "name", *d->label ? d->label : d->name, 20);
	text_at(middle - BOX_W / 2 + 8, y + 31, "small", d->title, 24);
	text_at(middle - BOX_W / 2 + 8, y + 45, "small", *d->label ? d->name : d->acs == ACS_REDIRECT ? "ACS redirects" : "", 24);
	for (unsigned int j = 0; j < m->count; j++) {
		if (m->devices[j].parent == (int)i && m->devices[j].shown) {
			draw(m, j, column, middle, y + BOX_H);
			column += width(m, j);
		}
	}
}

static unsigned int hosts(const struct machine *m, bool print)
{
	unsigned int column = 0, bottom = MARGIN + 60 + height(m) * (BOX_H + GAP_Y);

	for (unsigned int i = 0; i < m->count; i++) {
		const struct device *d = &m->devices[i];
		unsigned int first = column, x = MARGIN + column * (BOX_W + GAP_X);
		char node[64];
		bool seen = false;

		if (d->parent >= 0 || !m->devices[i].shown)
			continue;
		for (unsigned int j = 0; j < i && !seen; j++)
			seen = m->devices[j].parent < 0 && m->devices[j].shown && !strcmp(m->devices[j].host, d->host);
		if (seen)
			continue;
		for (unsigned int j = i; j < m->count; j++) {
			if (m->devices[j].parent < 0 && m->devices[j].shown && !strcmp(m->devices[j].host, d->host))
				column += width(m, j);
		}
		if (!print)
			continue;
		snprintf(node, sizeof(node), d->numa_known ? "%s, NUMA node %d" : "%s", *d->host ? d->host : "?", d->numa);
		printf("<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" rx=\"10\" class=\"host\"/>\n", x - 8, MARGIN,
		       (column - first) * (BOX_W + GAP_X) - 4, bottom - MARGIN);
		text_at(x, MARGIN + 22, "name", node, 60);
		for (unsigned int j = i; j < m->count; j++) {
			if (m->devices[j].parent < 0 && m->devices[j].shown && !strcmp(m->devices[j].host, d->host)) {
				draw(m, j, first, x + 60, MARGIN + 28);
				first += width(m, j);
			}
		}
	}
	return column;
}

static void matrix(const struct machine *m, unsigned int top)
{
	int meet;

	for (unsigned int i = 0; i < m->shown_count; i++) {
		const char *label = m->devices[m->shown[i]].label;
		unsigned int y = top + 20 + i * 22;

		text_at(MARGIN, y + 14, "name", label, 12);
		text_at(MARGIN + 70 + i * 56, top + 12, "name", label, 12);
		for (unsigned int j = 0; j < m->shown_count; j++) {
			enum path_class c = path_between(m, m->shown[i], m->shown[j], &meet);

			printf("<rect x=\"%u\" y=\"%u\" width=\"52\" height=\"19\" rx=\"3\" fill=\"%s\"/>\n",
			       MARGIN + 66 + j * 56, y, path_colour(c));
			text_at(MARGIN + 74 + j * 56, y + 14, "cell", path_name(c), 8);
		}
	}
}

void topo_svg(const struct machine *m)
{
	unsigned int labels = m->shown_count, columns = hosts(m, false), top = MARGIN + 60 + height(m) * (BOX_H + GAP_Y) + 30, wide;

	wide = 2 * MARGIN + columns * (BOX_W + GAP_X);
	if (wide < 2 * MARGIN + 80 + labels * 56)
		wide = 2 * MARGIN + 80 + labels * 56;
	printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" font-family=\"sans-serif\">\n", wide,
	       top + 60 + labels * 22);
	puts("<style>.name{font-size:13px;font-weight:bold}.small{font-size:10px}.bad{font-size:10px;fill:#c62828;font-weight:bold}"
	     ".cell{font-size:11px;fill:#ffffff}.host{fill:#f4f6f8;stroke:#90a4ae}.bridge{fill:#eceff1;stroke:#607d8b}"
	     ".GPU{fill:#dcedc8;stroke:#558b2f}.NIC{fill:#bbdefb;stroke:#1565c0}.NVME{fill:#ffe0b2;stroke:#ef6c00}"
	     ".CARD{fill:#e1bee7;stroke:#6a1b9a}</style>");
	printf("<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n");
	hosts(m, true);
	matrix(m, top);
	text_at(MARGIN, top + 40 + labels * 22, "small", "green: switches only; orange: through a host bridge; red: across sockets,",
		90);
	text_at(MARGIN, top + 53 + labels * 22, "small", "or a link that runs below what both its ends can do", 90);
	puts("</svg>");
}
