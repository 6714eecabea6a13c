/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - what the fuzz targets share.  A target is a file fuzz_NAME.c with one
 * function; what must hold it asks by MUST(), all else the sanitizers do.
 */
#pragma once

#include "../check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of exactly that size, or with a NUL after it: to be freed. */
static inline void *fuzz_copy(const uint8_t *data, size_t size)
{
	void *copy = malloc(size ? size : 1);

	MUST(copy);
	memcpy(copy, data, size);
	return copy;
}

static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	MUST(text);
	memcpy(text, data, size);
	text[size] = 0;
	return text;
}
