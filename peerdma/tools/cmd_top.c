// SPDX-License-Identifier: MIT
/*
 * cmd_top.c - `peerdma top`: pins, BAR1, caches, revocations and DMA as they change.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpus.h"
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
	"Exit code: 0 told, 1 an error, 2 nothing that counts pins or DMA can be seen.\n";

enum { OPT_ONCE = 256, OPT_SORT, OPT_JSON, OPT_PLAIN, OPT_ASCII, OPT_ROOT };

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
	static const struct option all[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "delay", required_argument, NULL, 'd' },
		{ "count", required_argument, NULL, 'n' },
		{ "once", no_argument, NULL, OPT_ONCE },
		{ "sort", required_argument, NULL, OPT_SORT },
		{ "json", no_argument, NULL, OPT_JSON },
		{ "plain", no_argument, NULL, OPT_PLAIN },
		{ "ascii", no_argument, NULL, OPT_ASCII },
		{ "root", required_argument, NULL, OPT_ROOT },
		{ 0 },
	};
	bool counted = false;
	int c;

	*wish = (struct top_wish){ .delay = 2 };
	*plain = false;
	optind = 0;
	while ((c = getopt_long(argc, argv, "+hd:n:", all, NULL)) >= 0) {
		switch (c) {
		case 'h':
			fputs(usage, stdout);
			return EXIT_OK;
		case 'd':
			if (!seconds(optarg, &wish->delay)) {
				warn("top: -d %s: not a number of seconds between 0.1 and 3600", optarg);
				return EXIT_ERROR;
			}
			break;
		case 'n':
			if (!text_u64(optarg, strlen(optarg), &wish->count)) {
				warn("top: -n %s: not a number", optarg);
				return EXIT_ERROR;
			}
			counted = true;
			break;
		case OPT_ONCE:
			wish->count = 1;
			counted = *plain = true;
			break;
		case OPT_SORT:
			if (!top_order_find(optarg, &wish->order)) {
				warn("top: --sort %s: none of held, gets, dma, revocations, pid, name", optarg);
				return EXIT_ERROR;
			}
			break;
		case OPT_JSON:
			tool->json = true;
			break;
		case OPT_PLAIN:
			*plain = true;
			break;
		case OPT_ASCII:
			tool->ascii = true;
			break;
		case OPT_ROOT:
			tool->root = optarg;
			break;
		default:
			fputs(usage, stderr);
			return EXIT_ERROR;
		}
	}
	if (optind < argc) {
		warn("'%s' is not expected here", argv[optind]);
		fputs(usage, stderr);
		return EXIT_ERROR;
	}
	if (!counted && !isatty(STDOUT_FILENO))
		wish->count = 1;
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
			top_text(tool, &now, wish->order, stdout);
			ret = fflush(stdout) ? EXIT_ERROR : EXIT_OK;
		}
	}
	top_free(&now);
	return ret == EXIT_OK && !seen ? EXIT_UNKNOWN : ret;
}

int cmd_top(struct tool *tool, int argc, char **argv)
{
	const char *term = getenv("TERM");
	struct top_wish wish;
	bool plain;
	int ret = options(tool, argc, argv, &wish, &plain);

	if (ret >= 0)
		return ret;
	gpus_hold();
	plain |= tool->json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !term || !strcmp(term, "dumb");
	return plain ? plain_or_json(tool, &wish) : top_screen(tool, &wish);
}
