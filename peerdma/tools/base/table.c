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

static void table_free(struct table *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t);
}

/* The first `keys` columns, and those from `from` up to `to`. */
static void put_rows(const struct table *t, size_t keys, size_t from, size_t to, const char *indent,
		     FILE *out)
{
	for (size_t row = 0; row < t->count; row += t->columns) {
		fputs(indent, out);
		for (size_t c = 0; c < to; c++) {
			int last = c == to - 1;

			if (c >= keys && c < from)
				continue;
			/* No blanks at the end of a line. */
			text_pad_to(out, t->cells[row + c],
				    last && t->width[c] > 0 ? 0 : t->width[c]);
			fputc(last ? '\n' : ' ', out);
		}
	}
}

void table_write(struct table *t, const char *indent, FILE *to)
{
	put_rows(t, 0, 0, t->columns, indent, to);
	table_free(t);
}

void table_fold(struct table *t, size_t keys, unsigned int columns, FILE *to)
{
	for (size_t from = keys, next; from < t->columns; from = next) {
		size_t width = 0;

		for (size_t c = 0; c < keys; c++)
			width += (size_t)abs(t->width[c]) + 1;
		for (next = from; next < t->columns; next++) {
			width += (size_t)abs(t->width[next]) + (next > from);
			if (width > columns && next > from)
				break;
		}
		put_rows(t, keys, from, next, "", to);
	}
	table_free(t);
}

void table_print(struct table *t, const char *indent)
{
	table_write(t, indent, stdout);
}
