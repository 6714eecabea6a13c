/* SPDX-License-Identifier: MIT */
/* checks.h - tests that print a line per check and go on: CHECK(is_so, "what"). */
#ifndef CHECKS_H
#define CHECKS_H

#include <stdarg.h>
#include <stdio.h>

#include "peerdma.h"

static int failures;

#define CHECK(ok, ...) check((ok), __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4)))
static inline int check(int ok, int line, const char *fmt, ...)
{
	va_list args;

	printf("%s - ", ok ? "ok" : "not ok");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	if (!ok) {
		printf(" (line %d; the last error text: %s)", line, peerdma_last_error());
		failures++;
	}
	printf("\n");
	fflush(stdout);
	return ok;
}

#endif
