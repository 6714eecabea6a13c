// SPDX-License-Identifier: MIT
/*
 * error.c - the text behind an errno: peerdma_last_error().
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define TEXT_MAX 2048

/*
 * Not the text itself: the loader keeps little room for threads' variables of a
 * library that dlopen() brings, and without it the library cannot be loaded so.
 */
static _Thread_local char *text __attribute__((tls_model("initial-exec")));
static _Thread_local bool no_room __attribute__((tls_model("initial-exec")));

void text_end(void)
{
	free(text);
	text = NULL;
}

int fail(int error, const char *fmt, ...)
{
	va_list args;

	if (!text) {
		text = thread_end_told() ? malloc(TEXT_MAX) : NULL;
		no_room = !text;
	}
	if (!text)
		return error;
	va_start(args, fmt);
	vsnprintf(text, TEXT_MAX, fmt, args);
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
	if (text)
		return text;
	return no_room ? "out of memory, for the text of this error, too" : "";
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
