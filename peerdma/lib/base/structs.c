// SPDX-License-Identifier: MIT
/*
 * structs.c - structs that begin with their size, as the caller was compiled with it:
 * programs and libraries of different releases mix.  The rule, for all of them:
 *
 *	shorter than in the first release	-EINVAL
 *	shorter than in this release		what is missing counts as zero
 *	longer, filled in by the caller		-E2BIG unless the rest is zero
 *	longer, filled in by the library	the rest is zeroed
 *	longer than a page			-E2BIG: no release has such, the field was not set
 */
#include <string.h>

#include "internal.h"

#define SIZE_MAX_EVER	4096

int check_size(const char *call, uint32_t size, size_t first)
{
	if (size > SIZE_MAX_EVER)
		return fail(-E2BIG, "%s: the struct's size field is %u; set it to sizeof(the struct) before the call", call, size);
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

bool all_zero(const void *bytes, size_t length)
{
	const char *p = bytes;

	while (length && !*p) {
		p++;
		length--;
	}
	return !length;
}

int take_in(const char *call, void *to, size_t known, size_t first, const void *from)
{
	uint32_t size = *(const uint32_t *)from;
	int ret = check_size(call, size, first);

	if (ret)
		return ret;
	if (size > known && !all_zero((const char *)from + known, size - known))
		return fail(-E2BIG, "%s: the struct has something set that only a later release of libpeerdma knows; "
			    "set what is past byte %zu to zero", call, known);
	memset(to, 0, known);
	memcpy(to, from, size < known ? size : known);
	return 0;
}
