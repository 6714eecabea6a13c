// SPDX-License-Identifier: MIT
/*
 * cmd_bar1.c - `peerdma bar1`: how full is each GPU's aperture, and of what?
 */
#include <errno.h>
#include <inttypes.h>

#include "gpu_aperture.h"
#include "base/json.h"
#include "base/tool.h"

static const char usage[] =
	"Usage: peerdma bar1 [--json | --tsv] [--ascii] [--color] [--root DIR]\n"
	"\n"
	"For each GPU: the size and use of BAR1, the aperture through which other devices\n"
	"reach its memory, as its driver counts it (NVML), a picture of what the pins of\n"
	"peerdma.ko hold of it, and in what pieces they leave the rest (needs root, since\n"
	"debugfs does).\n"
	"\n"
	"  --json        one JSON object, schema peerdma-bar1/1\n"
	"  --tsv         the driver's figures in bytes, for scripts and for --root\n"
	"  --ascii       no characters outside ASCII in the picture\n"
	"  --color       colours although the output is no terminal\n"
	"  --root DIR    reads DIR/nvml.tsv (from --tsv), DIR" PINS_PATH " and\n"
	"                DIR/sys/bus/pci/devices instead\n"
	"\n"
	"Exit code: 0 shown, 1 an input is malformed, 2 not available: no GPU library, or it failed.\n";

/* What the driver counts beyond peerdma's pins.  Both are read one after the other, so they may not fit. */
static uint64_t others(const struct gpu *gpu, const struct gpu_aperture *v)
{
	return gpu->used > v->aperture.held ? gpu->used - v->aperture.held : 0;
}

static void figure(const char *name, bool known, uint64_t mib, const char *more)
{
	if (known)
		printf("        %-47s: %" PRIu64 " MiB%s\n", name, mib, more);
	else
		printf("        %-47s: N/A\n", name);
}

/* As nvidia-smi -q rounds: what is used down, and the rest is free. But what is used is not shown as nothing. */
static void people_figures(const struct gpu *gpu)
{
	char size[32], exact[48] = "";

	if (gpu->used && !(gpu->used >> 20))
		snprintf(exact, sizeof(exact), " (%s)", text_size(gpu->used, size));
	puts("    BAR1 Memory Usage");
	figure("Total", gpu->has_bar1, gpu->total >> 20, "");
	figure("Used", gpu->has_bar1, gpu->used >> 20, exact);
	figure("Free", gpu->has_bar1,
	       gpu->used < gpu->total ? (gpu->total >> 20) - (gpu->used >> 20) : 0, "");
}

static void people(const struct tool *tool, const struct gpu *gpu, const struct gpu_aperture *v,
		   int pins_error)
{
	char size[32];

	printf("GPU %" PRIu64 "  %s  %s\n", gpu->index, *gpu->pci ? gpu->pci : "(no PCI address)",
	       gpu->name);
	people_figures(gpu);
	if (v->bar < 0) {
		printf("    No picture: %s.\n", v->why);
		return;
	}
	printf("    Aperture (PCI resource %d)", v->bar);
	if (v->aperture.count)
		printf(": pins of peerdma hold %s", text_size(v->aperture.held, size));
	putchar('\n');
	aperture_draw(tool, &v->aperture, "    ");
	if (pins_error)
		return;		/* said once, for all GPUs */
	if (!v->aperture.count)
		puts("      no pins of peerdma");
	if (v->scattered)
		printf("      the aperture is %s of this: the driver maps pins anywhere in the resource\n", text_size(gpu->total, size));
	else
		free_runs_draw(tool, &v->aperture.free, "      ");
	if (gpu->has_bar1 && others(gpu, v))
		printf("      held by others or reserved: %s; the driver does not say where\n",
		       text_size(others(gpu, v), size));
	if (gpu->has_bar1 && gpu->used < v->aperture.held)
		puts("      the driver counts less as used: it does not count these pins, or they are newer");
}

