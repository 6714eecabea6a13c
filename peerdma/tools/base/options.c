// SPDX-License-Identifier: MIT
/*
 * options.c - the options of subcommands.
 */
#include <getopt.h>

#include "tool.h"

enum { OPT_JSON = 256, OPT_TSV, OPT_ASCII, OPT_COLOR, OPT_ROOT, OPT_VERSION, OPT_OWN };

int tool_options(struct tool *tool, int argc, char **argv, unsigned int takes, const char *usage)
{
	return tool_options_own(tool, argc, argv, takes, NULL, 0, usage);
}

bool tool_path_given(const char *name, const char *option, const char *path)
{
	if (*path)
		return true;
	warn("%s%s--%s: the path is empty; give one, or leave the option out (is a variable of the shell not set?)", name ? name : "",
	     name ? ": " : "", option);
	return false;
}

/* -1: none of its own; else 0, or the exit code to end with. */
static int take_own(const char *name, const struct tool_own *own, size_t count, int c)
{
	for (size_t i = 0; i < count; i++) {
		if (c != OPT_OWN + (int)i && (c != own[i].letter || !own[i].letter))
			continue;
		if (own[i].path && !tool_path_given(name, own[i].name, optarg))
			return EXIT_UNKNOWN;
		if (own[i].value)
			*own[i].value = optarg;
		else
			*own[i].given = true;
		return 0;
	}
	return -1;
}

int tool_options_own(struct tool *tool, int argc, char **argv, unsigned int takes,
		     const struct tool_own *own, size_t count, const char *usage)
{
	static const struct {
		struct option option;
		unsigned int needs;
	} all[] = {
		{ { "help", no_argument, NULL, 'h' }, 0 },
		{ { "root", required_argument, NULL, OPT_ROOT }, 0 },
		{ { "version", no_argument, NULL, OPT_VERSION }, 0 },
		{ { "json", no_argument, NULL, OPT_JSON }, OPTION_JSON },
		{ { "tsv", no_argument, NULL, OPT_TSV }, OPTION_TSV },
		{ { "ascii", no_argument, NULL, OPT_ASCII }, OPTION_ASCII },
		{ { "color", no_argument, NULL, OPT_COLOR }, OPTION_COLOR },
	};
	struct option options[sizeof(all) / sizeof(all[0]) + TOOL_OWN_MAX + 1] = { 0 };
	char letters[2 * TOOL_OWN_MAX + 3] = "+h", *letter = letters + 2, *name = argv[0];
	static char prefix[64];
	size_t n = 0;
	int c, ret;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if ((all[i].needs & takes) == all[i].needs)
			options[n++] = all[i].option;
	}
	for (size_t i = 0; i < count && i < TOOL_OWN_MAX; i++) {
		if (!own[i].name) {
			/* Where an argument is expected, options may come after it */
			letters[0] = 'h';
			continue;
		}
		options[n++] = (struct option){ own[i].name,
						own[i].value ? required_argument : no_argument,
						NULL, OPT_OWN + (int)i };
		if (own[i].letter)
			*letter++ = own[i].letter;
		if (own[i].letter && own[i].value)
			*letter++ = ':';
	}
	/* getopt's messages begin as warn()'s do. */
	snprintf(prefix, sizeof(prefix), "peerdma: %s", name);
	argv[0] = prefix;
	optind = 0;
	while ((c = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
		switch (c) {
		case 'h':
			fputs(usage, stdout);
			return EXIT_OK;
		case OPT_VERSION:
			puts("peerdma " TOOL_VERSION);
			return EXIT_OK;
		case OPT_ROOT:
			if (!tool_path_given(name, "root", optarg))
				return EXIT_UNKNOWN;
			tool->root = optarg;
			break;
		case OPT_JSON:
			tool->json = true;
			break;
		case OPT_TSV:
			tool->tsv = true;
			break;
		case OPT_ASCII:
			tool->ascii = true;
			break;
		case OPT_COLOR:
			tool->color = true;
			break;
		default:
			ret = take_own(name, own, count, c);
			if (!ret)
				break;
			if (ret > 0)
				return ret;
			fputs(usage, stderr);
			return EXIT_ERROR;
		}
	}
	for (size_t i = 0; i < count && optind < argc; i++) {
		if (!own[i].name)
			*own[i].value = argv[optind++];
	}
	if (optind < argc) {
		warn("%s: '%s' is not expected here", name, argv[optind]);
		fputs(usage, stderr);
		return EXIT_ERROR;
	}
	if (tool->json && tool->tsv) {
		warn("%s: choose one of --json and --tsv", name);
		return EXIT_ERROR;
	}
	return -1;
}
