// SPDX-License-Identifier: MIT
/*
 * unsupported.c - the functions of the runtime that the software GPU does not implement. As in
 * libcuda (cuda/unsupported.c), each is there, weak, and returns cudaErrorNotSupported.
 *
 * It must not include a header that declares some of them.
 */
#include <stdatomic.h>

#include "unsupported.h"

#define SYMBOL(name)								\
	int name(void);								\
	__attribute__((weak, visibility("default"))) int name(void)		\
	{									\
		static atomic_flag told = ATOMIC_FLAG_INIT;			\
										\
		return rt_unsupported(#name, atomic_flag_test_and_set(&told));	\
	}
#include "symbols.def"
#undef SYMBOL
