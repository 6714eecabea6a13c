// SPDX-License-Identifier: MIT
/*
 * table.c - see table.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"
#include "tool.h"

struct table {
	size_t columns, count, room;
	int width[TABLE_COLUMNS_MAX];	/* negative: to the right */
	char **cells;			/* the titles are the first row */
};

static void *need(void *p)
{
	if (!p) {
		warn("out of memory");
		exit(EXIT_ERROR);
	}
	return p;
}

static void put(struct table *t, const char *cell, size_t length, size_t column)
{
	char *copy = need(strndup(cell, length));
	int width = (int)text_width(copy);

	if (width > abs(t->width[column]))
		t->width[column] = t->width[column] < 0 ? -width : width;
	if (t->count == t->room) {
		t->room = t->room ? t->room * 2 : 256;
		t->cells = need(realloc(t->cells, t->room * sizeof(*t->cells)));
	}
	t->cells[t->count++] = copy;
}

struct table *table_new(const char *const *titles, size_t columns)
{
	struct table *t = need(calloc(1, sizeof(*t)));

	t->columns = columns;
	for (size_t c = 0; c < columns; c++) {
		size_t length = strlen(titles[c]);
		int right = titles[c][length - 1] == '>';

		t->width[c] = right ? -1 : 1;
		put(t, titles[c], length - right, c);
	}
	return t;
}

void table_add(struct table *t, const char *const *cells)
{
	for (size_t c = 0; c < t->columns; c++) {
		const char *cell = *cells[c] ? cells[c] : "-";

		put(t, cell, strlen(cell), c);
	}
}

void table_write(struct table *t, const char *indent, FILE *to)
{
	for (size_t i = 0; i < t->count; i++) {
		size_t c = i % t->columns;
		int last = c == t->columns - 1;

		if (!c)
			fputs(indent, to);
		/* No blanks at the end of a line. */
		text_pad_to(to, t->cells[i], last && t->width[c] > 0 ? 0 : t->width[c]);
		fputc(last ? '\n' : ' ', to);
		free(t->cells[i]);
	}
	free(t->cells);
	free(t);
}

void table_print(struct table *t, const char *indent)
{
	table_write(t, indent, stdout);
}
