// SPDX-License-Identifier: MIT
/* variables.c - see variables.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "component.h"
#include "variables.h"

#define WORDS 3

static const struct {
	const char *name;
	const char *what;
	const char *words[WORDS];	/* all others are ignored; none: any text has a meaning */
	bool secure;			/* ignored in a program with more rights than its caller */
	const char *reader;		/* NULL: this library */
} table[VARIABLES] = {
	[VARIABLE_PROVIDER] = {
		.name = "PEERDMA_PROVIDER",
		.what = "the back-ends that may be used, in this order",
		.secure = true,
	},
	[VARIABLE_CUDA] = {
		.name = "PEERDMA_CUDA",
		.what = "load: loads libcuda.so.1; off: does not use CUDA",
		.words = { "load", "off" },
		.secure = true,
	},
	[VARIABLE_COPY] = {
		.name = "PEERDMA_COPY",
		.what = "the method of copies to and from CPU views",
		.secure = true,
	},
	[VARIABLE_CACHE] = {
		.name = "PEERDMA_CACHE",
		.what = "off: registration caches keep nothing",
		.words = { "off" },
	},
	[VARIABLE_CACHE_REPORT] = {
		.name = "PEERDMA_CACHE_REPORT",
		.what = "prints the counters of registration caches, unless it is 0",
	},
	[VARIABLE_MEMBARRIER] = {
		.name = "PEERDMA_MEMBARRIER",
		.what = "off: registration caches do without membarrier(2)",
		.words = { "off" },
	},
	[VARIABLE_HOOKS] = {
		.name = "PEERDMA_HOOKS",
		.what = "report, json: prints at exit which calls the hooks see",
		.words = { "report", "json" },
		.secure = true,
		.reader = "libpeerdma-hooks",
	},
	[VARIABLE_VERBS_CACHE] = {
		.name = "PEERDMA_VERBS_CACHE",
		.what = "caches registrations of ibv_reg_mr()",
		.reader = "libpeerdma-verbs",
	},
	[VARIABLE_VERBS_LOG] = {
		.name = "PEERDMA_VERBS_LOG",
		.what = "1: prints each call that is taken over; 0: prints nothing",
		.reader = "libpeerdma-verbs",
	},
};

const char *variable(enum variable v)
{
	return table[v].secure ? secure_getenv(table[v].name) : getenv(table[v].name);
}

bool variable_is(enum variable v, const char *word)
{
	const char *is = variable(v);

	return is && !strcmp(is, word);
}

static bool understood(enum variable v)
{
	const char *const *words = table[v].words;

	for (int i = 0; i < WORDS && words[i]; i++) {
		if (variable_is(v, words[i]))
			return true;
	}
	return !words[0];
}

static void describe(enum variable v, const char *why_ignored, struct components *to)
{
	struct peerdma_component c = component(PEERDMA_COMPONENT_VARIABLE, table[v].name);
	const char *reader = table[v].reader;

	component_why(&c, "%s%s%s", reader ? reader : "", reader ? ": " : "", table[v].what);
	if (!getenv(table[v].name)) {
		c.state = PEERDMA_COMPONENT_OFF;
	} else if (!variable(v)) {
		component_off(&c, "ignored, because this program runs with more rights than its caller");
	} else if (why_ignored || !understood(v)) {
		c.state = PEERDMA_COMPONENT_OFF;
		component_why(&c, "%s; %s", why_ignored ? why_ignored : "the value has no meaning",
			      table[v].what);
	}
	components_add(to, &c);
}

void variables_describe(const char *const *why_ignored, struct components *to)
{
	for (int v = 0; v < VARIABLES; v++)
		describe((enum variable)v, why_ignored[v], to);
}
