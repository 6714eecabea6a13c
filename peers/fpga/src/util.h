/* SPDX-License-Identifier: MIT */
/* util.h - time, sizes, patterns, files and digests. */
#ifndef FPGA_UTIL_H
#define FPGA_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_HEX	65	/* SHA-256 in hexadecimal, with its NUL */

/* Why a call failed, in words that the user can act on. */
struct why {
	char text[512];
};
void why_set(struct why *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

uint64_t now_ns(void);
void sleep_ms(unsigned int ms);

/* "64K", "1M", "4096"; false: not a size, zero, or too large. */
bool parse_size(const char *text, uint64_t *size);

/* A decimal number from 1 to most; false: it is not. */
bool parse_count(const char *text, unsigned int most, unsigned int *count);

/* The same bytes for the same seed, everywhere. */
void pattern_fill(void *buf, size_t length, uint64_t seed);

/* Returns the offset of the first byte that differs, or length. */
size_t first_difference(const void *a, const void *b, size_t length);

void digest(const void *buf, size_t length, char hex[DIGEST_HEX]);

/* All of a regular file, symbolic links followed; free() it.  NULL and why. */
void *read_file(const char *path, size_t *length, struct why *why);

/* Allocates zeroed memory of whole pages for DMA; undone by buffer_free().  NULL: out of memory. */
void *buffer_alloc(size_t length);
void buffer_free(void *buf, size_t length);

#endif
