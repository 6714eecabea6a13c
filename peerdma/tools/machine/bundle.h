/* SPDX-License-Identifier: MIT */
/* bundle.h - a file of `peerdma doctor --bundle`, opened as a folder for tree_open(). */
#pragma once

#include <signal.h>
#include <stdbool.h>

struct bundle_place {
	char *folder;
	bool temporary;
	/* The caller's mask; while there is a temporary folder, signals that end the program wait. */
	sigset_t signals;
};

/*
 * A tar file, compressed or not, or a folder.  0, -EBADMSG: it is no bundle or not a whole one,
 * or -errno.  *what is what failed: path, the folder for temporary files, or tar(1).
 */
int bundle_open(struct bundle_place *b, const char *path, const char **what);
void bundle_close(struct bundle_place *b);
