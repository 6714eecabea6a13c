/* SPDX-License-Identifier: MIT */
/* symbols.h - looks up a library's functions by name, into a struct of pointers. */
#pragma once

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct symbol {
	const char *name;
	size_t at;		/* offset of the pointer in the struct */
};

/* Functions that the library lacks are set to NULL. Returns false if there is one. */
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
