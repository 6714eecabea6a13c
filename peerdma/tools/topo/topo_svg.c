// SPDX-License-Identifier: MIT
/*
 * topo_svg.c - the machine as a drawing: a frame for each NUMA node, in it a panel for
 * each host bridge, and in that the bridges and devices below it, each indented below
 * the one above. Links are as thick as they are fast. The paths between devices are in
 * a table below. What does not fit in a row goes to the next.
 */
#include <stdio.h>
#include <string.h>

#include "base/svg.h"
#include "topo.h"

#define PAGE_W	1600	/* at most */
#define MARGIN	20
#define PAD	12	/* within a frame, and a panel */
#define GAP	12	/* between frames, and panels */
#define PANEL_W	366	/* four of them in a row */
#define COLUMNS	4
#define INDENT	20
#define INDENTS	160	/* of a whole panel: where there are many levels, each is less */
#define LINE	14	/* of text */
#define BELOW	8	/* between boxes */
#define CELL_H	20
#define HEAD	24	/* of a frame, and a panel */

static const char style[] =
	".frame{fill:#f6f8fa;stroke:#d0d7de} .panel{fill:#ffffff;stroke:#d0d7de}\n"
	".bridge{fill:#eaeef2;stroke:#8c959f} .GPU{fill:#dafbe1;stroke:#1a7f37} .NIC{fill:#ddf4ff;stroke:#0969da}\n"
	".NVME{fill:#ffeff7;stroke:#bf3989} .CARD{fill:#fff8c5;stroke:#9a6700}\n"
	".wire{fill:none;stroke:#8c959f;stroke-width:1.5} .link{fill:none;stroke:#424a53}\n"
	".slow{fill:none;stroke:#cf222e;stroke-dasharray:6 3} .slowtext{font-size:11px;font-weight:bold;fill:#b81823}\n"
	".PIX{fill:#6639ba} .PXB{fill:#8250df} .PHB{fill:#c8a8ff} .NODE{fill:#dfccff} .SYS{fill:#f2ebff} .none{fill:none}\n"
	".near{font-size:11px;fill:#ffffff} .far{font-size:11px;fill:#1f2328}\n";
static const char dark[] =
	".frame{fill:#151b23;stroke:#3d444d} .panel{fill:#0d1117;stroke:#3d444d}\n"
	".bridge{fill:#262c36;stroke:#656c76} .GPU{fill:#0f2d1a;stroke:#3fb950} .NIC{fill:#0c2a47;stroke:#4493f8}\n"
	".NVME{fill:#3b1a2e;stroke:#db61a2} .CARD{fill:#2e2306;stroke:#d29922}\n"
	".wire{stroke:#656c76} .link{stroke:#b7bfc8} .slow{stroke:#f85149} .slowtext{fill:#ff8a80}\n"
	".PIX{fill:#c8a8ff} .PXB{fill:#a583f0} .PHB{fill:#5a3d99} .NODE{fill:#3e2a6b} .SYS{fill:#241a40}\n"
	".near{fill:#0d1117} .far{fill:#e6edf3}\n";

/* Links are drawn with one of these widths: the fastest that they are as fast as. */
static const struct {
	unsigned int least;	/* GT/s times lanes */
	double stroke;
	const char *words;
} speeds[] = {
	{ 512, 7, "link of 32 GT/s x16, or faster" },
	{ 256, 5, "16 GT/s x16" },
	{ 128, 3.5, "8 GT/s x16" },
	{ 0, 2, "slower" },
};
#define SPEEDS (sizeof(speeds) / sizeof(speeds[0]))

/* A host bridge: the first of the devices right below it stands for it. */
struct host {
	unsigned int first;
	int node;		/* NUMA; -1 not known */
};

struct drawing {
	const struct machine *m;
	const struct host *hosts;
	unsigned int count;
	bool print;		/* else only its size is wanted */
	double step;		/* of a level */
};

static struct drawing measuring(const struct drawing *d)
{
	struct drawing same = *d;

	same.print = false;
	return same;
}

/* ---- boxes ---- */

