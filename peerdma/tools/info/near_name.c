// SPDX-License-Identifier: MIT
/* near_name.c - finds the name that a mistyped one was meant to be. */
#include <string.h>

#include "info/info.h"

#define LONGEST 64	/* longer names are near none */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Levenshtein's distance: how many characters to insert, remove or replace. */
static size_t distance(const char *a, const char *b)
{
	size_t row[LONGEST + 1], n = strlen(b);

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t replaced = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			row[j] = least(replaced, 1 + least(row[j], row[j - 1]));
		}
	}
	return row[n];
}

const char *near_name(const char *name, const char *const *names, size_t n, size_t prefix)
{
	/* One mistake in three characters, or one in a short name. */
	size_t length = strlen(name) - prefix, best = length < 6 ? 2 : length / 3 + 1;
	const char *found = NULL;

	for (size_t i = 0; i < n; i++) {
		size_t d;

		if (length > LONGEST || strlen(names[i]) - prefix > LONGEST)
			continue;
		d = distance(name + prefix, names[i] + prefix);
		if (d < best) {
			best = d;
			found = names[i];
		}
	}
	return found;
}
