/* SPDX-License-Identifier: MIT */
/* bundle.h - a file of `peerdma doctor --bundle`, opened as a folder for tree_open(). */
#ifndef PEERDMA_BUNDLE_H
#define PEERDMA_BUNDLE_H

#include <stdbool.h>

struct bundle_place {
	char *folder;
	bool temporary;
};

/* A tar file, compressed or not, or a folder.  0, -EBADMSG: it is no bundle, or -errno. */
int bundle_open(struct bundle_place *b, const char *path);
void bundle_close(struct bundle_place *b);

#endif
