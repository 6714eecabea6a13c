// SPDX-License-Identifier: MIT
/* component.c - see component.h. */
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "component.h"

struct peerdma_component component(uint32_t type, const char *name)
{
	struct peerdma_component c = { .type = type, .state = PEERDMA_COMPONENT_ON };

	clean_copy(c.name, sizeof(c.name), name);
	return c;
}

void component_why(struct peerdma_component *c, const char *fmt, ...)
{
	char text[sizeof(c->why)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	clean_copy(c->why, sizeof(c->why), text);
}

void component_off(struct peerdma_component *c, const char *why)
{
	c->state = PEERDMA_COMPONENT_OFF;
	component_why(c, "%s", why);
}

void component_file(struct peerdma_component *c, const void *function)
{
	char path[PATH_MAX];
	Dl_info info;

	if (function && dladdr(function, &info) && info.dli_fname)
		clean_copy(c->file, sizeof(c->file),
			   realpath(info.dli_fname, path) ? path : info.dli_fname);
}

void components_add(struct components *to, const struct peerdma_component *c)
{
	struct peerdma_component sized = *c;

	sized.size = to->size;
	if (to->count < to->room)
		put_out(to->out + to->count * to->size, &sized, sizeof(sized));
	to->count++;
}
