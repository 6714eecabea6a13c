// SPDX-License-Identifier: MIT
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "screen.h"

#define LABEL_WIDTH	14
#define REASONS_MAX	16
#define REASON_LENGTH	160

static struct {
	FILE *out;
	bool colours;
	int checks;
	int failures;
	char reasons[REASONS_MAX][REASON_LENGTH];
} screen;

static const char *bold(void) { return screen.colours ? "\033[1m" : ""; }
static const char *dim(void) { return screen.colours ? "\033[2m" : ""; }
static const char *green(void) { return screen.colours ? "\033[32m" : ""; }
static const char *red(void) { return screen.colours ? "\033[1;31m" : ""; }
static const char *plain(void) { return screen.colours ? "\033[0m" : ""; }

void screen_open(FILE *out)
{
	const char *no_color = getenv("NO_COLOR");

	memset(&screen, 0, sizeof(screen));
	screen.out = out;
	screen.colours = isatty(fileno(out)) && !(no_color && *no_color);
}

void screen_title(const char *left, const char *right)
{
	int gap = SCREEN_WIDTH - (int)strlen(left) - (int)strlen(right);

	fprintf(screen.out, "%s%s%s%*s%s\n", bold(), left, plain(), gap > 1 ? gap : 1, "", right);
}

void screen_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs(dim(), screen.out);
	vfprintf(screen.out, fmt, ap);
	fprintf(screen.out, "%s\n", plain());
	va_end(ap);
}

void screen_step(int number, const char *title, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(screen.out, "%s%d %-*s%s", bold(), number, LABEL_WIDTH, title, plain());
	vfprintf(screen.out, fmt, ap);
	fputc('\n', screen.out);
	fflush(screen.out);
	va_end(ap);
}

void screen_row(const char *label, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(screen.out, "  %-*s", LABEL_WIDTH, label);
	vfprintf(screen.out, fmt, ap);
	fputc('\n', screen.out);
	fflush(screen.out);
	va_end(ap);
}

void screen_columns(bool head, const char *const cells[], const int widths[], int count)
{
	fprintf(screen.out, "  %s", head ? dim() : "");
	for (int i = 0; i < count; i++) {
		/* The last column is not padded, so that lines do not end in blanks. */
		fprintf(screen.out, "%-*s", i + 1 < count ? widths[i] : 0, cells[i]);
	}
	fprintf(screen.out, "%s\n", head ? plain() : "");
	fflush(screen.out);
}

static void remember(const char *label, const char *text)
{
	if (screen.failures < REASONS_MAX)
		snprintf(screen.reasons[screen.failures], REASON_LENGTH, "%s%s%s", label,
			 *label ? ": " : "", text);
	screen.failures++;
}

bool screen_check(bool ok, const char *label, const char *fmt, ...)
{
	char text[REASON_LENGTH];
	va_list ap;
	int gap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	screen.checks++;
	if (!ok)
		remember(label, text);
	gap = SCREEN_WIDTH - 2 - LABEL_WIDTH - (int)strlen(text) - (ok ? 2 : 5);
	fprintf(screen.out, "  %-*s%s%*s%s%s%s\n", LABEL_WIDTH, label, text, gap > 1 ? gap : 1, "",
		ok ? green() : red(), ok ? "ok" : "WRONG", plain());
	fflush(screen.out);
	return ok;
}

void screen_fail(const char *fmt, ...)
{
	char text[REASON_LENGTH];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	remember("", text);
}

int screen_close(const char *passed)
{
	if (!screen.failures) {
		fprintf(screen.out, "%sPASS%s  %s (%d checks)\n", green(), plain(), passed,
			screen.checks);
	} else {
		int shown = screen.failures < REASONS_MAX ? screen.failures : REASONS_MAX;

		fprintf(screen.out, "%sFAIL%s  %d wrong:\n", red(), plain(), screen.failures);
		for (int i = 0; i < shown; i++)
			fprintf(screen.out, "      %s\n", screen.reasons[i]);
		if (shown < screen.failures)
			fprintf(screen.out, "      and %d more\n", screen.failures - shown);
	}
	fflush(screen.out);
	return screen.failures;
}

char *screen_bytes(char cell[SCREEN_CELL], uint64_t bytes)
{
	static const char *const units[] = { "GiB", "MiB", "KiB" };

	for (int i = 0; i < 3; i++) {
		uint64_t unit = 1ull << (30 - 10 * i);

		/* Uses a unit only if the value is exact: users compare these figures by eye. */
		if (bytes >= unit && !(bytes % unit)) {
			snprintf(cell, SCREEN_CELL, "%llu %s", (unsigned long long)(bytes / unit),
				 units[i]);
			return cell;
		}
	}
	snprintf(cell, SCREEN_CELL, bytes ? "%llu bytes" : "0", (unsigned long long)bytes);
	return cell;
}

char *screen_time(char cell[SCREEN_CELL], uint64_t ns)
{
	if (ns < 1000000)
		snprintf(cell, SCREEN_CELL, "%.0f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(cell, SCREEN_CELL, "%.0f ms", (double)ns / 1e6);
	else
		snprintf(cell, SCREEN_CELL, "%.2f s", (double)ns / 1e9);
	return cell;
}
