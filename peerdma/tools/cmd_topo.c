// SPDX-License-Identifier: MIT
/*
 * cmd_topo.c - `peerdma topo`: which devices there are, and how far from each other.
 */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "machine/topo.h"
#include "tool.h"

static const char usage[] =
	"Usage: peerdma topo [--json | --svg | --matrix | --tree] [--ascii] [--root DIR]\n"
	"\n"
	"GPUs, network adapters, NVMe drives and cards: how far each is from each other, and\n"
	"how they hang together, with their links, BARs, IOMMU groups and NUMA nodes.\n"
	"\n"
	"  --matrix      only the matrix\n"
	"  --tree        only the tree\n"
	"  --json        one JSON object, schema peerdma-topo/1\n"
	"  --svg         a drawing\n"
	"  --ascii       no characters outside ASCII in the tree\n"
	"  --root DIR    reads a captured machine ('peerdma doctor --bundle' makes one)\n"
	"\n"
	"Exit code: 0 told, 1 an error, 2 cannot tell: no PCI here.\n";

enum { OPT_JSON = 256, OPT_SVG, OPT_MATRIX, OPT_TREE, OPT_ASCII, OPT_ROOT };

static int options(struct tool *tool, int argc, char **argv, int *what)
{
	static const struct option all[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, OPT_JSON },
		{ "svg", no_argument, NULL, OPT_SVG },
		{ "matrix", no_argument, NULL, OPT_MATRIX },
		{ "tree", no_argument, NULL, OPT_TREE },
		{ "ascii", no_argument, NULL, OPT_ASCII },
		{ "root", required_argument, NULL, OPT_ROOT },
		{ 0 },
	};
	int c;

	*what = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, "+h", all, NULL)) >= 0) {
		switch (c) {
		case 'h':
			fputs(usage, stdout);
			return EXIT_OK;
		case OPT_ROOT:
			tool->root = optarg;
			break;
		case OPT_ASCII:
			tool->ascii = true;
			break;
		case OPT_JSON:
		case OPT_SVG:
		case OPT_MATRIX:
		case OPT_TREE:
			if (*what && *what != c) {
				warn("choose one of --json, --svg, --matrix and --tree");
				return EXIT_ERROR;
			}
			*what = c;
			break;
		default:
			fputs(usage, stderr);
			return EXIT_ERROR;
		}
	}
	if (optind < argc) {
		warn("'%s' is not expected here", argv[optind]);
		fputs(usage, stderr);
		return EXIT_ERROR;
	}
	return -1;
}

static int show(const struct tool *tool, const struct machine *m, int what)
{
	if (what == OPT_JSON)
		return topo_json(m);
	if (what == OPT_SVG) {
		topo_svg(m);
		return EXIT_OK;
	}
	if (!m->shown_count) {
		puts("No GPUs, network adapters, NVMe drives or cards on the PCI bus.");
		return EXIT_OK;
	}
	if (what != OPT_TREE) {
		topo_matrix(m);
		topo_legend();
	}
	if (!what)
		putchar('\n');
	if (what != OPT_MATRIX)
		topo_tree(m, tool->ascii);
	if (m->virtual && what != OPT_TREE)
		puts("\nThis is a virtual machine: what it is told of PCI need not be how the host is built.");
	return EXIT_OK;
}

int cmd_topo(struct tool *tool, int argc, char **argv)
{
	struct machine m;
	struct tree *tree;
	int what, ret = options(tool, argc, argv, &what);

	if (ret >= 0)
		return ret;
	tree = tree_open(tool->root);
	if (!tree) {
		warn("topo: %s: %s", tool->root, strerror(errno));
		return EXIT_ERROR;
	}
	ret = machine_read(&m, tree);
	if (ret == -ENOMEM)
		warn("topo: out of memory");
	else if (ret)
		warn("topo: %s", machine_why(ret));
	if (ret)
		ret = ret == -ENOMEM ? EXIT_ERROR : EXIT_UNKNOWN;
	else
		ret = show(tool, &m, what);
	machine_free(&m);
	tree_close(tree);
	return ret;
}
