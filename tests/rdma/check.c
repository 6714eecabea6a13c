// SPDX-License-Identifier: MIT
#include <stdio.h>

#include "check.h"

int failures;

void check(int ok, const char *what)
{
	printf("%s - %s\n", ok ? "ok" : "not ok", what);
	fflush(stdout);
	failures += !ok;
}
