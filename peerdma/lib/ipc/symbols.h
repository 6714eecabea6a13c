/* SPDX-License-Identifier: MIT */
/* symbols.h - a library's functions, looked up by name into a struct of pointers to them. */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct symbol {
	const char *name;
	size_t at;		/* of the pointer in the struct */
};

/* A function that the library lacks is NULL; false: it lacks one. */
static inline bool symbols_find(void *library, const struct symbol *symbols, size_t n, void *api)
{
	bool all = true;

	for (size_t i = 0; i < n; i++) {
		void *p = dlsym(library, symbols[i].name);

		memcpy((char *)api + symbols[i].at, &p, sizeof(p));
		all &= !!p;
	}
	return all;
}

#endif
