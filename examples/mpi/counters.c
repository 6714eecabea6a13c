// SPDX-License-Identifier: MIT
/* counters.c - see counters.h: UCX writes a tree of counters into its file, and this reads the last one. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"

static struct counter *counter_of(struct counters *c, const char *name)
{
	for (int i = 0; i < c->count; i++) {
		if (!strcmp(c->of[i].name, name))
			return &c->of[i];
	}
	if (c->count == COUNTERS_MAX)
		return NULL;
	snprintf(c->of[c->count].name, sizeof(c->of[0].name), "%s", name);
	c->of[c->count].bytes = 0;
	return &c->of[c->count++];
}

/* The process's file, open at its end. */
static FILE *file(void)
{
	static FILE *opened;
	const char *dest = getenv("UCX_STATS_DEST");

	if (!opened && dest && !strncmp(dest, "file:", 5))
		opened = fopen(dest + 5, "r");
	if (opened)
		fseek(opened, 0, SEEK_END);
	return opened;
}

bool counters_read(struct counters *c)
{
	void *ucs = dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD);
	void (*dump)(void) = ucs ? (void (*)(void))dlsym(ucs, "ucs_stats_dump") : NULL;
	char line[256], name[32] = "";
	FILE *f = file();

	c->count = 0;
	if (!dump || !f)
		return false;
	dump();
	/* "uct_iface-NAME-0x...:", and its endpoints' counters, further in, until the next one. */
	while (fgets(line, sizeof(line), f)) {
		const char *text = line + strspn(line, " ");
		struct counter *counter;
		uint64_t bytes;

		if (!strncmp(text, "uct_iface-", 10)) {
			const char *end = strstr(text + 10, "-0x");

			snprintf(name, sizeof(name), "%.*s", end ? (int)(end - text - 10) : 0, text + 10);
		} else if (*name && !strncmp(text, "bytes_", 6)) {
			counter = counter_of(c, name);
			if (counter && sscanf(text, "bytes_%*[a-z]: %" SCNu64, &bytes) == 1)
				counter->bytes += bytes;
		}
	}
	clearerr(f);
	return true;
}

void counters_add(struct counters *sum, const struct counters *now, const struct counters *then)
{
	for (int i = 0; i < now->count; i++) {
		struct counter *counter;
		uint64_t before = 0;

		for (int k = 0; k < then->count; k++) {
			if (!strcmp(then->of[k].name, now->of[i].name))
				before = then->of[k].bytes;
		}
		if (now->of[i].bytes <= before)
			continue;
		counter = counter_of(sum, now->of[i].name);
		if (counter)
			counter->bytes += now->of[i].bytes - before;
	}
}