static void json_gpu(struct json_object *o, const struct gpu *gpu, const struct gpu_aperture *v,
		     int pins_error)
{
	struct json_object *inner, *owners, *owner;

	json_number(o, "index", gpu->index);
	json_text(o, "pci", *gpu->pci ? gpu->pci : NULL);
	json_text(o, "name", gpu->name);
	json_text(o, "uuid", gpu->uuid);
	if (gpu->has_bar1) {
		inner = json_object_in(o, "bar1");
		json_number(inner, "total", gpu->total);
		json_number(inner, "used", gpu->used);
		json_number(inner, "free", gpu->free);
	} else {
		json_null(o, "bar1");
	}
	if (v->bar < 0) {
		json_null(o, "aperture");
		json_text(o, "aperture_unknown", v->why);
		return;
	}
	inner = json_object_in(o, "aperture");
	json_number(inner, "resource", v->bar);
	json_address(inner, "start", v->aperture.range.start);
	json_number(inner, "length", v->aperture.range.length);
	if (pins_error)
		return;
	json_number(inner, "held_by_peerdma", v->aperture.held);
	if (gpu->has_bar1)
		json_number(inner, "held_by_others", others(gpu, v));
	if (!v->scattered) {
		json_number(inner, "free_runs", v->aperture.free.count);
		json_number(inner, "largest_free_run", v->aperture.free.largest);
		json_number(inner, "fragmentation_percent", free_runs_percent(&v->aperture.free));
	}
	owners = json_array_in(inner, "owners");
	for (size_t i = 0; i < v->aperture.count; i++) {
		const struct owner *from = &v->aperture.owners[i];

		owner = json_append(owners);
		json_number(owner, "pid", from->pid);
		json_text(owner, "comm", from->comm);
		json_number(owner, "pins", from->pins);
		json_number(owner, "held", from->held);
		json_ranges(owner, "ranges", from->ranges, from->count);
	}
}

static int print_all(struct tool *tool, const struct gpus *gpus, const struct pins_table *pins,
		     int pins_error)
{
	struct json_object *o = NULL, *array = NULL;
	int ret = 0;

	if (tool->json) {
		o = json_new("peerdma-bar1/1");
		json_text(o, "pins_unknown", pins_error ? pins_why(pins_error) : NULL);
		array = json_array_in(o, "gpus");
	}
	for (size_t i = 0; i < gpus->count; i++) {
		struct gpu_aperture v;

		ret = gpu_aperture_fill(tool->root, &gpus->gpus[i], pins, &v);
		if (ret) {
			warn("bar1: out of memory");
			return EXIT_ERROR;
		}
		if (tool->json) {
			json_gpu(json_append(array), &gpus->gpus[i], &v, pins_error);
		} else {
			if (i)
				putchar('\n');
			people(tool, &gpus->gpus[i], &v, pins_error);
		}
		aperture_free(&v.aperture);
	}
	if (tool->json)
		return json_print(o);
	if (!gpus->count)
		puts("No GPUs.");
	if (pins_error) {
		printf("\nNot known who holds it: %s.\n", pins_why(pins_error));
	}
	return EXIT_OK;
}

int cmd_bar1(struct tool *tool, int argc, char **argv)
{
	struct pins_table pins = { 0 };
	struct gpus gpus;
	int pins_error, ret = tool_options(tool, argc, argv, OPTION_JSON | OPTION_TSV |
					   OPTION_ASCII | OPTION_COLOR, usage);

	if (ret >= 0)
		return ret;
	ret = gpus_read(tool->root, &gpus);
	if (ret) {
		warn("bar1: %s", gpus.why);
		return ret == -EBADMSG || ret == -ENOMEM ? EXIT_ERROR : EXIT_UNKNOWN;
	}
	if (tool->tsv) {
		gpus_write_tsv(&gpus, stdout, true);
		gpus_free(&gpus);
		return EXIT_OK;
	}
	pins_error = pins_read(tool->root, &pins);
	ret = print_all(tool, &gpus, &pins, pins_error);
	if (pins_error == -EBADMSG || pins_error == -ENOMEM || pins.malformed) {
		warn("bar1: %s", pins_error ? pins_why(pins_error) :
		     PINS_PATH ": has malformed lines, left out; see 'peerdma pins'");
		ret = EXIT_ERROR;
	}
	pins_free(&pins);
	gpus_free(&gpus);
	return ret;
}
