/* SPDX-License-Identifier: MIT */
/* side.h - one of two machines that are put beside each other: opened, examined, and its rails read. */
#pragma once

#include <stdbool.h>

#include "machine/bundle.h"
#include "pair_facts.h"

struct side {
	struct bundle_place place;
	struct tree *tree;
	struct machine machine;
	struct doctor doctor;
	struct node node;
	bool has_machine, has_doctor;
};

/*
 * A bundle, as a file or unpacked.  name: what messages call it.  False: it failed, and that was
 * said.  Either way side_close() ends it; `s' is zeros before.
 */
bool side_open(struct side *s, const char *path, const char *name);
/* This machine, or a captured one: root as of tree_open(). */
bool side_open_root(struct side *s, const char *root);
void side_close(struct side *s);
