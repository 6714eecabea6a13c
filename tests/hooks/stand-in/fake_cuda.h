/* SPDX-License-Identifier: MIT */
/* fake_cuda.h - between fake_cuda.c and test_making.c. */
#pragma once

#include <stdint.h>

struct fake_call {
	const char *name;
	uintptr_t arguments[8];
	uint64_t word;			/* the hooks' at that time */
	const uint64_t *making;
};

const struct fake_call *fake_last(void);
void fake_watch(const uint64_t *making);
