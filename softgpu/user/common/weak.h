/* SPDX-License-Identifier: MIT */
/*
 * weak.h - the functions of a library that the software GPU does not implement.
 *
 * A program that only looks a function up, or that can do without it, must run. So each name of the
 * real library is there. The definitions are weak: one in another file takes its place. So there is
 * no list of what is implemented, and `nm -D` shows what is not (W).
 *
 * A file that uses this must not include a header that declares some of the functions.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Defines `name`, which returns what answer(name, told) returns: the error of the library's that means
 * "not supported", or an earlier reason to fail. told: the log has named the function before.
 */
#define WEAK(name, answer)							\
	int name(void);								\
	__attribute__((weak, visibility("default"))) int name(void)		\
	{									\
		static atomic_flag told = ATOMIC_FLAG_INIT;			\
										\
		return answer(#name, atomic_flag_test_and_set(&told));		\
	}
