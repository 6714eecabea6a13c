// SPDX-License-Identifier: MIT
/*
 * fake_cuda.c - of libcuda, the functions that the hooks only count and those that end
 * memory, from the hooks' own list: each notes that it was called, with what, and what the hooks' word was.
 */
#include <stdint.h>

#include "fake_cuda.h"

static struct fake_call last;

const struct fake_call *fake_last(void)
{
	return &last;
}

static int note(const char *name, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g,
		uintptr_t h)
{
	last = (struct fake_call){ .name = name, .arguments = { a, b, c, d, e, f, g, h },
				   .word = last.making ? __atomic_load_n(last.making, __ATOMIC_RELAXED) : 0, .making = last.making };
	return 77;
}

void fake_watch(const uint64_t *making)
{
	last.making = making;
}

#define ARGUMENTS	uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g, uintptr_t h
#define MAKE_BODY(name)								\
	int name(ARGUMENTS);							\
	int name(ARGUMENTS)							\
	{									\
		return note(#name, a, b, c, d, e, f, g, h);			\
	}
#define ALLOC_BODY(name)
#define FREE_BODY(name) MAKE_BODY(name)
#define HOOK(library, name, proc, BODY, ...) BODY(name)
#include "../../../peerdma/hooks/calls.def"
