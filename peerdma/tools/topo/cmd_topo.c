// SPDX-License-Identifier: MIT
/*
 * cmd_topo.c - `peerdma topo`: which devices there are, and how far from each other.
 */
#include <errno.h>
#include <string.h>

#include "machine/gpu_names.h"
#include "topo.h"
#include "base/tool.h"

static const char usage[] =
	"Usage: peerdma topo [--json | --svg | --matrix | --tree] [--ascii] [--root DIR]\n"
	"\n"
	"GPUs, network adapters, NVMe drives and cards: how far each is from each other, which\n"
	"adapters are nearest to each GPU, and how they hang together, with their links, BARs,\n"
	"IOMMU groups and NUMA nodes.\n"
	"\n"
	"  --matrix      only the matrix\n"
	"  --tree        only the tree\n"
	"  --json        one JSON object, schema peerdma-topo/1\n"
	"  --svg         a drawing\n"
	"  --ascii       no characters outside ASCII in the tree\n"
	"  --root DIR    reads a captured machine ('peerdma doctor --bundle' makes one)\n"
	"\n"
	"Exit code: 0 shown, 1 an error, 2 cannot tell: no PCI here.\n";

/* What was asked for; none of them: the matrix and the tree. */
struct wish {
	bool svg, matrix, tree;
};

static int show(const struct tool *tool, const struct nears *n, const struct wish *w)
{
	const struct machine *m = n->m;

	if (tool->json)
		return topo_json(n);
	if (w->svg) {
		topo_svg(m);
		return EXIT_OK;
	}
	if (!m->shown_count) {
		puts("No GPUs, network adapters, NVMe drives or cards on the PCI bus.");
		return EXIT_OK;
	}
	if (!w->tree) {
		topo_matrix(m, tool->width);
		topo_legend();
	}
	if (!w->tree && !w->matrix) {
		topo_near(n);
		putchar('\n');
	}
	if (!w->matrix)
		topo_tree(m, tool->ascii);
	if (m->virtual && !w->tree)
		puts("\nThis is a virtual machine: its PCI topology may differ from the host's.");
	return EXIT_OK;
}

/* machine_read()'s errors. */
static int read_all(struct machine *m, struct nears *n, struct tree *tree)
{
	int ret = machine_read(m, tree);

	if (!ret)
		ret = gpu_names_read(m);
	return ret ? ret : nears_read(m, n);
}

int cmd_topo(struct tool *tool, int argc, char **argv)
{
	struct machine m;
	struct nears n = { 0 };
	struct tree *tree;
	struct wish w = { 0 };
	const struct tool_own own[] = {
		{ .name = "svg", .given = &w.svg }, { .name = "matrix", .given = &w.matrix },
		{ .name = "tree", .given = &w.tree },
	};
	int ret = tool_options_own(tool, argc, argv, OPTION_JSON | OPTION_ASCII, own,
				   sizeof(own) / sizeof(own[0]), usage);

	if (ret >= 0)
		return ret;
	if (tool->json + w.svg + w.matrix + w.tree > 1) {
		warn("topo: choose one of --json, --svg, --matrix and --tree");
		return EXIT_ERROR;
	}
	tree = tree_open(tool->root);
	if (!tree) {
		warn("topo: %s: %s", tool->root, strerror(errno));
		return EXIT_ERROR;
	}
	ret = read_all(&m, &n, tree);
	if (ret == -ENOMEM)
		warn("topo: out of memory");
	else if (ret)
		warn("topo: %s", machine_why(ret));
	if (ret)
		ret = ret == -ENOMEM ? EXIT_ERROR : EXIT_UNKNOWN;
	else
		ret = show(tool, &n, &w);
	nears_free(&n);
	machine_free(&m);
	tree_close(tree);
	return ret;
}
