/* SPDX-License-Identifier: MIT */
/* board.h - the rows of a conformance test's table, and groups of rules that run in processes of their own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum verdict { OK, FAIL, NA };

struct row {
	enum verdict verdict;
	char rule[24], what[80], expected[64], seen[96];
};

#define ABOUT	96
/* Before all of the following: ABOUT bytes that the processes share, too; NULL: no memory. */
char *board_up(void);
/* One row of the table, printed when all is over. */
void row(enum verdict verdict, const char *rule, const char *what, const char *expected, const char *seen, ...)
	__attribute__((format(printf, 5, 6)));
#define judge(ok, ...) row((ok) ? OK : FAIL, __VA_ARGS__)
/* "-EINVAL"; in one of a few buffers. */
const char *errname(int ret);
/* A call's return value against the one that it must be. */
void returns(const char *rule, const char *what, int want, int ret);

/* Those that there are; how many have a verdict. */
unsigned int rows(const struct row **all);
unsigned int count(enum verdict verdict);
extern const char *const verdicts[];
void print_table(int rule_width);

/* Runs a group in a process of its own; a row says when that does not end well, or in time. */
void run_alone(void (*run)(void), const char *rule, const char *name, unsigned int seconds);

/* "0000:02:00.0"; false: it is none. */
bool pci_address(const char *text, uint32_t *to);
