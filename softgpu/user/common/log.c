// SPDX-License-Identifier: MIT
/* log.c - one line on stderr when SOFTGPU_LOG is set. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "transport.h"
#include "uncancelled.h"

void sgu_log(const char *fmt, ...)
{
	SGU_UNCANCELLED;
	char line[512];
	va_list ap;

	if (!getenv("SOFTGPU_LOG"))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fprintf(stderr, "softgpu: %s\n", line);
}