/* The lines of a text that is wrapped; returns the height. */
static double paragraph(const struct drawing *d, double x, double y, double width,
			const char *class, const char *s)
{
	bool bold = !strcmp(class, "slowtext");
	double top = y;
	char clean[160];
	const char *at = clean;

	tree_clean(clean, sizeof(clean), s, strlen(s));
	while (*at) {
		size_t n = svg_fit(at, SVG_SMALL, bold, width);

		y += LINE;
		if (d->print) {
			printf("<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
			svg_put(stdout, at, n);
			puts("</text>");
		}
		at += n;
		at += strspn(at, " ");
	}
	return y - top;
}

/* Its first line: what it is, its address, and this on the right if there is room: true. */
static bool heading(const struct drawing *d, const struct device *v, double x, double y,
		    double width, const char *right)
{
	const char *what = *v->label ? v->label : topo_port_word(v);
	double first = svg_width(what, strlen(what), SVG_SIZE, true) + 6,
		second = svg_width(v->name, strlen(v->name), SVG_SMALL, false);
	double third = svg_width(right, strlen(right), SVG_SMALL, false);
	bool room = first + second + 8 + third <= width;

	if (!d->print)
		return room;
	svg_text(stdout, x, y, "name", what);
	svg_text(stdout, x + first, y, "small", v->name);
	if (room && *right)
		printf("<text x=\"%.1f\" y=\"%.1f\" class=\"small\" text-anchor=\"end\">%s</text>\n", x + width, y, right);
	return room;
}

/* What is in a box; returns its height. */
static double inside(const struct drawing *d, const struct device *v, double x, double y,
		     double width)
{
	unsigned int speed = 0, lanes = 0;
	char now[32] = "", best[32], text[96];
	const char *acs = !*v->label && v->acs == ACS_REDIRECT ? "ACS redirects" : "", *right;
	double top = y;
	/* What a port's files say of is the link below it, and the device there says it too. */
	bool known = v->link.known && link_is_upward(v);
	bool slow = known && link_is_slow(d->m, v, &speed, &lanes);

	if (known)
		link_text(v->link.speed, v->link.width, now);
	right = slow ? "" : known ? now : acs;
	y += LINE;
	if (!heading(d, v, x, y, width, right))
		y += paragraph(d, x, y, width, "small", right);
	if (slow) {
		snprintf(text, sizeof(text), "%s, both ends can do %s", now,
			 link_text(speed, lanes, best));
		y += paragraph(d, x, y, width, "slowtext", text);
	}
	if (*v->label || v->port != PORT_DOWNSTREAM)
		y += paragraph(d, x, y, width, "small", v->title);
	if (*v->label)
		y += paragraph(d, x, y, width, "small", v->known_as);
	if (right != acs)
		y += paragraph(d, x, y, width, "small", acs);
	return y - top + 6;
}

static double stroke_of(const struct link *l)
{
	size_t i = 0;

	while (i + 1 < SPEEDS && l->speed / 1000 * l->width < speeds[i].least)
		i++;
	return speeds[i].stroke;
}

/* From the box above, at (from_x, from_y), to the left of this one. A line that several have in common is no link. */
static void connect(const struct machine *m, const struct device *v, double from_x, double from_y,
		    double x, double y)
{
	enum port_type above = v->parent >= 0 ? m->devices[v->parent].port : PORT_UNKNOWN;
	bool own = above == PORT_ROOT || above == PORT_DOWNSTREAM;
	bool known = v->link.known && link_is_upward(v);
	unsigned int speed, lanes;

	if (!known || !own)
		printf("<path d=\"M%.1f %.1fV%.1fH%.1f\" class=\"wire\"/>\n", from_x, from_y, y, x);
	if (!known)
		return;
	printf("<path d=\"M%.1f %.1fV%.1fH%.1f\" class=\"%s\" stroke-width=\"%g\"/>\n", from_x,
	       own ? from_y : y, y, x, link_is_slow(m, v, &speed, &lanes) ? "slow" : "link",
	       stroke_of(&v->link));
}

/* A device and what is below it; returns the height. */
static double branch(const struct drawing *d, unsigned int i, double x, double y, double right,
		     double from_x, double from_y)
{
	const struct device *v = &d->m->devices[i];
	struct drawing measure = measuring(d);
	double height = inside(&measure, v, 0, 0, right - x - 16), top = y;

	if (d->print) {
		connect(d->m, v, from_x, from_y, x, y + height / 2);
		printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\" class=\"%s\"/>\n", x, y, right - x, height,
		       *v->label ? device_kind_label(v->kind) : "bridge");
		inside(d, v, x + 8, y, right - x - 16);
	}
	from_y = y + height;
	y += height + BELOW;
	for (unsigned int j = 0; j < d->m->count; j++) {
		if (d->m->devices[j].parent == (int)i && d->m->devices[j].shown)
			y += branch(d, j, x + d->step, y, right, x + d->step / 2, from_y);
	}
	return y - top;
}

