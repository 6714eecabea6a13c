// SPDX-License-Identifier: MIT
/* verdict.c - what follows from the parts of the library. */
#include "info/info.h"

const struct peerdma_component *info_library(const struct info *info)
{
	for (size_t i = 0; i < info->count; i++) {
		if (info->components[i].type == PEERDMA_COMPONENT_LIBRARY)
			return &info->components[i];
	}
	return NULL;
}

const char *info_state(const struct peerdma_component *c)
{
	return c->state == PEERDMA_COMPONENT_ON ? "on" :
	       c->state == PEERDMA_COMPONENT_OFF ? "off" : "unknown";
}

enum info_direct info_direct(const struct info *info, const struct peerdma_component **by)
{
	enum info_direct found = DIRECT_NO;

	*by = NULL;
	for (size_t i = 0; i < info->count; i++) {
		const struct peerdma_component *c = &info->components[i];

		if (c->type != PEERDMA_COMPONENT_BACKEND || c->state == PEERDMA_COMPONENT_OFF ||
		    !(c->flags & PEERDMA_COMPONENT_DIRECT))
			continue;
		if (c->state == PEERDMA_COMPONENT_ON) {
			*by = c;
			return DIRECT_YES;
		}
		if (!*by)
			*by = c;
		found = DIRECT_UNKNOWN;
	}
	return found;
}
