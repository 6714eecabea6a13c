/* SPDX-License-Identifier: MIT */
/* pair_main.h - what `peerdma doctor --pair` is asked for. */
#pragma once

#include <stdbool.h>

struct pair_wish {
	const char *a, *b;	/* two bundles; a NULL: this machine, and b is a host */
	const char *root;	/* this machine's, as of tree_open() */
	const char *rsh;
	unsigned int seconds;	/* for the host's bundle */
	bool probe;		/* data is moved between this machine and the host */
};

struct tool;
int pair_main(const struct tool *tool, const struct pair_wish *w);	/* the exit code */
