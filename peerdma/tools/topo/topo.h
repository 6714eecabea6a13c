/* SPDX-License-Identifier: MIT */
/*
 * topo.h - the ways `peerdma topo` shows a machine in, to stdout.
 */
#pragma once

#include "machine/machine.h"
#include "base/tool.h"
#include "near.h"

struct json_object;

/* In blocks of columns that a line of `width' characters has room for; 0: in one. */
void topo_matrix(const struct machine *m, unsigned int width);
void topo_legend(void);
/* What a bridge is, in two words at most. */
const char *topo_port_word(const struct device *d);
void topo_tree(const struct machine *m, bool ascii);
int topo_json(const struct nears *n);		/* the exit code */
void topo_json_near(struct json_object *o, const struct nears *n);
void topo_near(const struct nears *n);		/* nothing if there are no GPUs or no adapters */
void topo_svg(const struct machine *m);

/* "16 MiB, 256 GiB": the memory BARs; "-" none, "?" not known. */
const char *bars_text(const struct device *d, char buf[160]);
const char *iommu_text(enum iommu_mode mode);
