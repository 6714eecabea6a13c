// SPDX-License-Identifier: MIT
/* next.c - a library with a function that it looks for "next": past itself. */
#include <dlfcn.h>

const char *whose(void);
const char *whose(void)
{
	const char *(*next)(void) = dlsym(RTLD_NEXT, "whose");

	return next ? next() : "no library's";
}