/* ---- panels and frames ---- */

static bool is_root(const struct machine *m, unsigned int i)
{
	return m->devices[i].parent < 0 && m->devices[i].shown;
}

/* All host bridges with something to show. Returns how many. */
static unsigned int hosts_of(const struct machine *m, struct host hosts[SHOWN_MAX])
{
	unsigned int count = 0, k;

	for (unsigned int i = 0; i < m->count; i++) {
		const struct device *d = &m->devices[i];

		if (!d->shown)
			continue;
		for (k = 0; k < count && strcmp(m->devices[hosts[k].first].host, d->host) != 0; k++)
			;
		if (k == count && (!is_root(m, i) || count == SHOWN_MAX))
			continue;
		if (k == count)
			hosts[count++] = (struct host){ i, -1 };
		/* By the first device that says. */
		if (hosts[k].node < 0 && d->numa_known && d->numa >= 0)
			hosts[k].node = d->numa;
	}
	return count;
}

/* Returns the height. */
static double panel(const struct drawing *d, unsigned int first, double x, double y)
{
	double bottom = y + HEAD + BELOW;
	const char *host = d->m->devices[first].host;
	char title[64];

	if (d->print) {
		struct drawing measure = measuring(d);
		double height = panel(&measure, first, x, y);

		printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" rx=\"6\" class=\"panel\"/>\n", x, y, PANEL_W, height);
		snprintf(title, sizeof(title), "host bridge %s", *host ? host : "not known");
		svg_text(stdout, x + PAD, y + 18, "name", title);
	}
	for (unsigned int i = first; i < d->m->count; i++) {
		if (is_root(d->m, i) && !strcmp(d->m->devices[i].host, host))
			bottom += branch(d, i, x + PAD + d->step, bottom, x + PANEL_W - PAD,
					 x + PAD + d->step / 2, y + HEAD);
	}
	return bottom - BELOW + PAD - y;
}

static unsigned int panels_of(const struct drawing *d, int node)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < d->count; i++)
		n += d->hosts[i].node == node;
	return n;
}

static double frame_width(unsigned int panels)
{
	unsigned int columns = panels < COLUMNS ? panels : COLUMNS;

	return columns * (PANEL_W + GAP) - GAP + 2 * PAD;
}

/* The panels of a NUMA node, each in the column that is the shortest so far; returns the height. */
static double frame(const struct drawing *d, int node, double x, double y)
{
	double ends[COLUMNS], bottom = y;
	unsigned int panels = panels_of(d, node);
	char title[64];

	if (d->print) {
		struct drawing measure = measuring(d);
		double height = frame(&measure, node, x, y);

		snprintf(title, sizeof(title), node < 0 ? "NUMA node not known" : "NUMA node %d",
			 node);
		printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"8\" class=\"frame\"/>\n", x, y, frame_width(panels), height);
		svg_text(stdout, x + PAD, y + 18, "name", title);
	}
	for (unsigned int c = 0; c < COLUMNS; c++)
		ends[c] = y + HEAD + 6;
	for (unsigned int i = 0; i < d->count; i++) {
		unsigned int best = 0;

		if (d->hosts[i].node != node)
			continue;
		for (unsigned int c = 1; c < COLUMNS && c < panels; c++)
			best = ends[c] < ends[best] ? c : best;
		ends[best] += panel(d, d->hosts[i].first, x + PAD + best * (PANEL_W + GAP),
				    ends[best]) + GAP;
		bottom = ends[best] > bottom ? ends[best] : bottom;
	}
	return bottom - GAP + PAD - y;
}

