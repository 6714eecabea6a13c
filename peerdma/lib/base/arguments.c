// SPDX-License-Identifier: MIT
/* arguments.c - see internal.h. */
#include <stdarg.h>

#include "internal.h"

int check_given(const char *call, ...)
{
	const char *name;
	va_list args;
	int ret = 0;

	va_start(args, call);
	while (!ret && (name = va_arg(args, const char *))) {
		if (!va_arg(args, const void *))
			ret = fail(-EINVAL, "%s: the argument '%s' is NULL; the call needs it", call, name);
	}
	va_end(args);
	return ret;
}

int check_range(const char *call, uint64_t addr, uint64_t length)
{
	if (!length)
		return fail(-EINVAL, "%s: [0x%llx, +0): empty; give a length above 0", call, (unsigned long long)addr);
	if (addr + length < addr)
		return fail(-EINVAL, "%s: [0x%llx, +%llu): past the end of the address space; give a shorter length", call,
			    (unsigned long long)addr, (unsigned long long)length);
	return 0;
}
