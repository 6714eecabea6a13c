// SPDX-License-Identifier: MIT
/*
 * text.c - text and figures for people.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/base/clean.h"
#include "tool.h"

char *text_clean(const char *s, size_t length)
{
	const unsigned char *p = (const unsigned char *)s;
	char *out = malloc(length * CLEAN_ESCAPE + 1), *o = out;

	if (!out)
		return NULL;
	for (size_t i = 0; i < length;) {
		size_t n = clean_character(p + i, length - i);

		if (n) {
			memcpy(o, p + i, n);
			o += n;
			i += n;
		} else {
			clean_escape(o, p[i++]);
			o += CLEAN_ESCAPE;
		}
	}
	*o = 0;
	return out;
}

size_t text_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

void text_pad_to(FILE *to, const char *s, int width)
{
	int fill = abs(width) - (int)text_width(s);

	if (fill < 0)
		fill = 0;
	if (width < 0)
		fprintf(to, "%*s%s", fill, "", s);
	else
		fprintf(to, "%s%*s", s, fill, "");
}

void text_pad(const char *s, int width)
{
	text_pad_to(stdout, s, width);
}

const char *text_size(uint64_t bytes, char buf[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned int u = 0;
	uint64_t unit = 1;

	while (u < 6 && bytes / unit >= 1024) {
		unit *= 1024;
		u++;
	}
	if (bytes % unit == 0)
		snprintf(buf, 32, "%" PRIu64 " %s", bytes / unit, units[u]);
	else
		snprintf(buf, 32, "%.1f %s", (double)bytes / (double)unit, units[u]);
	return buf;
}

const char *text_mib(uint64_t bytes, char buf[32])
{
	snprintf(buf, 32, "%" PRIu64 " MiB", bytes >> 20);
	return buf;
}

bool text_u64(const char *s, size_t length, uint64_t *out)
{
	char buf[24], *end;

	/* strtoull() takes white space and signs; no number of 64 bits is longer than the buffer. */
	if (!length || length >= sizeof(buf) || *s < '0' || *s > '9')
		return false;
	memcpy(buf, s, length);
	buf[length] = 0;
	if (strlen(buf) != length)
		return false;
	errno = 0;
	*out = strtoull(buf, &end, buf[0] == '0' && (buf[1] | 0x20) == 'x' ? 16 : 10);
	return !*end && !errno;
}

void warn(const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	fputs("peerdma: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}
