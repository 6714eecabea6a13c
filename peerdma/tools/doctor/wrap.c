// SPDX-License-Identifier: MIT
/* wrap.c - text in lines of the terminal's width. */
#include <stdio.h>
#include <string.h>

#include "base/tool.h"
#include "doctor.h"

/* Text in lines of the terminal's width, the second and later ones indented. */
void render_wrapped(const struct tool *tool, const char *label, const char *text)
{
	size_t width = tool->columns > 40 ? tool->columns : 40, column = 12;

	printf("  %-9s ", label);
	while (*text) {
		size_t length = strcspn(text, " ");
		char word[512];

		snprintf(word, sizeof(word), "%.*s", (int)(length < 500 ? length : 500), text);
		if (column > 12 && column + 1 + text_width(word) >= width) {
			printf("\n%12s", "");
			column = 12;
		}
		column += (size_t)printf("%s%s", column > 12 ? " " : "", word);
		text += length + strspn(text + length, " ");
	}
	putchar('\n');
}
