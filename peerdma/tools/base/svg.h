/* SPDX-License-Identifier: MIT */
/*
 * svg.h - what the commands' SVG drawings share: the page, light and dark, and text
 * that fits.  tests/pictures checks what comes of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SVG_SIZE	12	/* of text, pixels */
#define SVG_SMALL	11

/*
 * Begins a drawing, with its title, and colours the page.  `style` has rules for both, `dark` those of a dark page:
 * classes, since not every viewer knows CSS's variables.  The classes of text are:
 *
 *   (none)	SVG_SIZE		name	bold
 *   small	SVG_SMALL, grey		small name
 */
void svg_begin(FILE *to, unsigned int width, unsigned int height, const char *title,
	       const char *style, const char *dark);
void svg_end(FILE *to);

/* Text of unknown origin; cleaned. */
void svg_put(FILE *to, const char *s, size_t length);
void svg_text(FILE *to, double x, double y, const char *class, const char *s);

/* How wide it is at most, in the fonts that viewers take for sans-serif. */
double svg_width(const char *s, size_t length, unsigned int size, bool bold);
/* The length of what fits into a line of text, at a space where there is one; one character at least.  Skip spaces after it. */
size_t svg_fit(const char *s, unsigned int size, bool bold, double width);
