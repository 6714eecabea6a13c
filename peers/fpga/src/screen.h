/* SPDX-License-Identifier: MIT */
/*
 * screen.h - the look of the demonstration's screen: numbered steps, rows of a
 * label and figures, small tables, checks that pass or fail, and a last line.
 * At most 100 columns.  Colours only on a terminal, and not with NO_COLOR set.
 *
 * Independent of GPUs, cards and drivers: plain C and libc.
 */
#ifndef SCREEN_H
#define SCREEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SCREEN_WIDTH	100
#define SCREEN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

void screen_open(FILE *out);

/* Prints the first line: the program, and at the right edge the machine. */
void screen_title(const char *left, const char *right);
/* Text in the margin's width, dimmed. */
void screen_note(const char *fmt, ...) SCREEN_PRINTF(1, 2);
/* An empty line and "N Title   what it means". */
void screen_step(int number, const char *title, const char *fmt, ...) SCREEN_PRINTF(3, 4);
/* "  label        text" */
void screen_row(const char *label, const char *fmt, ...) SCREEN_PRINTF(2, 3);
/* A row of columns, each in its width (0 ends); the first row of a table is its head. */
void screen_columns(bool head, const char *const cells[], const int widths[], int count);
/* A row that ends in "ok" or "WRONG"; failed checks are repeated in the last line. */
bool screen_check(bool ok, const char *label, const char *fmt, ...) SCREEN_PRINTF(3, 4);
/* A failure that has no row of its own. */
void screen_fail(const char *fmt, ...) SCREEN_PRINTF(1, 2);

/*
 * Prints "PASS" with the number of checks, or "FAIL" with the reasons; returns the number
 * of failures.
 */
int screen_close(const char *passed);

/* "64 KiB", "1.04 s", into a buffer of the caller's; both return it. */
#define SCREEN_CELL	40
char *screen_bytes(char cell[SCREEN_CELL], uint64_t bytes);
char *screen_time(char cell[SCREEN_CELL], uint64_t ns);

#endif
