// SPDX-License-Identifier: MIT
/*
 * error.c - the text behind an errno: peerdma_last_error().
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

static _Thread_local char last_error[2048];

int fail(int error, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(last_error, sizeof(last_error), fmt, args);
	va_end(args);
	return error;
}

const char *error_words(int error)
{
	switch (error) {
	case -EMFILE:
		return "this process has as many file descriptors open as it may (RLIMIT_NOFILE, 'ulimit -n'); "
		       "close some or raise the limit";
	case -ENFILE:
		return "this machine has as many files open as it can (fs.file-max)";
	default:
		return strerror(-error);
	}
}

EXPORT const char *peerdma_last_error(void)
{
	return last_error;
}

int check_size(const char *call, uint32_t size, size_t first)
{
	if (size >= first)
		return 0;
	return fail(-EINVAL, "%s: the struct's size field is %u; set it to sizeof(the struct), at least %zu",
		    call, size, first);
}

void put_out(void *out, const void *from, size_t known)
{
	uint32_t size = *(const uint32_t *)from;	/* every struct begins with it */

	if (size < known)
		known = size;
	memcpy(out, from, known);
	memset((char *)out + known, 0, size - known);
}

#define STR(x)	#x
#define XSTR(x)	STR(x)

EXPORT const char *peerdma_version(void)
{
	return XSTR(PEERDMA_VERSION_MAJOR) "." XSTR(PEERDMA_VERSION_MINOR) "."
	       XSTR(PEERDMA_VERSION_PATCH);
}
