/* SPDX-License-Identifier: MIT */
/*
 * clean.h - makes text from outside safe to print: names, paths, environment variables. Bytes that
 * a terminal may take as a command, line ends and invalid UTF-8 are written as \xNN. Used in the
 * texts of the library and of the command.
 */
#pragma once

#include <stddef.h>
#include <string.h>

#define CLEAN_ESCAPE	4	/* characters of \xNN */

/* Length of the valid UTF-8 sequence at s; 0: none. Overlong forms and surrogates are invalid. */
static inline size_t utf8_sequence(const unsigned char *s, size_t left)
{
	unsigned char min = 0x80, max = 0xbf;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf) {
		n = 2;
	} else if (s[0] >= 0xe0 && s[0] <= 0xef) {
		n = 3;
		if (s[0] == 0xe0)
			min = 0xa0;
		if (s[0] == 0xed)
			max = 0x9f;
	} else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		n = 4;
		if (s[0] == 0xf0)
			min = 0x90;
		if (s[0] == 0xf4)
			max = 0x8f;
	} else {
		return 0;
	}
	if (n > left || s[1] < min || s[1] > max)
		return 0;
	for (size_t i = 2; i < n; i++) {
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	}
	return n;
}

/*
 * Length of the printable character at s; 0: the byte must be escaped. C0, DEL and C1 are commands.
 */
static inline size_t clean_character(const unsigned char *s, size_t left)
{
	size_t n = utf8_sequence(s, left);

	if ((n == 1 && (s[0] < 0x20 || s[0] == 0x7f)) || (n == 2 && s[0] == 0xc2 && s[1] < 0xa0))
		return 0;
	return n;
}

/* Escapes one byte. Writes no NUL. */
static inline void clean_escape(char *to, unsigned char byte)
{
	static const char digits[] = "0123456789abcdef";

	to[0] = '\\';
	to[1] = 'x';
	to[2] = digits[byte >> 4];
	to[3] = digits[byte & 15];
}

/* Copies text, with bytes that are not printable escaped: what fits into size bytes, with the NUL. */
static inline void clean_copy(char *to, size_t size, const char *from)
{
	const unsigned char *s = (const unsigned char *)from;
	size_t left = strlen(from), used = 0;

	while (left) {
		size_t n = clean_character(s, left), taken = n ? n : 1;

		if (used + (n ? n : CLEAN_ESCAPE) >= size)
			break;
		if (n)
			memcpy(to + used, s, n);
		else
			clean_escape(to + used, *s);
		used += n ? n : CLEAN_ESCAPE;
		s += taken;
		left -= taken;
	}
	to[used] = 0;
}
