// SPDX-License-Identifier: MIT
/*
 * main.c - the peerdma command: finds the subcommand.
 */
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/tool.h"

static const struct command {
	const char *name;
	int (*run)(struct tool *tool, int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "bar1", cmd_bar1, "show how much of each GPU's BAR1 aperture is in use, and by what" },
	{ "bench", cmd_bench, "measure the library's calls on this machine" },
	{ "cache", cmd_cache, "show the registration caches of running processes" },
	{ "info", cmd_info, "show what libpeerdma has here: back-ends, monitors; and why not" },
	{ "metrics", cmd_metrics, "print pins, BAR1, caches and verdicts for Prometheus" },
	{ "pins", cmd_pins, "list pinned memory and its owners" },
	{ "doctor", cmd_doctor, "check whether GPUDirect RDMA works here, and if not, why" },
	{ "top", cmd_top, "watch pins, BAR1, caches and DMA" },
	{ "topo", cmd_topo, "show how far devices are from each other" },
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *to)
{
	fputs("Usage: peerdma [COMMAND [OPTIONS]]\n"
	      "\n"
	      "Without a command, peerdma prints an overview of this machine.\n\n", to);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].summary);
	fputs("  help     print this text, or, with a command's name, its help\n"
	      "\n"
	      "  --root DIR   read a captured tree instead of this machine\n"
	      "  --version    print the version\n"
	      "  --help       print this text; after a command, that command's help\n"
	      "\n"
	      "Exit code: 0 success, 1 error, 2 cannot tell (standard error has the reason).\n",
	      to);
}

static void look_at_terminal(struct tool *tool)
{
	const char *columns = getenv("COLUMNS");
	const char *term = getenv("TERM");
	struct winsize size;
	bool tty = isatty(STDOUT_FILENO);
	long n = columns ? strtol(columns, NULL, 10) : 0;

	if (n > 0 && n < 10000)
		tool->width = (unsigned int)n;
	else if (tty && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		tool->width = size.ws_col;
	tool->columns = tool->width ? tool->width : 80;
	tool->ascii = strcmp(nl_langinfo(CODESET), "UTF-8");
	tool->color = tty && !getenv("NO_COLOR") && term && strcmp(term, "dumb");
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	}
	return NULL;
}

/* The exit code of wrong usage and of errors: that of the command which stands there. */
static int wrong_code(const struct command *command, int otherwise)
{
	return command && command->run == cmd_doctor ? DOCTOR_FAILED : otherwise;
}

static int run(struct tool *tool, int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "root", required_argument, NULL, 'r' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	char *ask_help[] = { NULL, (char *)"--help", NULL };
	const struct command *command;
	const char *name;
	int c, wrong = 0;

	argv[0] = (char *)"peerdma";	/* getopt's messages begin as warn()'s do */
	while ((c = getopt_long(argc, argv, "+h", options, NULL)) >= 0) {
		switch (c) {
		case 'h':
			help(stdout);
			return EXIT_OK;
		case 'v':
			puts("peerdma " TOOL_VERSION);
			return EXIT_OK;
		case 'r':
			if (!wrong && !tool_path_given(NULL, "root", optarg))
				wrong = EXIT_UNKNOWN;
			tool->root = optarg;
			break;
		default:
			if (!wrong)
				help(stderr);
			wrong = wrong ? wrong : EXIT_ERROR;
		}
	}
	/* The command comes later, and its exit codes are its own. */
	if (wrong)
		return wrong_code(optind < argc ? command_find(argv[optind]) : NULL, wrong);
	if (optind == argc)
		return cmd_overview(tool, 1, argv);

	name = argv[optind];
	if (!strcmp(name, "help")) {
		if (optind + 1 == argc) {
			help(stdout);
			return EXIT_OK;
		}
		name = argv[optind + 1];
		argc = optind + 2;
		ask_help[0] = argv[optind + 1];
	}
	command = command_find(name);
	if (!command) {
		warn("there is no command '%s'", name);
		help(stderr);
		return EXIT_ERROR;
	}
	tool->failed = wrong_code(command, tool->failed);
	if (ask_help[0])
		return command->run(tool, 2, ask_help);
	return command->run(tool, argc - optind, argv + optind);
}

int main(int argc, char **argv)
{
	struct tool tool = { .root = "", .failed = EXIT_ERROR };
	int ret;

	setlocale(LC_CTYPE, "");
	look_at_terminal(&tool);
	ret = run(&tool, argc, argv);
	if (fflush(stdout) || ferror(stdout)) {
		warn("cannot write the output");
		return tool.failed;
	}
	return ret;
}