/* The least node after this one; -2: begin, and none. */
static int next_node(const struct drawing *d, int after)
{
	int next = -2;

	for (unsigned int i = 0; i < d->count; i++) {
		int node = d->hosts[i].node;

		if (node > after && (next == -2 || node < next))
			next = node;
	}
	return next;
}

/* All frames, in rows; returns the height, and how wide it is. */
static double frames(const struct drawing *d, double y, double *wide)
{
	double x = MARGIN, row = 0, top = y;

	for (int node = next_node(d, -2); node != -2; node = next_node(d, node)) {
		double width = frame_width(panels_of(d, node)), height;

		if (x > MARGIN && x + width > PAGE_W - MARGIN) {
			x = MARGIN;
			y += row + GAP;
			row = 0;
		}
		height = frame(d, node, x, y);
		row = height > row ? height : row;
		x += width + GAP;
		*wide = x - GAP + MARGIN > *wide ? x - GAP + MARGIN : *wide;
	}
	return y + row - top;
}

/* ---- what is below them ---- */

static const char *cell_class(enum path_class c)
{
	return c == PATH_SELF || c == PATH_UNKNOWN ? "none" : path_name(c);
}

static const char *cell_text(enum path_class c)
{
	return c == PATH_PIX || c == PATH_PXB ? "near" : "far";
}

static void cell(double x, double y, double width, enum path_class c)
{
	printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"3\" class=\"%s\"/>\n"
	       "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"middle\">%s</text>\n", x, y,
	       width - 2, CELL_H - 2, cell_class(c), x + width / 2 - 1, y + 13, cell_text(c),
	       path_name(c));
}

static double cell_width(const struct machine *m)
{
	double width = svg_width("NODE", 4, SVG_SMALL, false);

	for (unsigned int i = 0; i < m->shown_count; i++) {
		const char *label = m->devices[m->shown[i]].label;
		double w = svg_width(label, strlen(label), SVG_SMALL, true);

		width = w > width ? w : width;
	}
	return width + 8;
}

static unsigned int cells_in_row(const struct machine *m)
{
	unsigned int n = (unsigned int)((PAGE_W - 2 * MARGIN) / cell_width(m)) - 1;

	return n < m->shown_count ? n : m->shown_count;
}

/* The paths between all; as many tables as its columns need. Returns the height. */
static double matrix(const struct drawing *d, double y, double *wide)
{
	unsigned int shown = d->m->shown_count, columns = cells_in_row(d->m);
	double width = cell_width(d->m), top = y;
	int meet;

	if (MARGIN * 2 + (columns + 1) * width > *wide)
		*wide = MARGIN * 2 + (columns + 1) * width;
	for (unsigned int from = 0; from < shown; from += columns) {
		unsigned int to = from + columns < shown ? from + columns : shown;

		for (unsigned int j = from; d->print && j < to; j++)
			printf("<text x=\"%.1f\" y=\"%.1f\" class=\"far name\" text-anchor=\"middle\">%s</text>\n",
			       MARGIN + (j - from + 1) * width + width / 2 - 1, y + 13,
			       d->m->devices[d->m->shown[j]].label);
		y += CELL_H;
		for (unsigned int i = 0; i < shown; i++, y += CELL_H) {
			if (!d->print)
				continue;
			svg_text(stdout, MARGIN, y + 13, "far name",
				 d->m->devices[d->m->shown[i]].label);
			for (unsigned int j = from; j < to; j++)
				cell(MARGIN + (j - from + 1) * width, y, width,
				     path_between(d->m, d->m->shown[i], d->m->shown[j], &meet));
		}
		y += GAP;
	}
	return y - top;
}

