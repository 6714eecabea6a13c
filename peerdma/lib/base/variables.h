/* SPDX-License-Identifier: MIT */
/*
 * variables.h - the environment variables of this library, and of its sister libraries
 * libpeerdma-hooks and libpeerdma-verbs. The code of this library reads them only by these
 * functions.
 */
#pragma once

#include <stdbool.h>

enum variable {
	VARIABLE_PROVIDER,
	VARIABLE_CUDA,
	VARIABLE_COPY,
	VARIABLE_CACHE,
	VARIABLE_CACHE_REPORT,
	VARIABLE_MEMBARRIER,
	/* Of the sister libraries, which read them themselves. */
	VARIABLE_HOOKS,
	VARIABLE_VERBS_CACHE,
	VARIABLE_VERBS_LOG,
	VARIABLES,
};

/* NULL: not set, or, of some, ignored because the program runs with more rights than its caller. */
const char *variable(enum variable v);
/* Whether it is set to this word. The words of a variable are in the table of variables.c. */
bool variable_is(enum variable v, const char *word);
