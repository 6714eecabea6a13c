// SPDX-License-Identifier: MIT
/*
 * svg.c - what the commands' SVG drawings share.
 */
#include <string.h>

#include "svg.h"

/*
 * Hundredths of the font's size that each ASCII character is wide in DejaVu Sans: of the usual fonts the widest, so
 * that what fits in it fits in others.
 */
static const unsigned char widths[] = {
	32, 41, 46, 84, 64, 96, 78, 28, 40, 40, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64,
	64, 64, 64, 34, 34, 84, 84, 84, 54, 100, 69, 69, 70, 78, 64, 58, 78, 76, 30, 30, 66, 56, 87,
	75, 79, 61, 79, 70, 64, 62, 74, 69, 99, 69, 62, 69, 40, 34, 40, 84, 50,
	50, 62, 64, 55, 64, 62, 36, 64, 64, 28, 28, 58, 28, 98, 64, 62, 64, 64, 42, 53, 40, 64, 60,
	82, 60, 60, 53, 64, 34, 64, 84,
};
#define BOLD	1.2	/* times as wide, most characters less */

void svg_begin(FILE *to, unsigned int width, unsigned int height, const char *title,
	       const char *style, const char *dark)
{
	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" "
		"font-size=\"%d\">\n<title>", width, height, width, height, SVG_SIZE);
	svg_put(to, title, strlen(title));
	fprintf(to, "</title>\n<style>\n.page{fill:#ffffff} text{fill:#1f2328} .name{font-weight:bold} .small{font-size:%dpx;fill:#59636e}\n"
		"%s@media (prefers-color-scheme: dark) {\n.page{fill:#0d1117} text{fill:#e6edf3} .small{fill:#9aa4af}\n%s}\n</style>\n"
		"<rect class=\"page\" width=\"%u\" height=\"%u\"/>\n", SVG_SMALL, style, dark,
		width, height);
}

void svg_end(FILE *to)
{
	fputs("</svg>\n", to);
}

void svg_put(FILE *to, const char *s, size_t length)
{
	for (; length; s++, length--) {
		switch (*s) {
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '&':
			fputs("&amp;", to);
			break;
		default:
			fputc(*s, to);
		}
	}
}

void svg_text(FILE *to, double x, double y, const char *class, const char *s)
{
	fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
	svg_put(to, s, strlen(s));
	fputs("</text>\n", to);
}

/* Of the character that begins here; other than ASCII's are as wide as high, at most.  0: not the first byte of one. */
static double advance(char c)
{
	unsigned char byte = (unsigned char)c;

	if (byte >= ' ' && byte < ' ' + sizeof(widths))
		return widths[byte - ' '] / 100.0;
	return (byte & 0xc0) == 0x80 ? 0 : 1;
}

double svg_width(const char *s, size_t length, unsigned int size, bool bold)
{
	double sum = 0;

	for (size_t i = 0; i < length; i++)
		sum += advance(s[i]);
	return sum * size * (bold ? BOLD : 1);
}

size_t svg_fit(const char *s, unsigned int size, bool bold, double width)
{
	double sum = 0;
	size_t space = 0, n = 0;

	for (; s[n]; n++) {
		if (s[n] == ' ')
			space = n;
		sum += advance(s[n]) * size * (bold ? BOLD : 1);
		if (sum > width && n && (s[n] & 0xc0) != 0x80)
			break;
	}
	/* A space further on than half a line in: where the line is to end. */
	return s[n] && space > n / 2 ? space : n;
}
