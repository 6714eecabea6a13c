// SPDX-License-Identifier: MIT
/*
 * cmd_overview.c - `peerdma` alone: what is there, in a few lines.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "machine/gpus.h"
#include "pins/pins_table.h"
#include "base/tool.h"

static const char usage[] =
	"Usage: peerdma [--root DIR]\n"
	"\n"
	"Says what peerdma finds on this machine. 'peerdma help' lists the commands.\n";

static void module_line(const struct tool *tool)
{
	char *version = NULL, *clean = NULL;
	size_t length;

	if (!file_exists(tool->root, "/sys/module/peerdma")) {
		puts("module   peerdma.ko is not loaded; load it with 'modprobe peerdma'");
		return;
	}
	if (!file_read(tool->root, "/sys/module/peerdma/version", &version, &length))
		clean = text_clean(version, strcspn(version, "\n"));
	printf("module   peerdma.ko %s%sis loaded%s\n", clean ? clean : "", clean ? " " : "",
	       *tool->root || file_exists(tool->root, "/dev/peerdma") ? "" :
	       ", but /dev/peerdma is not there: in a container, pass it in");
	free(version);
	free(clean);
}

static void pins_line(const struct tool *tool)
{
	struct pins_table table;
	uint64_t bytes = 0;
	char size[32];
	int ret = pins_read(tool->root, &table);

	if (ret) {
		printf("pins     cannot tell: %s\n", pins_why(ret));
		return;
	}
	for (size_t i = 0; i < table.count; i++) {
		if (strcmp(table.pins[i].state, "revoked"))
			bytes += table.pins[i].pinned_length;
	}
	printf("pins     %zu, of %s ('peerdma pins' lists them)\n", table.count,
	       text_size(bytes, size));
	pins_free(&table);
}

static void gpu_lines(const struct tool *tool)
{
	char used[32], total[32];
	struct gpus gpus;

	if (gpus_read(tool->root, &gpus)) {
		printf("GPUs     cannot tell: %s\n", gpus.why);
		return;
	}
	if (!gpus.count)
		puts("GPUs     none");
	for (size_t i = 0; i < gpus.count; i++) {
		const struct gpu *g = &gpus.gpus[i];

		printf("GPU %-4" PRIu64 " %s %s, ", g->index, *g->pci ? g->pci : "(no PCI address)",
		       g->name);
		if (g->has_bar1)
			printf("BAR1 Used %s of %s\n", text_mib(g->used, used),
			       text_mib(g->total, total));
		else
			puts("BAR1 not reported");
	}
	gpus_free(&gpus);
}

int cmd_overview(struct tool *tool, int argc, char **argv)
{
	int ret = tool_options(tool, argc, argv, 0, usage);

	if (ret >= 0)
		return ret;
	module_line(tool);
	pins_line(tool);
	gpu_lines(tool);
	puts("\n'peerdma help' lists the commands.");
	return EXIT_OK;
}
