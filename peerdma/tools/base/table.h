/* SPDX-License-Identifier: MIT */
/* table.h - rows of cells, each column as wide as its widest cell. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 16

struct table;

/* titles: "PID>" has its figures to the right, "COMMAND" its text to the left.  Out of memory ends the program. */
struct table *table_new(const char *const *titles, size_t columns);
/* As many cells as columns; "" is shown as "-". */
void table_add(struct table *table, const char *const *cells);
/* Prints it, each line after `indent`, and frees it. */
void table_print(struct table *table, const char *indent);
void table_write(struct table *table, const char *indent, FILE *to);
/* The same in a terminal of so many columns: those of the table that do not fit come below, after the first `keys` again. */
void table_fold(struct table *table, size_t keys, unsigned int columns, FILE *to);
