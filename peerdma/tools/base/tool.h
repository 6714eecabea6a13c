/* SPDX-License-Identifier: MIT */
/*
 * tool.h - what the files of the peerdma command share.
 *
 * A subcommand is a file cmd_NAME.c with one function and a line in main.c's
 * table.  What it reads, it reads below tool->root, so that a captured tree can
 * be replayed; what it prints of foreign text has been through text_clean().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TOOL_VERSION "0.1.0"

enum {			/* exit codes */
	EXIT_OK = 0,
	EXIT_ERROR = 1,	/* wrong usage, malformed input, output failed */
	EXIT_UNKNOWN = 2, /* cannot tell: no module, no GPU library, no permission */
	DOCTOR_FAILED = 64, /* EX_USAGE, of `peerdma doctor`: its smaller codes are verdicts */
};

enum {			/* options beside --root and --help that a subcommand takes */
	OPTION_JSON = 1 << 0,
	OPTION_TSV = 1 << 1,
	OPTION_ASCII = 1 << 2,
	OPTION_COLOR = 1 << 3,
};

struct tool {
	const char *root;	/* "" or a folder that stands for / */
	bool json, tsv;
	bool ascii;		/* draw with ASCII only */
	bool color;
	unsigned int columns;	/* of the terminal; 80 where there is none */
	unsigned int width;	/* the same; 0 where there is none: lines may have any length */
	int failed;		/* the exit code when the output cannot be written */
};

/* ---- options.c ---- */

/* Returns -1 to go on, or the exit code to end with. */
int tool_options(struct tool *tool, int argc, char **argv, unsigned int takes, const char *usage);

/*
 * The same with options of the subcommand's own.  Without a name it is an argument that
 * is no option: as many are taken, but not asked for, as there are such.
 */
struct tool_own {
	const char *name;
	char letter;		/* its short form, or 0 */
	const char **value;	/* where what follows it goes, or NULL: nothing follows, and: */
	bool *given;
	bool path;		/* that value is the path of a file or a folder: not empty */
};
#define TOOL_OWN_MAX	16
/*
 * An empty path is most often a shell's variable that is not set, and must not be taken for no path. False: it is one, and that was
 * said; then the command ends with EXIT_UNKNOWN, or what else it has for errors. name: the subcommand, or NULL.
 */
bool tool_path_given(const char *name, const char *option, const char *path);
int tool_options_own(struct tool *tool, int argc, char **argv, unsigned int takes,
		     const struct tool_own *own, size_t count, const char *usage);

/* ---- cmd_NAME.c ---- */

int cmd_overview(struct tool *tool, int argc, char **argv);
int cmd_pins(struct tool *tool, int argc, char **argv);
int cmd_bar1(struct tool *tool, int argc, char **argv);
int cmd_bench(struct tool *tool, int argc, char **argv);
int cmd_cache(struct tool *tool, int argc, char **argv);
int cmd_doctor(struct tool *tool, int argc, char **argv);
int cmd_info(struct tool *tool, int argc, char **argv);
int cmd_metrics(struct tool *tool, int argc, char **argv);
int cmd_top(struct tool *tool, int argc, char **argv);
int cmd_topo(struct tool *tool, int argc, char **argv);

/* ---- text.c ---- */

/*
 * Makes bytes of unknown origin fit to print and to put in JSON: valid UTF-8
 * stays, control characters and all else become \xNN.  malloc()ed, NULL: out of memory.
 */
char *text_clean(const char *s, size_t length);
size_t text_width(const char *s);			/* characters of cleaned text */
void text_pad(const char *s, int width);		/* to stdout; negative: to the left */
void text_pad_to(FILE *to, const char *s, int width);
/* "64 KiB", "1.5 GiB": exact or one decimal */
const char *text_size(uint64_t bytes, char buf[32]);
const char *text_mib(uint64_t bytes, char buf[32]);	/* "262144 MiB", as nvidia-smi -q */
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Strictly a number, all of it, that fits: decimal or 0x. */
bool text_u64(const char *s, size_t length, uint64_t *out);

/* ---- near_name.c ---- */

/*
 * Of n names, the one that a mistyped name was most likely meant to be. NULL: none is near. The first
 * `prefix` characters, which all have in common, do not count.
 */
const char *near_name(const char *name, const char *const *names, size_t n, size_t prefix);

/* ---- file.c ---- */

#define FILE_MAX (64UL << 20)

/*
 * Reads root/path whole, at most FILE_MAX bytes (-EFBIG), never waits for a
 * pipe's other end.  *data is malloc()ed and ends with a NUL that *length does
 * not count.  0 or -errno.
 */
int file_read(const char *root, const char *path, char **data, size_t *length);
/* The same of a file that is to be a regular one: -ENOTSUP if it is a folder, a pipe or a device. */
int file_read_regular(const char *path, char **data, size_t *length);
/* The same of what is open already, at most max bytes. */
int file_read_all(int fd, size_t max, char **data, size_t *length);
int file_write_all(int fd, const char *data, size_t length);
bool file_exists(const char *root, const char *path);

/* Cuts a tab-separated line [s, end) in place of copying it.  Returns the number of fields, `max` at most. */
struct field {
	const char *s;
	size_t length;
};
size_t tsv_split(const char *s, const char *end, struct field *fields, size_t max);
bool field_is(const struct field *f, const char *s);
