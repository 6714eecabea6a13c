// SPDX-License-Identifier: MIT
/*
 * unsupported.c - the functions of libcuda that the software GPU does not implement.
 *
 * A program that only looks a function up, or that can do without it, must run. So each name is
 * there, and returns CUDA_ERROR_NOT_SUPPORTED. The definitions are weak: one in another file takes
 * its place. So this file needs no list of what is implemented, and `nm -D` shows what is not (W).
 *
 * It must not include cuda.h, which declares some of these functions with their arguments.
 */
#include <stdatomic.h>

#include "unsupported.h"

#define SYMBOL(name)								\
	int name(void);								\
	__attribute__((weak, visibility("default"))) int name(void)		\
	{									\
		static atomic_flag told = ATOMIC_FLAG_INIT;			\
										\
		return sgu_unsupported(#name, atomic_flag_test_and_set(&told));	\
	}
#include "symbols.def"
#undef SYMBOL
