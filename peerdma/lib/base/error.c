// SPDX-License-Identifier: MIT
/* error.c - the text of the last error: peerdma_last_error(). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "thread_end.h"
#include "internal.h"

#define TEXT_MAX 2048
#define LEVELS 4		/* nested attempts that have a text each */

/*
 * A pointer, because the loader has little static TLS for libraries loaded by dlopen(). With an
 * array the library could not be loaded by dlopen().
 */
static _Thread_local char (*texts)[TEXT_MAX] __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned int level __attribute__((tls_model("initial-exec")));
static _Thread_local bool no_room __attribute__((tls_model("initial-exec")));
static _Thread_local uint32_t failures __attribute__((tls_model("initial-exec")));

static void text_end(void)
{
	free(texts);
	texts = NULL;
}

/* The text that fail() writes: 0 is the caller's, the others belong to attempts. */
static char *text_now(void)
{
	return texts ? texts[level < LEVELS ? level : LEVELS - 1] : NULL;
}

static struct thread_end end = { .fn = text_end };

int fail(int error, const char *fmt, ...)
{
	char made[TEXT_MAX];
	va_list args;

	failures++;
	if (!texts) {
		texts = thread_end_register(&end) ? calloc(LEVELS, TEXT_MAX) : NULL;
		no_room = !texts;
	}
	if (!texts)
		return error;
	va_start(args, fmt);
	vsnprintf(made, sizeof(made), fmt, args);
	va_end(args);
	/* A text may contain a name from the environment or from another process. */
	clean_copy(text_now(), TEXT_MAX, made);
	return error;
}

uint32_t attempt_begin(void)
{
	level++;
	if (texts && level < LEVELS)
		*text_now() = 0;
	return failures;
}

int attempt_end(uint32_t was, int ret)
{
	const char *made = level < LEVELS ? text_now() : NULL;

	level--;
	if (ret >= 0)
		failures = was;
	else if (failures != was && made)
		memmove(text_now(), made, strlen(made) + 1);
	return ret;
}

uint32_t fail_count(void)
{
	return failures;
}

/*
 * The texts of errors that mean a reached limit: the limit and the remedy. Each text is here once,
 * for all calls.
 */
static const struct {
	int error;
	const char *words;
} words[] = {
	{ ENOMEM, "out of memory" },
	{ EFBIG,
	  "larger than this process may make a file (RLIMIT_FSIZE, 'ulimit -f'); raise the limit" },
	{ EMFILE,
	  "this process has as many file descriptors open as it may (RLIMIT_NOFILE, 'ulimit -n'); "
	  "close some or raise the limit" },
	{ ENFILE, "this machine has as many files open as it can (fs.file-max)" },
	{ ESTALE, "the memory was freed" },
	{ EINTR, "interrupted by a signal" },
	/* ENOTSUPP; the kernel does not export it to user space */
	{ 524, "not supported by the driver" },
};

const char *error_words(int error)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i].error == -error)
			return words[i].words;
	}
	return strerror(-error);
}

EXPORT const char *peerdma_last_error(void)
{
	const char *text = text_now();

	if (text)
		return text;
	return no_room ? "out of memory, for the text of this error, too" : "";
}

#define STR(x)	#x
#define XSTR(x)	STR(x)

EXPORT const char *peerdma_version(void)
{
	return XSTR(PEERDMA_VERSION_MAJOR) "." XSTR(PEERDMA_VERSION_MINOR) "."
	       XSTR(PEERDMA_VERSION_PATCH);
}
