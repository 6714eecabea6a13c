// SPDX-License-Identifier: MIT
/* names.c - the table of names.def. It must not include cuda.h: see unsupported.c. */
#include "names.h"

#define SYMBOL(name) void name(void);
#include "symbols.def"
#undef SYMBOL

const struct sgu_name sgu_names[] = {
#define NAME(name, since, symbol) { #name, since, false, symbol },
#define THREAD(name, since, symbol) { #name, since, true, symbol },
#include "names.def"
#undef THREAD
#undef NAME
};

const size_t sgu_name_count = sizeof(sgu_names) / sizeof(sgu_names[0]);
