/* SPDX-License-Identifier: MIT */
/*
 * tree.h - `peerdma topo` and `peerdma doctor` read a machine only through this: the
 * machine's own files, or a captured machine's below a folder.
 *
 * Each file is read once and cached until the end, so that all checks see the same
 * machine, and a bundle has exactly what the verdicts are based on.  A captured tree is
 * untrusted: only regular files are read, links cannot lead out of the folder, and
 * files that are too large are refused.
 *
 * A bundle has regular files only.  Its file /bundle.tsv has the rest: targets of links,
 * what could not be read and why, and the access rights of device nodes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define TREE_INDEX	"/bundle.tsv"
#define TREE_COMMANDS	"/commands/"	/* what commands printed, a file each */
#define TREE_FILE_MAX	(1UL << 20)

struct tree;

/* root "": this machine.  NULL: out of memory, or the index of a bundle is malformed or unreadable (errno). */
struct tree *tree_open(const char *root);
void tree_close(struct tree *t);
bool tree_is_live(const struct tree *t);

/*
 * All of them: 0 or -errno, always the same answer; what they hand out lives as
 * long as the tree.  -ENOENT also for what a bundle does not have.
 */
int tree_read(struct tree *t, const char *path, const char **data, size_t *length);
/* Only the lines that `keep` wants, for files that are large or have more in them than concerns us. */
typedef bool (*tree_keep)(const char *line, size_t length, void *arg);
int tree_lines(struct tree *t, const char *path, tree_keep keep, void *arg, const char **data,
	       size_t *length);
/* The same of the kernel's log, in a captured tree a file of that name. */
#define TREE_LOG	"/dev/kmsg"
int tree_log(struct tree *t, tree_keep keep, void *arg, const char **data);
int tree_link(struct tree *t, const char *path, const char **target);
/* Sorted; a name each, ended by an empty one: "a\0b\0\0". */
int tree_list(struct tree *t, const char *path, const char **names);
/* Runs argv (argv[0] is looked for in the administrators' folders only), no shell; `name` is its file's in a bundle. */
int tree_command(struct tree *t, const char *name, const char *const argv[], const char **data,
		 size_t *length);

/* What was learnt in another way, as if it had been a file.  0 or -errno. */
int tree_put(struct tree *t, const char *path, const char *data, size_t length);

struct tree_node {
	mode_t mode;		/* type and rights */
	bool usable;		/* the caller may read and write it */
	/* Its device cgroup forbids it, whatever the rights: the device is another job's */
	bool refused;
};
int tree_node(struct tree *t, const char *path, struct tree_node *node);

/* The first line, cleaned for printing and cut to `size`; "" on error. */
int tree_word(struct tree *t, const char *path, char *out, size_t size);
/* The same of text at hand */
int tree_clean(char *out, size_t size, const char *s, size_t length);
int tree_number(struct tree *t, const char *path, int64_t *out);
/* Of files that can be read, and of folders */
bool tree_exists(struct tree *t, const char *path);

#define tree_next(name)	((name) + strlen(name) + 1)

/* bundle.c: all that has been read so far, as a tar file.  0 or -errno. */
int tree_bundle(struct tree *t, int fd);

/* What bundle.c sees of it. */
enum tree_kind { TREE_READ, TREE_LINES, TREE_LINK, TREE_LIST, TREE_COMMAND, TREE_NODE };
struct tree_entry {
	enum tree_kind kind;
	char *path;
	int error;
	char *data;
	size_t length;
	struct tree_node node;
};
typedef int (*tree_visit)(const struct tree_entry *e, void *arg);
int tree_each(struct tree *t, tree_visit visit, void *arg);	/* by kind, then path */
