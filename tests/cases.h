/* SPDX-License-Identifier: MIT */
/*
 * cases.h - tests that use cmocka, listed where they are defined, so that no table can miss one.
 *
 *	FIXTURE(setup, teardown)	around each case below; NULL is none
 *
 *	CASE(name)			cases run in the order of the build file's sources, and of their lines
 *	{
 *		assert_true(...);
 *	}
 *
 *	CASE_WITH(name, setup, teardown)	with another fixture
 *
 *	MAIN(setup, teardown)		the program: these run once. Its argument, if any, is a pattern of names
 *
 * A program with a main() of its own ends with cases_run(setup, teardown).
 *
 * As check.h, it includes the standard headers that most tests need.
 */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct listed_case {
	struct CMUnitTest test;
	const char *file;
	int line;
};

/* Weak: all files of a program share them. */
__attribute__((weak)) struct listed_case listed_cases[64];
__attribute__((weak)) size_t cases_listed;
static CMFixtureFunction case_setup __attribute__((unused)), case_teardown __attribute__((unused));

#define FIXTURE(before, after)								\
	static CMFixtureFunction case_setup = (before), case_teardown = (after);

#define CASE(name)	CASE_WITH(name, case_setup, case_teardown)

#define CASE_WITH(name, before, after)							\
	static void name(void **state);							\
	__attribute__((constructor)) static void list_##name(void)			\
	{										\
		list_case((struct CMUnitTest){ #name, name, before, after, NULL }, __FILE__, __LINE__); \
	}										\
	static void name(void **state)

#define MAIN(before, after)								\
	int main(int argc, char **argv)							\
	{										\
		if (argc > 1)								\
			cmocka_set_test_filter(argv[1]);				\
		return cases_run(before, after);					\
	}

/* Compilers may run a file's constructors in any order. */
static inline void list_case(struct CMUnitTest test, const char *file, int line)
{
	size_t i = cases_listed++;

	assert_true(i < sizeof(listed_cases) / sizeof(listed_cases[0]));
	for (; i && listed_cases[i - 1].file == file && listed_cases[i - 1].line > line; i--)
		listed_cases[i] = listed_cases[i - 1];
	listed_cases[i] = (struct listed_case){ test, file, line };
}

static inline int cases_run(CMFixtureFunction before, CMFixtureFunction after)
{
	struct CMUnitTest tests[sizeof(listed_cases) / sizeof(listed_cases[0])];

	for (size_t i = 0; i < cases_listed; i++)
		tests[i] = listed_cases[i].test;
	return _cmocka_run_group_tests(program_invocation_short_name, tests, cases_listed, before, after);
}