/* Where the next key is. */
struct keys {
	bool print;
	double x, y, right;
};

/* Room for a sample, and what it means beside it; returns where the sample is. */
static double key(struct keys *k, double sample, const char *words)
{
	double width = sample + 6 + svg_width(words, strlen(words), SVG_SMALL, false), x;

	if (k->x > MARGIN && k->x + width > k->right) {
		k->x = MARGIN;
		k->y += CELL_H;
	}
	x = k->x;
	if (k->print)
		svg_text(stdout, x + sample + 6, k->y + 13, "small", words);
	k->x += width + 18;
	return x;
}

static void row_of_keys(struct keys *k)
{
	k->x = MARGIN;
	k->y += CELL_H;
}

static void line_key(struct keys *k, const char *class, double stroke, const char *words)
{
	double x = key(k, 36, words);

	if (k->print)
		printf("<path d=\"M%.1f %.1fh36\" class=\"%s\" stroke-width=\"%g\"/>\n", x,
		       k->y + 9, class, stroke);
}

/* What colours and lines mean; returns the height. */
static double legend(const struct drawing *d, double y, double wide)
{
	static const struct {
		const char *class, *words;
	} kinds[] = {
		{ "GPU", "GPU" }, { "NIC", "network adapter" }, { "NVME", "NVMe drive" },
		{ "CARD", "card" }, { "bridge", "root port, switch" },
	};
	struct keys k = { d->print, MARGIN, y, wide - MARGIN };

	for (enum path_class c = PATH_PIX; c < PATH_UNKNOWN; c++) {
		double x = key(&k, 44, path_words(c));

		if (d->print)
			cell(x, k.y, 46, c);
	}
	row_of_keys(&k);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		double x = key(&k, 24, kinds[i].words);

		if (d->print)
			printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"24\" height=\"14\" rx=\"3\" class=\"key %s\"/>\n", x, k.y + 2,
			       kinds[i].class);
	}
	row_of_keys(&k);
	for (size_t i = 0; i < SPEEDS; i++)
		line_key(&k, "link", speeds[i].stroke, speeds[i].words);
	line_key(&k, "slow", 3.5, "slower than both its ends can do");
	line_key(&k, "wire", 1.5, "no link, or its speed is not known");
	row_of_keys(&k);
	return k.y - y;
}

/* Returns the height of the page; how wide it is, once that is known. */
static double page(const struct drawing *d, double *wide)
{
	double y = MARGIN + 30;

	if (!d->m->shown_count) {
		if (d->print)
			svg_text(stdout, MARGIN, y + 10, "small",
				 "No GPUs, network adapters, NVMe drives or cards on the PCI bus.");
		return y + 10 + MARGIN;
	}
	y += frames(d, y, wide) + 2 * GAP;
	y += matrix(d, y, wide);
	return y + legend(d, y, *wide) + MARGIN - 6;
}

static unsigned int deepest(const struct machine *m)
{
	unsigned int depth = 0;

	for (unsigned int i = 0; i < m->count; i++) {
		if (m->devices[i].shown && m->devices[i].depth > depth)
			depth = m->devices[i].depth;
	}
	return depth;
}

void topo_svg(const struct machine *m)
{
	struct host hosts[SHOWN_MAX];
	struct drawing d = { m, hosts, hosts_of(m, hosts), false, INDENT };
	double wide = 640, height;
	char title[288];

	if ((deepest(m) + 1) * INDENT > INDENTS)
		d.step = (double)INDENTS / (deepest(m) + 1);
	height = page(&d, &wide);
	snprintf(title, sizeof(title), "peerdma topo%s%s%s%s%s%s", *m->vendor ||
		 *m->product ? ": " : "", m->vendor, *m->vendor && *m->product ? " " : "",
		 m->product, *m->release ? ", Linux " : "", m->release);
	svg_begin(stdout, (unsigned int)(wide + 0.5), (unsigned int)(height + 0.5), title, style,
		  dark);
	svg_text(stdout, MARGIN, MARGIN + 14, "name", title);
	d.print = true;
	page(&d, &wide);
	svg_end(stdout);
}
