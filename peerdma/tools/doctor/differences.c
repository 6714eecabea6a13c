// SPDX-License-Identifier: MIT
/*
 * differences.c - the list of differences, and text that is made the same on both machines.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "base/pci.h"
#include "base/tool.h"

struct difference *compare_add(struct comparison *c, enum difference_kind kind)
{
	struct difference *d;

	if (c->count == c->room) {
		size_t room = c->room ? 2 * c->room : 64;

		d = reallocarray(c->all, room, sizeof(*d));
		if (!d)
			return NULL;
		c->all = d;
		c->room = room;
	}
	d = &c->all[c->count];
	*d = (struct difference){ .kind = kind, .order = (unsigned int)c->count++ };
	c->kinds[kind]++;
	return d;
}

#define ADDRESS_LENGTH 12	/* 0000:13:00.0 */

static const char *label_at(const struct machine *m, const char *text)
{
	static const char shape[] = "xxxx:xx:xx.x";

	for (size_t i = 0; i < ADDRESS_LENGTH; i++) {
		if (shape[i] == 'x' ? !isxdigit((unsigned char)text[i]) : text[i] != shape[i])
			return NULL;
	}
	for (unsigned int i = 0; i < m->shown_count; i++) {
		const struct device *d = &m->devices[m->shown[i]];

		if (strlen(d->name) == ADDRESS_LENGTH &&
		    !strncasecmp(text, d->name, ADDRESS_LENGTH))
			return d->label;
	}
	return NULL;
}

char *compare_relabel(const struct machine *m, const char *text)
{
	char *out = NULL;
	size_t length;
	FILE *to = open_memstream(&out, &length);

	if (!to)
		return NULL;
	while (*text) {
		const char *label = label_at(m, text);

		if (label)
			fputs(label, to);
		else
			putc(*text, to);
		text += label ? ADDRESS_LENGTH : 1;
	}
	if (fclose(to)) {
		free(out);
		return NULL;
	}
	return out;
}

void compare_free(struct comparison *c)
{
	for (size_t i = 0; i < c->count; i++) {
		free(c->all[i].path);
		free(c->all[i].a_text);
		free(c->all[i].b_text);
	}
	free(c->all);
	memset(c, 0, sizeof(*c));
}
