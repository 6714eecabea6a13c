// SPDX-License-Identifier: MIT
/*
 * cmd_top.c - `peerdma top`: pins, BAR1, caches, revocations and DMA as they change.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "machine/gpus.h"
#include "top/top.h"

static const char usage[] =
	"Usage: peerdma top [-d SECONDS] [-n COUNT | --once] [--sort WHAT] [--json | --plain]\n"
	"                   [--ascii] [--root DIR]\n"
	"\n"
	"Pins, use of BAR1, hit rates of registration caches, revocations and DMA, by process\n"
	"and by device, as they change.  On a terminal q quits and ? helps.\n"
	"\n"
	"  -d, --delay SECONDS  between two looks (2; 0.1 to 3600)\n"
	"  -n, --count COUNT    so many looks; 0: until it is ended.  On a terminal 0, else 1\n"
	"  --once               one look, plain\n"
	"  --sort WHAT          processes by held, gets, dma, revocations, pid or name\n"
	"  --json               one JSON object a line, schema peerdma-top/1\n"
	"  --plain              text below text, as where the output is no terminal\n"
	"  --ascii              no characters outside ASCII\n"
	"  --root DIR           looks at files below DIR, not at this machine\n"
	"\n"
	"The first look has totals only; rates are from the look before.  What cannot be read\n"
	"is named, with what root would add.\n"
	"\n"
	"Exit code: 0 shown, 1 an error, 2 nothing that counts pins or DMA can be seen.\n";

static bool seconds(const char *s, double *out)
{
	char *end;

	/* Neither signs, nor "inf", nor hexadecimal. */
	if (strspn(s, "0123456789.") != strlen(s) || !*s)
		return false;
	errno = 0;
	*out = strtod(s, &end);
	return !*end && !errno && *out >= 0.1 && *out <= 3600;
}

static int options(struct tool *tool, int argc, char **argv, struct top_wish *wish, bool *plain)
{
	const char *delay = NULL, *count = NULL, *sort = NULL;
	bool once = false;
	const struct tool_own own[] = {
		{ .name = "delay", .letter = 'd', .value = &delay },
		{ .name = "count", .letter = 'n', .value = &count },
		{ .name = "once", .given = &once }, { .name = "sort", .value = &sort },
		{ .name = "plain", .given = plain },
	};
	int ret = tool_options_own(tool, argc, argv, OPTION_JSON | OPTION_ASCII, own,
				   sizeof(own) / sizeof(own[0]), usage);

	if (ret >= 0)
		return ret;
	if (delay && !seconds(delay, &wish->delay)) {
		warn("top: -d %s: not a number of seconds between 0.1 and 3600", delay);
		return EXIT_ERROR;
	}
	if (count && !text_u64(count, strlen(count), &wish->count)) {
		warn("top: -n %s: not a number", count);
		return EXIT_ERROR;
	}
	if (sort && !top_order_find(sort, &wish->order)) {
		warn("top: --sort %s: none of held, gets, dma, revocations, pid, name", sort);
		return EXIT_ERROR;
	}
	if (once || (!count && !isatty(STDOUT_FILENO)))
		wish->count = 1;
	*plain |= once;
	return -1;
}

static void pause_for(double delay)
{
	struct timespec left = { (time_t)delay, (long)((delay - (double)(time_t)delay) * 1e9) };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static int plain_or_json(const struct tool *tool, const struct top_wish *wish)
{
	struct top_sample before = { 0 }, now = { 0 };
	bool seen = false;
	int ret = EXIT_OK;

	for (uint64_t looks = 0; ret == EXIT_OK && (!wish->count || looks < wish->count); looks++) {
		if (looks)
			pause_for(wish->delay);
		before = now;
		if (top_look(tool, &now)) {
			top_free(&before);
			warn("top: out of memory");
			return EXIT_ERROR;
		}
		if (looks)
			top_rates(&before, &now);
		top_free(&before);
		top_sort(&now, wish->order);
		seen |= top_sees_something(&now);
		if (tool->json) {
			ret = top_json(&now);
		} else {
			if (looks)
				fputs("\n---\n", stdout);
			/* A terminal wraps, a file need not */
			top_text(tool, &now, wish->order, UINT_MAX, stdout);
			ret = fflush(stdout) ? EXIT_ERROR : EXIT_OK;
		}
	}
	top_free(&now);
	return ret == EXIT_OK && !seen ? EXIT_UNKNOWN : ret;
}

int cmd_top(struct tool *tool, int argc, char **argv)
{
	const char *term = getenv("TERM");
	struct top_wish wish = { .delay = 2 };
	bool plain = false;
	int ret = options(tool, argc, argv, &wish, &plain);

	if (ret >= 0)
		return ret;
	gpus_hold();
	plain |= tool->json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !term ||
		!strcmp(term, "dumb");
	return plain ? plain_or_json(tool, &wish) : top_screen(tool, &wish);
}
